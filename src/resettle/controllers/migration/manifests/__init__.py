"""The objects that an installation of the migration controller needs besides roles.

`crd` is the definition of PodMigrationJob, `admission_policy` who may create jobs and what the
account of their controller may write. Nothing here talks to a cluster. Start with `crd`. `cli`,
`tools` and tests import it.

Import from outside: `admission_policy`, `crd`.
"""
