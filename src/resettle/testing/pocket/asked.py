"""A request as a test looks back on it."""

from __future__ import annotations

from typing import NamedTuple


class Asked(NamedTuple):
    """Who asked for what; the verb is that of roles, such as `list`."""

    verb: str
    path: str
    query: dict[str, str]
    user_agent: str
    token: str
    client: str
    """Address and port of whoever asked; the same for all requests of one connection."""
