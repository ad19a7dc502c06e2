"""Carrying out a plan: one last check, the request, the answer, and what followed.

`executor` sends the moves of a plan within its limits, `eviction_api` is the default mover,
`migration_job` the one that creates PodMigrationJobs, `evictor` asks the filters once more,
`in_flight` follows moves until the pod is gone, `recent` remembers evictions for limits over time,
`pod_events` writes the events that users see. It chooses no pods. Start with `executor`. `cycle`,
`controllers`, `runtime` and `cli` import it.

Import from outside: `eviction_api`, `evictor`, `executor`, `in_flight`, `migration_job`,
`pod_events`, `recent`.
"""
