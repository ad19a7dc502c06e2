"""Every metric: its name, help text and labels, and who counts it.

`catalogue` lists them (the page in `docs` is made from it), `run` counts for `resettle run`,
`soft_tainter` for the soft tainter, `registry` renders them for Prometheus. Start with `catalogue`.
`telemetry.endpoint` and `cli` import it.

Import from outside: `registry`, `run`, `soft_tainter`.
"""
