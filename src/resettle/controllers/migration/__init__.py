"""The migration controller: moves pods for PodMigrationJobs, with a place held for the replacement.

`reconcile` is the controller, `plugin` its place in a policy, `runner` its own process. What is
decided are functions of values: `arbitration` (which waiting jobs may start), `next_step` (what
comes next for one that has started), `reservations` (placeholder pods), `replacement` (which new
pod takes the place), `desired` (what all jobs need together). `manifests` defines the resource and
who may create jobs. Start with `next_step`. `telemetry` and `cli` import it.

Import from outside: `arbitration`, `desired`, `manifests`, `next_step`, `plugin`, `reconcile`,
`replacement`, `reservations`, `runner`, `status`, `types`.
"""
