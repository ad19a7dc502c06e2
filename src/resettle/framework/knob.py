"""A setting that could be turned so that a pod goes, from the least change to the greatest.

A guard that refuses a pod may name the settings behind its refusal. Nobody takes its word for it:
every value that is offered to an operator has been tried on the whole plan.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from enum import IntEnum
from typing import Any

from msgspec import Struct


class Reach(IntEnum):
    """How far a change reaches; among changes that help, the nearest is offered first."""

    FIGURE = 1
    """A figure of the policy: a limit, an age, a number of replicas."""
    BUDGET = 2
    """What a disruption budget allows, or that it is there."""
    NODE = 3
    """One node of the cluster."""
    SELECTION = 4
    """Which pods the policy means at all."""
    PROTECTION = 5
    """A protection that holds for every pod."""
    CHECK = 6
    """A check that keeps evicted pods from having nowhere to go."""


class Knob(Struct, frozen=True, kw_only=True):
    """One setting of a plugin's arguments, and the values it could have instead.

    `turned(args, value)` gives the arguments with the value in place. `says(value)` completes the
    sentence "would move if …".
    """

    setting: str
    """As the policy spells it."""
    was: Any
    ladder: Sequence[Any]
    """The values to try, the least change first."""
    turned: Callable[[Any, Any], Any]
    says: Callable[[Any], str]
    lifts: frozenset[str]
    """Codes of the refusals it can lift."""
    reach: Reach = Reach.FIGURE
