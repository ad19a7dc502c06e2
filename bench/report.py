"""Figures as tables, and tables in the page about performance."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from bench.measure import Cost

GOALS = {
    (100, "on"): (5, 3),
    (1000, "off"): (6, 15),
    (1000, "on"): (60, 18),
    (5000, "off"): (15, 30),
    (5000, "on"): (150, 30),
}
"""Nodes and nodeFit to how many times less CPU and memory than descheduler we want to use."""
ACTING_GOALS = {
    (100, "on"): (5, 1),
    (1000, "off"): (5, 7),
    (1000, "on"): (50, 7),
    (5000, "off"): (12, 12),
    (5000, "on"): (100, 12),
}
"""The same where both really evict."""
Goals = Mapping[tuple[int, str], tuple[int, int]]


@dataclass(frozen=True)
class Case:
    """Both programs on one cluster with one policy, each as often as was asked for."""

    nodes: int
    pods: int
    fit: str
    ours: Sequence[Cost]
    upstream: Sequence[Cost] = ()
    hard: str = ""
    """Which of the hard clusters it is, if one."""
    taken: str = ""
    """When and by which command."""

    @property
    def key(self) -> str:
        """What distinguishes it from other cases."""
        return f"{self.nodes:06d}/{self.pods:07d}/{self.hard}/{self.fit}"

    @property
    def our(self) -> Cost:
        """Our typical run."""
        return typical(self.ours)

    @property
    def cluster(self) -> str:
        """The size in words."""
        return f"{self.nodes:,} nodes, {self.pods:,} pods"


def typical(costs: Sequence[Cost]) -> Cost:
    """The median of each figure over several runs."""
    return Cost(
        wall=statistics.median(cost.wall for cost in costs),
        cpu=statistics.median(cost.cpu for cost in costs),
        peak=statistics.median(cost.peak for cost in costs),
        evictions={
            name: round(statistics.median(cost.evictions.get(name, 0) for cost in costs))
            for name in costs[0].evictions
        },
        phases={
            name: statistics.median(cost.phases.get(name, 0.0) for cost in costs)
            for name in costs[0].phases
        },
        remark="; ".join(dict.fromkeys(cost.remark for cost in costs if cost.remark)),
    )


def comparison(cases: Iterable[Case], goals: Goals = GOALS) -> str:
    """Our figures and descheduler's, their ratios, and the goals."""
    rows = []
    remarks = []
    for case in cases:
        ours = case.our
        rows.append((case.cluster, case.fit, "resettle", *_figures(ours)))
        if not case.upstream:
            continue
        upstream = typical(case.upstream)
        rows.append(("", "", "descheduler", *_figures(upstream)))
        cpu, memory = goals.get((case.nodes, case.fit), (None, None))
        ratios = (
            _ratio(upstream.wall, ours.wall, None),
            _ratio(upstream.cpu, ours.cpu, cpu),
            _ratio(upstream.peak, ours.peak, memory),
        )
        rows.append(("", "", "ratio", *ratios, ""))
        if upstream.remark:
            remarks.append(
                f"{case.cluster}, nodeFit {case.fit}: the descheduler {upstream.remark}."
            )
    heads = ("cluster", "nodeFit", "program", "wall s", "CPU s", "peak MiB", "pods evicted")
    return "\n\n".join([table(heads, rows, numbers_from=3), *remarks])


def _figures(cost: Cost) -> tuple[str, str, str, str]:
    return f"{cost.wall:,.2f}", f"{cost.cpu:,.2f}", f"{cost.peak:,.0f}", f"{cost.evicted:,}"


def _ratio(theirs: float, ours: float, goal: float | None) -> str:
    times = f"{theirs / ours:,.1f}×"
    if goal is None:
        return times
    return f"{times} (goal {goal}×{'' if theirs / ours >= goal else ', missed'})"


def phase_table(cases: Iterable[Case]) -> str:
    """Where our CPU time goes, in milliseconds, one column for each case."""
    columns = {f"{case.nodes:,} {case.fit}": case.our for case in cases}
    names = dict.fromkeys(name for cost in columns.values() for name in cost.phases)
    rows = [
        (name, *(f"{cost.phases.get(name, 0.0):,.0f}" for cost in columns.values()))
        for name in names
    ]
    rest = (cost.cpu * 1000 - sum(cost.phases.values()) for cost in columns.values())
    rows.append(("Python itself", *(f"{max(0.0, ms):,.0f}" for ms in rest)))
    return table(("phase, CPU ms", *columns), rows, numbers_from=1)


def eviction_table(cases: Sequence[Case]) -> str:
    """How many pods each strategy evicts: ours / descheduler's."""
    names = dict.fromkeys(name for case in cases for name in case.our.evictions)
    rows = [(name, *(_decided(case, name) for case in cases)) for name in names]
    heads = ("pods evicted by", *(f"{case.nodes:,} {case.fit}" for case in cases))
    return table(heads, rows, numbers_from=1)


def _decided(case: Case, name: str) -> str:
    ours = f"{case.our.evictions.get(name, 0):,}"
    return f"{ours} / {typical(case.upstream).evictions.get(name, 0):,}" if case.upstream else ours


def ours_table(cases: Iterable[Case], title: str) -> str:
    """Our own figures, one line for each case."""
    rows = [(case.hard or case.cluster, case.fit, *_figures(case.our)) for case in cases]
    heads = (title, "nodeFit", "wall s", "CPU s", "peak MiB", "pods evicted")
    return table(heads, rows, numbers_from=2)


def table(heads: Sequence[str], rows: Iterable[Sequence[str]], numbers_from: int) -> str:
    """A Markdown table that can also be read as it is; numbers are set to the right."""
    lines = [tuple(heads), *map(tuple, rows)]
    widths = [max(3, *(len(line[i]) for line in lines)) for i in range(len(heads))]

    def row(cells: Sequence[str]) -> str:
        set_right = (
            f"{cell:>{width}}" if i >= numbers_from else f"{cell:{width}}"
            for i, (cell, width) in enumerate(zip(cells, widths, strict=True))
        )
        return f"| {' | '.join(set_right)} |"

    rule = (
        "-" * (width - 1) + (":" if i >= numbers_from else "-") for i, width in enumerate(widths)
    )
    return "\n".join([row(lines[0]), f"| {' | '.join(rule)} |", *map(row, lines[1:])])


def within_markers(page: str, name: str, text: str) -> str:
    """The page with the text between the markers of this name."""
    begin, end = f"<!-- bench:{name} -->", f"<!-- /bench:{name} -->"
    before, found, rest = page.partition(begin)
    _, closed, after = rest.partition(end)
    if not found or not closed:
        raise ValueError(f"the page has no markers {begin} and {end}")
    return f"{before}{begin}\n{text}\n{end}{after}"
