"""Other apiVersions of the policy, and what differs between them.

`v1alpha1` converts the oldest form, `upgrade` prints a policy in a newer apiVersion,
`upstream_differences` lists where `resettle/v1` decides differently from `descheduler/v1alpha2`.
Reading the current form is `policy.load`. Start with `upgrade`. `policy` and `cli` import it.

Import from outside: `upgrade`, `upstream_differences`, `v1alpha1`.
"""
