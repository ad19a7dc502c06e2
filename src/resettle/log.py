"""The diary: one line an event, for people or for programs.

    log = Log.on(sys.stderr, clock, form="text", verbosity=0)
    log.info("evicted", pod=pod.key, node=pod.node, reason=verdict.reason)

An event is a constant; what varies are its facts, and a fact that is None is left out. Writing
never fails: a daemon whose reader has gone goes on with its work. `docs/reference/logs.md` lists
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

TOLD_FROM: Mapping[Level, int] = {"detail": 1, "debug": 3}
"""The `--v` from which on a level is told; the others always are."""
_SHOWN: Mapping[Level, str] = {"detail": "debug"}
"""What a level is called in the log, where readers know few."""


class Wall(Protocol):
    """Who knows the time of day."""

    def now(self) -> datetime:
        """The wall clock, in UTC."""


class Log:
    """Where events are told."""

    def __init__(self, emit: Emit) -> None:
        self._emit = emit
        self._last: dict[str, tuple[Level, str, Facts]] = {}

    @classmethod
    def on(cls, stream: TextIO, clock: Wall, *, form: Form = "text", verbosity: int = 0) -> Log:
        """A log that writes whole lines to a stream; `verbosity` is what `--v` says."""
        line = _in_json if form == "json" else _in_text

        def emit(level: Level, event: str, facts: Facts) -> None:
            if verbosity < TOLD_FROM.get(level, verbosity):
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
        return cls(lambda level, event, facts: lines.append(_told(level, event, facts)))

    def debug(self, event: str, /, **facts: Any) -> None:
        """Tells what only somebody looking for a fault wants to know."""
        self._emit("debug", event, facts)

    def detail(self, event: str, /, **facts: Any) -> None:
        """Tells what somebody who looks closer wants to know."""
        self._emit("detail", event, facts)

    def info(self, event: str, /, **facts: Any) -> None:
        """Tells what an operator enjoys to read."""
        self._emit("info", event, facts)

    def warning(self, event: str, /, **facts: Any) -> None:
        """Tells what should be looked at, though the work goes on."""
        self._emit("warning", event, facts)

    def error(self, event: str, /, **facts: Any) -> None:
        """Tells what could not be done."""
        self._emit("error", event, facts)

    def only_when_new(self, key: str) -> Log:
        """A log that keeps quiet about what was last told under this key.

        `log.only_when_new("watch Pod").warning("watch broken", reason=…)` tells the first of a row
        of equal troubles, and the next when its facts differ or `forget` was called in between.
        """
        return Log(partial(self._emit_if_new, key))

    def forget(self, key: str) -> None:
        """Has the next event under this key told even if it is the same; it got well meanwhile."""
        self._last.pop(key, None)

    def _emit_if_new(self, key: str, level: Level, event: str, facts: Facts) -> None:
        told = (level, event, facts)
        if self._last.get(key) != told:
            self._last[key] = told
            self._emit(level, event, facts)


QUIET = Log(lambda *_: None)
"""For those who have nothing to tell to nobody."""


# -- how a line is written -----------------------------------------------------------------------


def _in_text(at: datetime, level: Level, event: str, facts: Facts) -> str:
    return f"{to_the_second(at)}Z {_told(level, event, facts)}"


def _told(level: Level, event: str, facts: Facts) -> str:
    words = [_SHOWN.get(level, level).upper(), event]
    for key, fact in facts.items():
        if fact is not None:
            words.append(f"{key}={_word(fact if isinstance(fact, str) else _listed(_plain(fact)))}")
    return " ".join(words)


def _in_json(at: datetime, level: Level, event: str, facts: Facts) -> str:
    entry = {"ts": _stamp(at), "level": _SHOWN.get(level, level), "msg": event}
    for key, fact in facts.items():
        if fact is not None:
            entry[f"{key}_" if key in ("ts", "level", "msg") else key] = _plain(fact)
    return json.dumps(entry, separators=(",", ":"))


def _stamp(at: datetime) -> str:
    return f"{to_the_second(at)}.{at.microsecond // 1000:03}Z"


def _plain(fact: Any) -> Any:
    """The fact in terms of JSON; what JSON has no word for becomes its text."""
    match fact:
        case str():
            return str(fact)
        case None | bool() | int():
            return fact
        case float():
            return _rounded(fact) if math.isfinite(fact) else str(fact)
        case timedelta():
            return _rounded(fact.total_seconds())
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


def _rounded(number: float) -> float | int:
    """To the thousandth; what is whole has no fraction."""
    near = round(number, 3)
    return int(near) if near.is_integer() else near


def _word(text: str) -> str:
    """The fact as one word of a line, in quotes only where it would fall apart without."""
    quoted = encode_basestring_ascii(text)
    if not text.isascii():
        # What people can read is not spelled out, and of white space it has blanks alone.
        if not text.isprintable():
            return quoted
        quoted = encode_basestring(text)
    if len(quoted) > len(text) + 2 or " " in text or "=" in text or not text:
        return quoted
    return text


def _listed(plain: Any) -> str:
    match plain:
        case dict():
            return ",".join(f"{key}:{_listed(value)}" for key, value in plain.items())
        case list():
            return ",".join(_listed(value) for value in plain)
        case bool() | None:
            return json.dumps(plain)
        case _:
            return str(plain)
