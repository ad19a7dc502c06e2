"""How to run, as the flags of `resettle run` say."""

from __future__ import annotations

from msgspec import Struct

from resettle.cluster.lease_settings import LeaseSettings


class Settings(Struct, frozen=True, kw_only=True):
    """How to run."""

    policy_file: str
    forgiving: bool = False
    """Whether mistakes that the peer hides are warned of, and taken as it takes them."""
    interval: float = 0.0
    """Seconds from one start to the next; zero for a single cycle."""
    dry_run: bool = False
    qps: float = 0.0
    burst: int = 0
    lease: LeaseSettings | None = None
    identity: str = ""
    background: bool = True
    """Whether pods may be moved by others in the background once they are asked to leave."""
