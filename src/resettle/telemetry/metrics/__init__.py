"""Every metric: its name, help text and labels, and who counts it.

`catalogue` lists them (the page in `docs` is made from it), `moves` counts for every component that
moves pods, `run` for `resettle run`, `soft_tainter` for the soft tainter, `registry` renders them
for Prometheus. Start with `catalogue`. `telemetry.endpoint` and `cli` import it.

Import from outside: `moves`, `registry`, `run`, `soft_tainter`.
"""
