"""Moves running Kubernetes pods to better nodes, and explains every decision.

Start with `cycle.py`, one cycle from start to finish. `model` and `framework` hold the nouns
and the decisions, `kube` talks to the API server, `cli` to people. Imports point down the list of
layers in `pyproject.toml`; below `kube` nothing reads a clock, a socket, a file or a random number.
"""

__version__ = "0.1.0"
