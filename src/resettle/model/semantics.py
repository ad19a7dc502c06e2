"""How decisions are read: as kubernetes-sigs/descheduler makes them, or improved.

Each flag names one difference, and what decides asks the flag where the two part, never which
apiVersion a policy had.
"""

from __future__ import annotations

from msgspec import Struct


class Semantics(Struct, frozen=True, kw_only=True):
    """Named differences between parity and improvement."""

    repeat_spends_limits: bool
    """A pod proposed again after its admission counts again towards the limits (Q10).

    It never moves twice; in the peer the second request uses up room that other pods could have
    had, so without the flag a policy would move pods there that the peer spares.
    """


PARITY = Semantics(repeat_spends_limits=True)
IMPROVED = Semantics(repeat_spends_limits=False)
