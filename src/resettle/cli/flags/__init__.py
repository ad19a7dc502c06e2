"""Flags that several commands share, and how their values are read.

`common` has those of nearly every command, `daemon` those of components that run for long (lease,
endpoint, traces), `record` those of the record. Start with `common`. `cli.commands` and
`cli.inputs` import it.

Import from outside: `common`, `daemon`, `record`, `upstream`.
"""
