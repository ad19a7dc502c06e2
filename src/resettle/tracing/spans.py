"""The spans of a run: a trace for each cycle.

    runDeschedulerLoop
    ├── runProfiles                    one for each plan that was drawn
    │   ├── deschedule (profile)
    │   │   ├── PodLifeTime
    │   │   └── RemoveFailedPods
    │   └── balance (profile)
    │       └── LowNodeUtilization
    └── EvictPod                       one for each move that was asked for

Names and attributes are those of kubernetes-sigs/descheduler where it has them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager

from opentelemetry.trace import Span, Status, StatusCode, Tracer

from resettle.framework.mover import Ending, Mover, Options, Outcome
from resettle.framework.plan import Move, Turn

_DONE = (Ending.EVICTED, Ending.BACKGROUND)
_FAULTS = (Ending.UNKNOWN, Ending.ERROR)


class TracedSpans:
    """Tells a tracer of everything."""

    def __init__(self, tracer: Tracer) -> None:
        self._tracer = tracer

    def cycle(self) -> AbstractContextManager[object]:
        """The root of a trace."""
        return self._tracer.start_as_current_span("runDeschedulerLoop")

    @contextmanager
    def planning(self) -> Iterator[TracedPlanning]:
        """The plan, within the cycle."""
        with self._tracer.start_as_current_span("runProfiles") as span:
            planning = TracedPlanning(self._tracer, span)
            try:
                yield planning
            finally:
                planning.close()

    def around(self, mover: Mover) -> Mover:
        """The mover, with a span around each move."""
        return TracedMover(mover, self._tracer)


class TracedPlanning:
    """A plan being drawn; turns at one point of one profile stand together."""

    def __init__(self, tracer: Tracer, span: Span) -> None:
        self._tracer = tracer
        self._span = span
        self._at: tuple[str, str] | None = None
        self._group = ExitStack()

    @contextmanager
    def turn(self, turn: Turn) -> Iterator[None]:
        """A plugin's turn; the first one of a point opens the span of that point."""
        facts = {"profile": turn.profile, "operation": turn.point}
        if self._at != (turn.profile, turn.point):
            self._group.close()
            self._at = turn.profile, turn.point
            started = self._tracer.start_as_current_span(turn.point, attributes=facts)
            self._group.enter_context(started)
        named = {"plugin": turn.plugin, **facts}
        with self._tracer.start_as_current_span(turn.plugin, attributes=named):
            yield

    def close(self) -> None:
        """Ends the span of the last point; asked on the thread that drew."""
        self._group.close()

    def drawn(self, moves: int, errors: Sequence[str]) -> None:
        """What came of it."""
        self._span.set_attribute("moves", moves)
        for error in errors:
            self._span.add_event("Plugin Execution Failed", {"err": error})
        if errors:
            self._span.set_status(Status(StatusCode.ERROR))


class TracedMover:
    """A mover whose moves are followed."""

    def __init__(self, mover: Mover, tracer: Tracer) -> None:
        self._mover = mover
        self._tracer = tracer

    async def move(self, move: Move, options: Options) -> Outcome:
        """Has the pod leave, and says what came of it."""
        pod = move.pod
        facts = {
            "podName": pod.name,
            "podNamespace": pod.namespace,
            "node": pod.node,
            "plugin": move.plugin,
            "profile": move.profile,
            "reason": move.reason,
            "operation": "evict",
        }
        with self._tracer.start_as_current_span("EvictPod", attributes=facts) as span:
            outcome = await self._mover.move(move, options)
            # A mover of somebody else's may answer with anything; who carries out finds out.
            ending = getattr(outcome, "ending", None)
            span.set_attribute("ending", str(ending))
            if ending not in _DONE:
                says = str(getattr(outcome, "says", outcome))
                span.add_event("Eviction Failed", {"node": pod.node, "err": says})
            if ending in _FAULTS:
                span.set_status(Status(StatusCode.ERROR))
            return outcome
