"""Which permissions a policy needs; manifests that grant them; access reviews.

`permissions` derives them from the plugins' declarations, `manifests` prints roles, `reviews` asks
the API server what an account may do. Start with `permissions`. Everything above `kube` may
import it.

Import from outside: `manifests`, `permissions`, `reviews`.
"""
