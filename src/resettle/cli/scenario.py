"""A scenario as written: which cluster, which policies, and what happens before which cycle.

It is read as a policy is: every mistake at once, each with its place and a fix. What happens is
made ready in `happenings`, once the cluster is known.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple

from msgspec import Meta, Struct

from resettle.cli.written import read_written
from resettle.errors import InputError
from resettle.model.parts import parse_time
from resettle.policy.args import Duration, parse_duration
from resettle.policy.report import Report
from resettle.texts import STDIN

Positive = Annotated[int, Meta(ge=1)]
Count = Annotated[int, Meta(ge=0)]
SoftTaintsWord = Literal["with", "compare"]
"""Whether nodes are tainted while they are too full: yes, or once with and once without."""


class EventDocument(Struct, frozen=True, kw_only=True):
    """Something that happens before a cycle, as written."""

    cycle: Positive
    says: str = ""
    apply: tuple[Any, ...] = ()
    delete: tuple[str | None, ...] = ()
    scale: dict[str, Count] = {}
    cordon: tuple[str | None, ...] = ()


class ScenarioDocument(Struct, frozen=True, kw_only=True, rename="camel"):
    """A scenario as written."""

    cluster: tuple[str | None, ...] | str = ()
    policy: str = ""
    against: str = ""
    loads: str = ""
    soft_taints: SoftTaintsWord | None = None
    cycles: Positive | None = None
    interval: Duration | None = None
    now: str = ""
    events: tuple[EventDocument | None, ...] = ()


class Scenario(NamedTuple):
    """A scenario with its files found; what happens is made ready once the cluster is known."""

    document: ScenarioDocument
    report: Report
    folder: Path

    @property
    def cluster(self) -> list[str]:
        """Its dumps, seen from here."""
        written = self.document.cluster
        names = [written] if isinstance(written, str) else written
        return [self.found(name) for name in names if name]

    def found(self, file: str) -> str:
        """A file of the scenario, seen from here; it is written relative to the scenario."""
        return str(self.folder / file) if file and file != STDIN else file

    @property
    def interval(self) -> timedelta | None:
        return parse_duration(self.document.interval) if self.document.interval else None

    @property
    def now(self) -> datetime | None:
        return parse_time(self.document.now)


def read_scenario(file: str) -> Scenario:
    """The scenario in this file; raises `PolicyError` with every problem of its shape."""
    keys = ("cluster", "policy", "events")
    document, report = read_written(file, ScenarioDocument, "a scenario", keys)
    folder = Path() if file == STDIN else Path(file).parent
    scenario = Scenario(document, report, folder)
    _check_times(scenario)
    report.raise_errors()
    return scenario


def _check_times(scenario: Scenario) -> None:
    document, report = scenario.document, scenario.report
    if scenario.interval is not None and scenario.interval <= timedelta():
        what = f"{document.interval} is no time at all"
        report.error(("interval",), what, "write how long after one cycle the next one begins")
    try:
        parse_time(document.now)
    except InputError as error:
        report.error(("now",), error.what, error.fix)
    for i, event in enumerate(document.events):
        if event and not (event.apply or event.delete or event.scale or event.cordon):
            fix = "add `apply`, `delete`, `scale` or `cordon`"
            report.error(("events", i), "nothing happens in this event", fix)
