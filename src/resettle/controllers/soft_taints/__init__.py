"""Soft taints on nodes that are too full, so that the scheduler prefers other nodes.

A round reads top to bottom: `desired` says which taints each node should have, `apply` writes the
difference, `reconcile` runs one pass of both, `runner` is its place in the runtime. The admission
policy that limits what the tainter may write is in `admission_policy`.
"""
