"""The soft tainter: marks busy nodes with PreferNoSchedule taints, so that new pods go elsewhere.

`desired` computes the taints from usage (no I/O), `apply` writes the difference to nodes,
`reconcile` is one pass, `runner` its place in the runtime, `admission_policy` the
ValidatingAdmissionPolicy that keeps it to its own taints. It evicts nothing. Start with
`reconcile`. `telemetry` and `cli` import it.

Import from outside: `admission_policy`, `apply`, `desired`, `reconcile`, `runner`.
"""
