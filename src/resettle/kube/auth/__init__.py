"""How the API server is reached: kubeconfig, service account, tokens, TLS, proxies.

`kubeconfig` finds the access that `kubectl` would use, `identity` reads one user or the pod's
account, `exec_plugin` runs a credential plugin. No request is sent here. Start with `access`.

Import from outside: `access`, `identity`, `kubeconfig`, `proxy`, `tls`.
"""
