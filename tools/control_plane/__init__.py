"""A real Kubernetes control plane on loopback, built from pinned Go modules, for the e2e suites."""
