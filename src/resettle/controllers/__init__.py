"""Controllers: each computes what should exist and writes only the difference.

Each controller is a package with the same files: `desired` (pure: what should exist), `apply`
(writes the difference), `reconcile` (one pass), `runner` (its place in the runtime). One with a
custom resource adds `types`; one with a state machine has `next_step` in place of `desired`.
Planned are `operator` and `kubevirt`. The loop, leadership and policy reload are in
`runtime`, not here. Start with `soft_taints.reconcile`. `telemetry` and `cli` import it.
"""
