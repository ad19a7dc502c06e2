"""Controllers: each computes what should exist and writes only the difference.

Each controller is a package with the same files: `types` (its custom resource, if it has one),
`desired` (pure), `apply`, `reconcile` (one pass), `runner` (its place in the runtime).
"""
