"""Soft taints on nodes that are too full, so that the scheduler would rather go elsewhere.

A round reads top to bottom: `levels` says how far over its line a node is, `wanted` which taints
each node should have, `corrections` what is to be written for that, `writing` writes it.
"""
