"""What LowNodeUtilization, HighNodeUtilization and LowNodeLoad share: moving load off nodes.

`upstream` follows kubernetes-sigs/descheduler step by step, `improved` is the way of `resettle/v1`:
only to nodes that take the pod, and only if it helps. It is no plugin itself. Start with
`upstream`. Only plugins import it.

Import from outside: `improved`, `upstream`.
"""
