"""Answers to "why": why a pod moves or stays, what a node and a cycle amount to, what would help.

Nothing here decides: the plan is drawn as in `resettle plan`, while pods and nodes are watched.
Start reading at `pod.explain_pod`; `node` and `cycle` have the other two questions, and
`smallest_change` finds what would have to be different, by drawing plans with `what_if`. Only the
command line imports this package.
"""
