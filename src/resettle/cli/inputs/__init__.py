"""From flags to a snapshot, a policy, a scenario.

`cluster` reads files or asks a cluster, `recorded` opens a record, `simulation` and `scenario` read
what `simulate` takes. Nothing is printed here but problems. Start with `cluster`.
`cli.commands` imports it.

Import from outside: `cluster`, `recorded`, `simulation`.
"""
