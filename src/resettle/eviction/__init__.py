"""Carrying out a plan: one last check, the request, the answer, and what followed.

`executor` sends the moves of a plan within its limits, `eviction_api` is the default mover,
`in_flight` follows moves until the pod is gone, `pod_events` writes the events that users see. It
chooses no pods. Start with `executor`. `cycle`, `runtime` and `cli` import it.

Import from outside: `eviction_api`, `executor`, `in_flight`, `pod_events`.
"""
