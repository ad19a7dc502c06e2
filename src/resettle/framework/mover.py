"""The last extension point: how a pod that a plan moves really leaves.

A profile has one mover. It is handed moves that guards and limits have let through, does no
checking of its own, and answers for each with an outcome. It is made only when a plan is carried
out, so a preview holds nothing it could act with.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import StrEnum
from typing import Any, Protocol

from msgspec import Struct

from resettle.framework.plan import Move


class Ending(StrEnum):
    """What can become of a move."""

    EVICTED = "evicted"
    """The API server granted it."""
    BACKGROUND = "background"
    """Somebody else moves the pod from now on, and it will take a while."""
    BUDGET = "refused-by-budget"
    WEBHOOK = "refused-by-webhook"
    GONE = "gone"
    """The pod had left, or was leaving, before it was asked to."""
    CHANGED = "changed"
    """It is no longer what the plan was drawn for, so it was left alone."""
    UNKNOWN = "unknown"
    """The request went out and its answer was lost: the pod may be leaving or not."""
    ERROR = "error"
    """It was not moved, for a reason that is nobody's decision."""
    SHOWN = "shown"
    """Nothing was asked for: it is a dry run."""
    UNSENT = "unsent"
    """Acting had to stop before its turn came."""

    @property
    def counts(self) -> bool:
        """Whether limits and budgets must reckon with the pod as leaving."""
        return self in (Ending.EVICTED, Ending.BACKGROUND, Ending.UNKNOWN)

    @property
    def declined(self) -> bool:
        """Whether the pod stays although the plan would have moved it."""
        return self in (Ending.BUDGET, Ending.WEBHOOK, Ending.CHANGED, Ending.ERROR)


class Outcome(Struct, frozen=True):
    """What became of one move, and in whose words."""

    ending: Ending
    says: str = ""


Moved = Callable[[Move, Outcome], None]
"""Who is told what became of a move, as soon as it is known."""


class Options(Struct, frozen=True, kw_only=True):
    """What a mover is told besides the move: who asks, why, and how."""

    initiator: str
    """The plugin that proposed the pod."""
    profile: str
    reason: str
    grace_period_seconds: int | None = None
    in_background: bool = True
    """Whether a pod may say that others move it, once it has been asked to leave."""


class Reply(Protocol):
    """An answer of the API server."""

    @property
    def status(self) -> int:
        """Its HTTP status."""

    @property
    def body(self) -> bytes:
        """What it says, as JSON in most cases."""


class Hands(Protocol):
    """What a mover acts with."""

    async def send(
        self,
        method: str,
        path: str,
        body: bytes | None = None,
        *,
        content_type: str = "application/json",
    ) -> Reply:
        """The API server's answer to a request; paced, signed, and only while we may act.

        Raises `NotNow` when we may not, and an error of the cluster when no answer came:
        `AnswerLost` if the request may have been carried out all the same.
        """


class Mover(Protocol):
    """Moves pods, one at a time or several at once."""

    async def move(self, move: Move, options: Options) -> Outcome:
        """Has the pod leave, and says what came of it."""


MakeMover = Callable[[Any, Hands], Mover]
"""A plugin's `evict`: `(args, hands)` to the mover of one profile."""
