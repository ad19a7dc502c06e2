"""The log: one line per event, for people or for programs.

    log = Log.on(sys.stderr, clock, form="text", verbosity=0)
    log.info("evicted", pod=pod.key, node=pod.node, reason=verdict.reason)

An event is a constant; what varies are its facts, and a fact that is None is left out. Writing
never raises: a daemon with a broken stderr goes on with its work. `docs/reference/logs.md` lists
every event.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping
from collections.abc import Set as AbstractSet
from datetime import datetime, timedelta
from functools import partial
from json.encoder import encode_basestring, encode_basestring_ascii
from typing import Any, Literal, Protocol, TextIO

from resettle.clock import to_the_second

Form = Literal["text", "json"]
FORMS: tuple[Form, ...] = ("text", "json")
Level = Literal["debug", "detail", "info", "warning", "error"]
Facts = Mapping[str, Any]
Emit = Callable[[Level, str, Facts], None]

VERBOSITY_FROM: Mapping[Level, int] = {"detail": 1, "debug": 3}
"""The least `--v` at which a level is logged; the other levels always are."""
_LEVEL_NAMES: Mapping[Level, str] = {"detail": "debug"}
"""The name that a level has in the log, where it is not its own."""


class WallClock(Protocol):
    """A source of the time of day."""

    def now(self) -> datetime:
        """The wall clock, in UTC."""


class Log:
    """Logs events with their facts."""

    def __init__(self, emit: Emit) -> None:
        self._emit = emit
        self._last: dict[str, tuple[Level, str, Facts]] = {}

    @classmethod
    def on(
        cls, stream: TextIO, clock: WallClock, *, form: Form = "text", verbosity: int = 0
    ) -> Log:
        """A log that writes whole lines to a stream; `verbosity` is what `--v` says."""
        line = _in_json if form == "json" else _in_text

        def emit(level: Level, event: str, facts: Facts) -> None:
            if verbosity < VERBOSITY_FROM.get(level, verbosity):
                return
            try:
                stream.write(line(clock.now(), level, event, facts) + "\n")
                stream.flush()
            except (OSError, ValueError):
                pass  # broken, closed or full: that is no reason to stop evicting

        return cls(emit)

    @classmethod
    def to(cls, lines: list[str]) -> Log:
        """A log for tests: adds every line to a list, as text and without the time."""
        return cls(lambda level, event, facts: lines.append(_format_event(level, event, facts)))

    def debug(self, event: str, /, **facts: Any) -> None:
        """Log what only helps to find a fault."""
        self._emit("debug", event, facts)

    def detail(self, event: str, /, **facts: Any) -> None:
        """Log a detail, shown with `--v=1`."""
        self._emit("detail", event, facts)

    def info(self, event: str, /, **facts: Any) -> None:
        """Log what an operator wants to know."""
        self._emit("info", event, facts)

    def warning(self, event: str, /, **facts: Any) -> None:
        """Log what needs attention, though the work goes on."""
        self._emit("warning", event, facts)

    def error(self, event: str, /, **facts: Any) -> None:
        """Log what could not be done."""
        self._emit("error", event, facts)

    def only_when_new(self, key: str) -> Log:
        """A log that skips an event if it equals the last one under this key.

        `log.only_when_new("watch Pod").warning("watch broken", reason=…)` logs the first of several
        equal problems, and the next one when its facts differ or after `forget`.
        """
        return Log(partial(self._emit_if_new, key))

    def forget(self, key: str) -> None:
        """Log the next event under this key even if it is equal: the problem was solved."""
        self._last.pop(key, None)

    def _emit_if_new(self, key: str, level: Level, event: str, facts: Facts) -> None:
        entry = (level, event, facts)
        if self._last.get(key) != entry:
            self._last[key] = entry
            self._emit(level, event, facts)


QUIET = Log(lambda *_: None)
"""Logs nothing."""


# -- how a line is written -----------------------------------------------------------------------


def _in_text(at: datetime, level: Level, event: str, facts: Facts) -> str:
    return f"{to_the_second(at)}Z {_format_event(level, event, facts)}"


def _format_event(level: Level, event: str, facts: Facts) -> str:
    words = [_LEVEL_NAMES.get(level, level).upper(), event]
    for key, fact in facts.items():
        if fact is not None:
            text = fact if isinstance(fact, str) else _flatten(_plain(fact))
            words.append(f"{key}={_quote_if_needed(text)}")
    return " ".join(words)


def _in_json(at: datetime, level: Level, event: str, facts: Facts) -> str:
    entry = {"ts": _stamp(at), "level": _LEVEL_NAMES.get(level, level), "msg": event}
    for key, fact in facts.items():
        if fact is not None:
            entry[f"{key}_" if key in ("ts", "level", "msg") else key] = _plain(fact)
    return json.dumps(entry, separators=(",", ":"))


def _stamp(at: datetime) -> str:
    return f"{to_the_second(at)}.{at.microsecond // 1000:03}Z"


def _plain(fact: Any) -> Any:
    """The fact as JSON has it; what JSON does not have becomes a string."""
    match fact:
        case str():
            return str(fact)
        case None | bool() | int():
            return fact
        case float():
            return _round(fact) if math.isfinite(fact) else str(fact)
        case timedelta():
            return _round(fact.total_seconds())
        case datetime():
            return _stamp(fact)
        case Mapping():
            return {str(key): _plain(value) for key, value in fact.items()}
        case list() | tuple():
            return [_plain(value) for value in fact]
        case AbstractSet():
            return sorted((_plain(value) for value in fact), key=str)
        case _:
            return str(fact)


def _round(number: float) -> float | int:
    """Round to three digits; whole numbers become integers."""
    near = round(number, 3)
    return int(near) if near.is_integer() else near


def _quote_if_needed(text: str) -> str:
    """The fact as one word of a line, in quotes only where it needs them."""
    quoted = encode_basestring_ascii(text)
    if not text.isascii():
        # Printable text is not escaped; its only white space is blanks.
        if not text.isprintable():
            return quoted
        quoted = encode_basestring(text)
    if len(quoted) > len(text) + 2 or " " in text or "=" in text or not text:
        return quoted
    return text


def _flatten(plain: Any) -> str:
    match plain:
        case dict():
            return ",".join(f"{key}:{_flatten(value)}" for key, value in plain.items())
        case list():
            return ",".join(_flatten(value) for value in plain)
        case bool() | None:
            return json.dumps(plain)
        case _:
            return str(plain)
