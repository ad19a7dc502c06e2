"""docs/reference/logs.md lists every event that the source logs, with its level and its facts."""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from collections.abc import Iterator
from typing import NamedTuple

from resettle.eviction.executor import EVENTS
from resettle.framework.mover import MoveResult
from resettle.log import VERBOSITY_FROM

from .reference import DOCS, ROOT

LEVELS = ("debug", "detail", "info", "warning", "error")
LEDGER = (ROOT / "src/resettle/eviction/in_flight.py").read_text(encoding="utf-8")
PAGE = (DOCS / "reference" / "logs.md").read_text(encoding="utf-8")

# Where the event is not written out at the call: which file logs it, and what it may be.
INDIRECT = {
    "controllers/soft_taints/reconcile.py": {"tainted", "untainted"},
    "eviction/executor.py": {*EVENTS.values(), str(MoveResult.EVICTED)},
    "eviction/in_flight.py": set(re.findall(r"\"([a-z ]*(?:after all|in background))\"", LEDGER)),
}


class LogCall(NamedTuple):
    """A call that writes a line of the log."""

    file: str
    level: str
    event: str | None
    facts: frozenset[str]


def calls() -> Iterator[LogCall]:
    """Every call of a log in the source."""
    source = ROOT / "src" / "resettle"
    for file in sorted(source.rglob("*.py")):
        name = file.relative_to(source).as_posix()
        if name == "log.py" or name.startswith("cli/demonstration"):
            continue
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            match node:
                case ast.Call(func=ast.Attribute(value=logger, attr=level)) if (
                    level in LEVELS and is_log(logger)
                ):
                    yield LogCall(name, level, event_of(node), facts_of(node))
                case ast.Call(func=ast.Name(id="write")) if name == "eviction/executor.py":
                    yield LogCall(name, "", event_of(node), facts_of(node))


def is_log(node: ast.expr) -> bool:
    match node:
        case ast.Name(id=name) | ast.Attribute(attr=name):
            return name.strip("_") == "log"
        case ast.Call(func=ast.Attribute(attr="only_when_new")):
            return True
    return False


def event_of(call: ast.Call) -> str | None:
    match call.args[0]:
        case ast.Constant(value=str(event)):
            return event
    return None


def facts_of(call: ast.Call) -> frozenset[str]:
    return frozenset(keyword.arg for keyword in call.keywords if keyword.arg)


def rows() -> dict[str, tuple[str, set[str]]]:
    """What the page says of each event: its levels, its facts."""
    events = {}
    for line in PAGE.splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if line.startswith("| `") and len(cells) == 4:
            for event in re.findall(r"`([^`]+)`", cells[0]):
                events[event] = cells[1], set(re.findall(r"`([^`]+)`", cells[2]))
    return events


def shown(level: str) -> str:
    """The level as the page writes it."""
    return f"debug, from {VERBOSITY_FROM[level]}" if level in VERBOSITY_FROM else level  # type: ignore[index]


def test_every_event_is_on_the_page_and_no_other() -> None:
    log_calls = list(calls())
    indirect = {call.file for call in log_calls if call.event is None}
    written = {call.event for call in log_calls if call.event is not None}

    assert indirect == INDIRECT.keys(), "an event that is not written out is not found"
    assert written | set().union(*INDIRECT.values()) == rows().keys()


def test_facts_and_levels_are_those_of_the_source() -> None:
    facts, levels = defaultdict[str, set[str]](set), defaultdict[str, set[str]](set)
    for call in calls():
        for event in INDIRECT.get(call.file, ()) if call.event is None else (call.event,):
            facts[event] |= call.facts
            levels[event] |= {call.level} - {""}

    for event, (said_levels, said_facts) in rows().items():
        assert said_facts == facts[event], event
        if levels[event]:
            assert set(said_levels.split(", from")[0].split(", ")) == {
                shown(level).split(", from")[0] for level in levels[event]
            }, event
            assert all(shown(level) in said_levels for level in levels[event]), event
