"""Talking to an API server: transport, credentials, lists, watches, the lease.

It knows `model` and nothing above it: no plans, no policies. `status` reads what the API server
answers, `failures` words what went wrong. Start with `watch.cache`.
Everything above the line in `pyproject.toml` may import it.

Import from outside: `failures`, `status`.
"""

from __future__ import annotations
