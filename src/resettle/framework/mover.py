"""The extension point `evict`: how a pod that a plan moves really leaves.

A profile has one mover. It gets moves that filters and limits have admitted, and answers each with
a response. It need check nothing itself: the first request that it writes for a move is checked as
it is written, after it has waited for the rate limiter. A mover is made only when a plan is carried
out, so a preview holds nothing that could act on the cluster.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import StrEnum
from typing import Any, Protocol

from msgspec import Struct

from resettle.framework.plan import Move
from resettle.framework.verdict import Refusal
from resettle.framework.view import View
from resettle.model.pod import Pod


class MoveResult(StrEnum):
    """The result of a move, as the mover reports it."""

    EVICTED = "evicted"
    """The API server granted the eviction."""
    BACKGROUND = "background"
    """Another component moves the pod from now on, and it will take a while."""
    REQUESTED = "requested"
    """An object was created that asks for the move; `Plugin.moving` says how long it lasts."""
    BUDGET = "refused-by-budget"
    WEBHOOK = "refused-by-webhook"
    GONE = "gone"
    """The pod had left, or was leaving, before the request."""
    CHANGED = "changed"
    """The pod is no longer what the plan was drawn for, so it was not moved."""
    UNKNOWN = "unknown"
    """The request went out and its answer was lost: the pod may be leaving or not."""
    ERROR = "error"
    """The pod was not moved because the request failed."""
    SHOWN = "shown"
    """No request was sent: it is a dry run."""
    UNSENT = "unsent"
    """The run was stopped before this move."""

    @property
    def counts_as_leaving(self) -> bool:
        """Whether limits and budgets must count the pod as leaving."""
        return self in (
            MoveResult.EVICTED,
            MoveResult.BACKGROUND,
            MoveResult.REQUESTED,
            MoveResult.UNKNOWN,
        )

    @property
    def declined(self) -> bool:
        """Whether the pod stays although the plan would have moved it."""
        return self in (MoveResult.BUDGET, MoveResult.WEBHOOK, MoveResult.CHANGED, MoveResult.ERROR)


class MoveResponse(Struct, frozen=True):
    """What the mover answers for one move: the result, and the message that came with it."""

    result: MoveResult
    message: str = ""


OnMoveResponse = Callable[[Move, MoveResponse], None]
"""Called with each move and its response, as soon as the response is known."""


class Options(Struct, frozen=True, kw_only=True):
    """What a mover gets besides the move: which plugin asks, why, and how."""

    initiator: str
    """The plugin that proposed the pod."""
    profile: str
    reason: str
    delete_options: Mapping[str, Any] = {}
    """How the pod is deleted: `DeleteOptions` as the Kubernetes API writes them."""
    in_background: bool = True
    """Whether a pod may be left to another component that moves it, after the request."""


class ApiResponse(Protocol):
    """An answer of the API server."""

    @property
    def status(self) -> int:
        """The HTTP status."""

    @property
    def body(self) -> bytes:
        """The body, in most cases JSON."""


class ApiRequests(Protocol):
    """Sends requests to the API server on behalf of a mover or a controller."""

    async def send(
        self,
        method: str,
        path: str,
        body: bytes | None = None,
        *,
        content_type: str = "application/json",
    ) -> ApiResponse:
        """Send a request, rate limited and authenticated, and only while we may act.

        Raises `NotNow` when we may not, and a cluster error when no answer came:
        `AnswerLost` if the request may have been carried out all the same.
        """


class Evictor(Protocol):
    """The filters of a profile over the cluster as it is now; any thread may ask.

    Koordinator's framework calls it `Framework.Evictor()`.
    """

    @property
    def view(self) -> View:
        """The cluster as of about the last watch event."""

    def live_pod(self, namespace: str, name: str) -> Pod | None:
        """The pod of this name as of the last watch event."""

    def refusal(
        self,
        pod: Pod,
        moving: frozenset[str] | None = None,
        *,
        place_held: bool = False,
        view: View | None = None,
    ) -> Refusal | None:
        """Why the filters and pre-eviction filters of the profile would not let the pod leave.

        `moving` are the uids of the pods that count as moving, if not all that are known to move.
        `place_held` says that a place is held for its replacement, which fills the node for others.
        `view` is the view to ask, if not the newest: pods that are compared need the same.
        """


class Mover(Protocol):
    """Moves pods, one at a time or several at once."""

    async def move(self, move: Move, options: Options, requests: ApiRequests) -> MoveResponse:
        """Move the pod, and return the result.

        `requests` are for this move alone. Until one of them has changed something, each that is no
        GET is sent only if the pod is still as the plan saw it and the filters let it leave. Else
        it raises `NotThisPod`, which a mover lets pass.
        """


MakeMover = Callable[[Any, Evictor], Mover]
"""A plugin's `evict`: makes the mover of one profile from `(args, evictor)`."""
