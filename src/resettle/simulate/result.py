"""A simulation from beginning to end, and what it came to.

How full each node is, in the few figures that a story of many cycles can keep.

What is wrong with how pods lie: rules that are broken right now, whatever a policy says.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta

from msgspec import Struct

from resettle.framework.descheduler import Descheduler
from resettle.model.changes import Changes
from resettle.model.snapshot import Snapshot
from resettle.simulate.events import Event, consequences, together
from resettle.simulate.load_model import NONE_KNOWN, Wants
from resettle.simulate.measures import Load, troubles
from resettle.simulate.ping_pong import Rally, rallies
from resettle.simulate.scheduler import Waits, why_they_wait, workload
from resettle.simulate.simulation import Cycle, Landing, Simulation, Tainter
from resettle.text import counted
from resettle.times import span

REST = 2
"""So many cycles in a row without a move, and the cluster has settled."""
COMING_OF_AGE = timedelta(minutes=10)
"""And at least so long: the default of `minPodAge`, before which what has moved may not move."""


class Chapter(Struct, frozen=True):
    """A cycle, and what happened from outside before it."""

    cycle: Cycle
    events: tuple[str, ...] = ()


class Story(Struct, frozen=True, kw_only=True):
    """All cycles of one policy."""

    policy: str
    """What the policy is called."""
    taken_at: datetime
    interval: timedelta
    pods: int
    loads: Mapping[str, Load]
    """How full the nodes were at the start."""
    troubles: Mapping[str, int]
    """What was wrong at the start."""
    chapters: tuple[Chapter, ...]
    waits: tuple[Waits, ...]
    """Pods without a node at the end, and why."""
    stopped_early: bool = False
    tainting: bool = False
    """Whether nodes were softly tainted while they were too full."""

    @property
    def cycles(self) -> tuple[Cycle, ...]:
        return tuple(chapter.cycle for chapter in self.chapters)

    @property
    def landings(self) -> Iterable[Landing]:
        """What became of every move, in order."""
        return (landing for cycle in self.cycles for landing in cycle.landings)

    @property
    def moves(self) -> int:
        return sum(len(cycle.landings) for cycle in self.cycles)

    @property
    def returned(self) -> int:
        """Moves for nothing."""
        return sum(landing.returned for landing in self.landings)

    @property
    def settled_after(self) -> int | None:
        """The last cycle in which something moved, 0 for none; None while it is too early."""
        return settled_after(self.cycles)

    @property
    def ping_pong(self) -> tuple[Rally, ...]:
        return rallies(it for cycle in self.cycles for it in cycle.ping_pong)

    @property
    def restarts(self) -> dict[str, int]:
        """How many pods of each workload were moved, the most first."""
        counts: dict[str, int] = {}
        for landing in self.landings:
            name = workload(landing.pod)
            counts[name] = counts.get(name, 0) + 1
        return dict(sorted(counts.items(), key=lambda item: (-item[1], item[0])))

    @property
    def errors(self) -> tuple[str, ...]:
        """What failed on the way, each once."""
        return tuple(dict.fromkeys(it for cycle in self.cycles for it in cycle.plan.errors))


def told(
    policy: str,
    planner: Descheduler,
    snapshot: Snapshot,
    *,
    interval: timedelta,
    cycles: int,
    events: Sequence[Event] = (),
    until_settled: bool = False,
    wants: Wants = NONE_KNOWN,
    tainter: Tainter | None = None,
) -> Story:
    """Runs so many cycles, or fewer if asked to stop once the cluster has settled."""
    simulation = Simulation(planner, snapshot, interval, wants=wants, tainter=tainter)
    start = simulation.loads
    chapters: list[Chapter] = []
    last_event = max((event.cycle for event in events), default=0)
    for number in range(1, cycles + 1):
        due = [event for event in events if event.cycle == number]
        disturbance = _disturbance(due, simulation.snapshot)
        cycle = simulation.cycle(disturbance)
        chapters.append(Chapter(cycle, tuple(event.says for event in due)))
        still = settled_after([it.cycle for it in chapters]) is not None
        if until_settled and still and number >= last_event:
            break
    return Story(
        policy=policy,
        taken_at=snapshot.taken_at,
        interval=interval,
        pods=len(snapshot.population),
        loads=start,
        troubles=troubles(snapshot),
        chapters=tuple(chapters),
        waits=why_they_wait(simulation.snapshot),
        stopped_early=len(chapters) < cycles,
        tainting=tainter is not None,
    )


def settled_after(cycles: Sequence[Cycle]) -> int | None:
    """The last cycle in which something happened, once enough quiet ones have followed."""
    last = next((i for i in reversed(range(len(cycles))) if not cycles[i].quiet), -1)
    quiet = cycles[last + 1 :]
    if len(quiet) < REST or quiet[-1].at - cycles[max(last, 0)].at < COMING_OF_AGE:
        return None
    return last + 1


def _disturbance(due: Sequence[Event], snapshot: Snapshot) -> Changes | None:
    """All that happens before one cycle, one event after the other."""
    changes: Changes | None = None
    for event in due:
        more = consequences(event, snapshot)
        snapshot = snapshot.next(more)
        changes = together(changes, more) if changes else more
    return changes


def settling(story: Story) -> str:
    """When the cluster came to rest, or that it has not."""
    after, cycles = story.settled_after, story.cycles
    if after == 0:
        return f"settled from the start: nothing moved in {counted(len(cycles), 'cycle')}"
    if after is not None:
        return f"settled after cycle {after}: nothing has moved since"
    if cycles[-1].landings:
        last = counted(len(cycles[-1].landings), "pod")
        return f"not settled: {last} moved in cycle {cycles[-1].number}, the last"
    return "nothing moved in the last cycle, which is too early to call it settled"


def opening(story: Story) -> str:
    """What is simulated."""
    there = f"{counted(story.pods, 'pod')} on {counted(len(story.loads), 'node')}"
    start = story.taken_at.isoformat(timespec="seconds").replace("+00:00", "Z")
    return f"{there}, a cycle every {span(story.interval)} from {start}."


def fullest(story: Story) -> str:
    """`32% → 17%`: what the query says of the fullest node, at the start and at the end."""
    first, last = (
        [load.measured for load in loads.values() if load.measured is not None]
        for loads in (story.loads, story.cycles[-1].after)
    )
    return f"{max(first):.0f}% → {max(last):.0f}%" if first and last else ""


def became(landing: Landing) -> str:
    """In one word what came of a move."""
    if landing.returned:
        return "returned"
    if landing.node is None:
        return "waits"
    return "moved" if landing.node else "gone"
