"""A scenario as written: which cluster, which policies, and what happens before which cycle.

It is read as a policy is: every mistake at once, each with its place and a fix. What happens is
made ready in `happenings`, once the cluster is known.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from pathlib import Path
from typing import Annotated, Any, NamedTuple

from msgspec import Meta, Struct, convert, structs
from yaml import MappingNode

from resettle.errors import InputError
from resettle.model.parts import parse_time
from resettle.policy.args import Duration, parse_duration
from resettle.policy.report import Report, policy_error
from resettle.policy.trees import UnreadableError, read_source
from resettle.policy.walk import Walker, shape_of
from resettle.texts import STDIN, read_text, shown_name

Positive = Annotated[int, Meta(ge=1)]
Count = Annotated[int, Meta(ge=0)]


class EventDocument(Struct, frozen=True, kw_only=True):
    """Something that happens before a cycle, as written."""

    cycle: Positive
    says: str = ""
    apply: tuple[Any, ...] = ()
    delete: tuple[str | None, ...] = ()
    scale: dict[str, Count] = {}
    cordon: tuple[str | None, ...] = ()


class ScenarioDocument(Struct, frozen=True, kw_only=True):
    """A scenario as written."""

    cluster: tuple[str | None, ...] | str = ()
    policy: str = ""
    against: str = ""
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
    name = shown_name(file)
    try:
        source = read_source(read_text(file), name)
    except UnreadableError as error:
        problem = error.problem
        if "policy" in problem.what or "apiVersion" in problem.fix:
            fix = "write one document with `cluster`, `policy` and `events`"
            problem = structs.replace(problem, what="a scenario is one document", fix=fix)
        raise policy_error(name, [problem]) from None
    report = Report(source)
    if not isinstance(source.root, MappingNode):
        fix = "write `cluster`, `policy` and `events` as its keys"
        report.error((), "a scenario is a mapping", fix)
        report.raise_errors()
    plain = Walker(report, dict, improved=False).struct(source.root, shape_of(ScenarioDocument), ())
    report.raise_errors()
    document = convert(plain, ScenarioDocument)
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
        what, _, fix = str(error).partition("; ")
        report.error(("now",), what, fix)
    for i, event in enumerate(document.events):
        if event and not (event.apply or event.delete or event.scale or event.cordon):
            fix = "add `apply`, `delete`, `scale` or `cordon`"
            report.error(("events", i), "nothing happens in this event", fix)
