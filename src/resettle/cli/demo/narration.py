"""Runs the demo and prints what happens, in sentences and bars for terminals of any width.

It keeps every cycle, so that the demo can also write the HTML report of a simulation.
"""

from __future__ import annotations

import textwrap
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import groupby

from resettle.cli.demo.cluster import (
    INTERVAL,
    TOO_MANY_REQUESTS,
    CycleRunner,
    DemoCluster,
    ExecutedCycle,
)
from resettle.cli.demo.scenario import EVENTS, NODES, DemoEvent
from resettle.cli.text.plan import Paint, bar
from resettle.cli.text.terminal import align_columns, pad_cells
from resettle.framework.codes import REASONS
from resettle.framework.plan import Move, Plan
from resettle.simulate.measures import Load, node_loads, violations
from resettle.simulate.result import CycleWithEvents, SimulationResult, settled_after
from resettle.simulate.scheduler import WaitingPod, explain_waiting
from resettle.text import format_count, shorten

_BAR = 32
"""Columns of a bar with its percentages."""
_WIDE = 2 * _BAR + 26
"""From so many columns on, two bars fit in a line."""


def introduction(pods: int, nodes: int, columns: int) -> Iterator[str]:
    """What the demo is and what it touches."""
    yield from wrap_paragraph(
        f"A small shop, {format_count(pods, 'pod')} on {format_count(nodes, 'node')} in 3 zones, "
        "on an API server in this process. Plans and evictions go over HTTP as they "
        "would on a cluster of yours; nothing else is touched, and time is simulated.",
        columns,
    )


def heading(
    number: int, events: int, event: DemoEvent, more: Iterable[str], paint: Paint, columns: int
) -> Iterator[str]:
    """The title of an event, and what has happened."""
    yield paint("bold", f"{number} of {events}  {event.title}")
    yield from wrap_paragraph(" ".join([event.description, *more]), columns)


def wrap_paragraph(
    text: str, columns: int, indent: str = "", first: str | None = None
) -> Iterator[str]:
    """A paragraph of at most 100 columns."""
    yield from textwrap.wrap(
        text,
        min(columns, 100),
        initial_indent=indent if first is None else first,
        subsequent_indent=indent,
        break_long_words=False,
        break_on_hyphens=False,
    )


# -- a cycle --------------------------------------------------------------------------------------


def cycle_text(executed: ExecutedCycle, paint: Paint, columns: int) -> Iterator[str]:
    """What was planned, what the API server answered, and where the pods went."""
    done, plan = executed.cycle, executed.cycle.plan
    when = paint("bold", f"{done.at:%H:%M}")
    if not plan.moves:
        yield f"{when}  plan: nothing would move"
        yield from _held_back(plan, columns)
        return
    yield f"{when}  plan: {format_count(len(plan.moves), 'pod')} would move"
    yield from _moves(plan.moves, paint, columns)
    yield from _held_back(plan, columns)
    if deleted := executed.deleted_by_hand:
        sentence = f"meanwhile {deleted.key} is deleted by hand, which uses up its budget"
        yield from wrap_paragraph(sentence, columns, " " * 7)
    yield from _answers(executed, columns)


def _moves(moves: Sequence[Move], paint: Paint, columns: int) -> Iterator[str]:
    """Which pod goes where and why: the reason beside it where it fits, else above."""
    cells = [(move.pod.key, _from_to(move)) for move in moves]
    reasons = [f"{move.plugin}: {move.reason}" for move in moves]
    lines = list(align_columns(cells, 7))
    start = max(map(len, lines)) + 2
    if start + max(map(len, reasons)) <= columns:
        for line, reason in zip(lines, reasons, strict=True):
            yield f"{line.ljust(start)}{paint('dim', reason)}"
        return
    together = zip(reasons, align_columns(cells, 9), strict=True)
    for reason, group in groupby(together, key=lambda pair: pair[0]):
        yield from (paint("dim", line) for line in wrap_paragraph(reason, columns, " " * 7))
        yield from (line for _, line in group)


def _from_to(move: Move) -> str:
    """The node a pod leaves, and the one the plan predicts, if it predicts one."""
    return f"{move.pod.node} → {move.lands_on}" if move.lands_on else f"off {move.pod.node}"


def _held_back(plan: Plan, columns: int) -> Iterator[str]:
    """That a budget or a limit kept more pods from being evicted."""
    for code in plan.refused:
        if code == "budget" or code.startswith("limit-"):
            sentence = f"more would go, but {REASONS.get(code, code)}"
            yield from wrap_paragraph(sentence, columns, " " * 7)


def _answers(executed: ExecutedCycle, columns: int) -> Iterator[str]:
    granted = _granted_moves(executed)
    if granted:
        yield from wrap_paragraph(_landing_sentence(executed, granted), columns, " " * 7)
    for move, result in executed.results:
        if not result.succeeded:
            again = "; the next cycle tries again" if result.code == TOO_MANY_REQUESTS else ""
            sentence = f"{result.code} for {move.pod.key}: {result.message.rstrip('.')}{again}"
            yield from wrap_paragraph(sentence, columns, " " * 7)


def _landing_sentence(executed: ExecutedCycle, granted: Sequence[Move]) -> str:
    """How many were evicted, and whether their replacements run where the plan predicted."""
    landings = executed.cycle.moves
    elsewhere = [
        f"{landing.pod.key} landed on {landing.node or 'no node yet'}, not as predicted"
        for move, landing in zip(granted, landings, strict=True)
        if move.lands_on and landing.node != move.lands_on
    ]
    evicted = f"{format_count(len(granted), 'pod')} evicted"
    if not any(move.lands_on for move in granted):
        return evicted
    if elsewhere:
        return f"{evicted}; {'; '.join(elsewhere)}"
    whose = "its replacement runs" if len(granted) == 1 else "all replacements run"
    return f"{evicted}; {whose} where the plan predicted"


# -- nodes ----------------------------------------------------------------------------------------


def node_bars(
    now: Mapping[str, Load], before: Mapping[str, Load], paint: Paint, columns: int
) -> Iterator[str]:
    """The nodes as they are, and as they were where that differs."""
    two = columns >= _WIDE
    heads = ("ZONE", "NODE", "CPU REQUESTED", "MEMORY REQUESTED" if two else "MEMORY", "PODS")
    widths = (6, 4, _BAR, _BAR if two else 11, 0)
    plain = Paint(False)
    yield paint("dim", pad_cells(heads, heads, widths))
    zone = ""
    for name, load in now.items():
        was = before.get(name, load)
        cells = [NODES.get(name, "") if NODES.get(name, "") != zone else "", shorten(name, 20)]
        zone, bare = NODES.get(name, ""), list(cells)
        for share, earlier in ((load.cpu, was.cpu), (load.memory, was.memory)):
            kept = None if share is None or earlier is None else min(share, earlier)
            if len(cells) == 2 or two:
                cells.append(bar(earlier, share, paint, kept))
                bare.append(bar(earlier, share, plain, kept))
            else:
                cells.append(_figures(earlier, share))
                bare.append(cells[-1])
        pods = f"{was.pods} → {load.pods}" if was.pods != load.pods else str(load.pods)
        yield pad_cells([*cells, pods], [*bare, pods], widths)


def _figures(was: float | None, now: float | None) -> str:
    if was is None or now is None:
        return "-"
    return f"{now:3.0f}%" if round(was) == round(now) else f"{was:3.0f}% → {now:.0f}%"


# -- the end --------------------------------------------------------------------------------------


def settled_text(last: ExecutedCycle, paint: Paint) -> Iterator[str]:
    """That no pod moves any more."""
    when = paint("bold", f"{last.cycle.at:%H:%M}")
    yield f"{when}  still nothing would move: the shop has settled"


def waiting_text(waits: Sequence[WaitingPod], columns: int) -> Iterator[str]:
    """Pods without a node, and why."""
    for waiter in waits:
        yield from wrap_paragraph(f"waits: {waiter.pod.key}: {waiter.why}", columns)


def summary(
    cycles: Sequence[ExecutedCycle], waits: Sequence[WaitingPod], paint: Paint
) -> Iterator[str]:
    """The totals of the demo."""
    results = [result for executed in cycles for _, result in executed.results]
    refused = Counter(result.code for result in results if not result.succeeded)
    landings = [landing for executed in cycles for landing in executed.cycle.moves]
    again = sum(len(executed.cycle.ping_pong) for executed in cycles)
    refused_by_code = ", ".join(
        _refused_evictions(code, count) for code, count in sorted(refused.items())
    )
    yield paint("bold", "Totals")
    rows = [
        ("cycles", str(len(cycles))),
        ("pods moved", f"{len(landings)}{_landed_as_predicted(cycles)}"),
        ("evictions refused", refused_by_code or "0"),
        ("without effect", str(sum(landing.returned for landing in landings))),
        ("moved back and forth", str(again)),
        ("waiting for a node", str(len(waits))),
    ]
    yield from align_columns(rows)


def _landed_as_predicted(cycles: Sequence[ExecutedCycle]) -> str:
    """How many replacements run where the plan predicted, if it predicted anything."""
    pairs = [
        (move.lands_on, landing.node)
        for executed in cycles
        for move, landing in zip(_granted_moves(executed), executed.cycle.moves, strict=True)
        if move.lands_on
    ]
    if not pairs:
        return ""
    return f", {sum(predicted == actual for predicted, actual in pairs)} of them as predicted"


def _granted_moves(executed: ExecutedCycle) -> list[Move]:
    return [move for move, result in executed.results if result.succeeded]


def _refused_evictions(code: int, count: int) -> str:
    return (
        f"{count} by a disruption budget" if code == TOO_MANY_REQUESTS else f"{count} with {code}"
    )


MOST_CYCLES = 4
"""Cycles after one event, unless nothing moves before."""


class Narrator:
    """Runs the demo; `say` gets each paragraph as soon as it is known."""

    def __init__(
        self,
        cluster: DemoCluster,
        runner: CycleRunner,
        say: Callable[[str], None],
        paint: Paint,
        columns: int,
    ) -> None:
        self._cluster = cluster
        self._runner = runner
        self._say_text = say
        self._paint = paint
        self._columns = columns
        self._executed: list[ExecutedCycle] = []
        self._cycles_with_events: list[CycleWithEvents] = []

    def run(self, policy: str) -> SimulationResult:
        """Runs and prints all events; returns the result that the HTML report is made from."""
        first = self._runner.take_snapshot()
        self._say(introduction(len(first.pod_index), len(first.node_index.nodes), self._columns))
        for number, event in enumerate(EVENTS, 1):
            self._run_event(number, event)
        self._run_until_settled()
        last = self._runner.take_snapshot()
        waits = explain_waiting(last)
        self._say(summary(self._executed, waits, self._paint))
        return SimulationResult(
            policy=policy,
            taken_at=first.taken_at,
            interval=INTERVAL,
            pods=len(first.pod_index),
            loads=node_loads(first),
            violations=violations(first),
            cycles_with_events=tuple(self._cycles_with_events),
            waiting_pods=waits,
        )

    def _run_event(self, number: int, event: DemoEvent) -> None:
        more = event.apply(self._cluster)
        self._runner.forget_earlier_moves()
        before = node_loads(self._runner.take_snapshot())
        self._say(heading(number, len(EVENTS), event, more, self._paint, self._columns))
        self._say(node_bars(before, before, self._paint, self._columns))
        for attempt in range(MOST_CYCLES):
            executed = self._run_cycle(event if attempt == 0 else None)
            self._say(cycle_text(executed, self._paint, self._columns))
            if not executed.cycle.plan.moves:
                break
        after = self._runner.take_snapshot()
        self._say(node_bars(node_loads(after), before, self._paint, self._columns))
        self._say(waiting_text(explain_waiting(after), self._columns))

    def _run_until_settled(self) -> None:
        """Runs cycles until the cluster counts as settled, at most `MOST_CYCLES`."""
        for _ in range(MOST_CYCLES):
            executed = self._run_cycle()
            if executed.cycle.plan.moves:
                self._say(cycle_text(executed, self._paint, self._columns))
            if settled_after([executed.cycle for executed in self._executed]) is not None:
                self._say(settled_text(executed, self._paint))
                return

    def _run_cycle(self, event: DemoEvent | None = None) -> ExecutedCycle:
        """Runs one cycle; `event` is what happened before it, if anything."""
        deletes_a_pod = event is not None and event.deletes_a_pod
        executed = self._runner.run_cycle(
            deletes_a_pod=deletes_a_pod, externally_changed=event is not None
        )
        self._executed.append(executed)
        self._cycles_with_events.append(
            CycleWithEvents(executed.cycle, (event.title,) if event else ())
        )
        return executed

    def _say(self, lines: Iterable[str]) -> None:
        if text := "\n".join(lines):
            self._say_text(text)
