"""The log of a run, read line by line while it runs."""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from typing import Any

from tests.e2e.cluster.workspace import eventually

Line = dict[str, Any]


class LogReader(ABC):
    """The log of one run; subclasses run it and know when it has ended."""

    def __init__(self) -> None:
        self.lines: list[Line] = []
        self.other_output: list[str] = []
        """Output that is not of the log: errors that end the process."""

    @property
    @abstractmethod
    def has_ended(self) -> bool:
        """Whether the run has ended and all its output is read."""

    def lines_of(self, event: str, **facts: Any) -> list[Line]:
        """The lines of this event that have these facts."""
        wanted = {"msg": event, **facts}
        return [
            line
            for line in list(self.lines)
            if all(line.get(key) == fact for key, fact in wanted.items())
        ]

    def wait_for(self, event: str, times: int = 1, **facts: Any) -> list[Line]:
        """Waits until there are so many lines of an event; returns them."""

        def enough_lines() -> list[Line]:
            has_ended = self.has_ended
            lines = self.lines_of(event, **facts)
            assert len(lines) >= times or not has_ended, self.log_text
            return lines if len(lines) >= times else []

        try:
            return eventually(f"`{event}` {times} times", enough_lines)
        except AssertionError as error:
            raise AssertionError(f"{error}; the log:\n{self.log_text}") from None

    def wait_for_more(self, event: str, times: int = 1) -> list[Line]:
        """Waits for so many more lines of an event than there are now; returns all."""
        return self.wait_for(event, len(self.lines_of(event)) + times)

    @property
    def evicted(self) -> set[str]:
        """The uids of pods that are logged as evicted, at once or after a lost answer."""
        lines = [*self.lines_of("evicted"), *self.lines_of("evicted after all")]
        return {line["uid"] for line in lines}

    @property
    def unknown(self) -> set[str]:
        """The uids of pods whose eviction has no known result."""
        unanswered = {line["uid"] for line in self.lines_of("answer lost")}
        return (
            unanswered
            - self.evicted
            - {line["uid"] for line in self.lines_of("not evicted after all")}
        )

    @property
    def log_text(self) -> str:
        """The whole output, for the message of a failing test."""
        return "\n".join([*(json.dumps(line) for line in self.lines), *self.other_output])
