"""Cycle after cycle without a cluster: plans carried out in the mind, and what becomes of them."""
