"""Which permissions a policy needs; manifests that grant them; access reviews.

`permissions` derives them from the plugins' declarations, `manifests` prints roles,
`admission_policies` narrows what they grant, `reviews` asks the API server what an account may do.
Start with `permissions`. Everything above `kube` may import it.

Import from outside: `admission_policies`, `manifests`, `permissions`, `reviews`.
"""
