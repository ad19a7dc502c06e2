"""What a run tells while it goes on: one fact sheet a line, read as it comes."""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from typing import Any

from tests.e2e.cluster.workspace import eventually

Line = dict[str, Any]


class Diary(ABC):
    """The log of one run; whoever runs it knows when it is over."""

    def __init__(self) -> None:
        self.lines: list[Line] = []
        self.other: list[str] = []
        """What it said that is not of the log: errors that end it."""

    @property
    @abstractmethod
    def over(self) -> bool:
        """Whether the run has ended, and nothing more will come."""

    def told(self, event: str, **facts: Any) -> list[Line]:
        """The lines of an event with these facts."""
        wanted = {"msg": event, **facts}
        return [
            line
            for line in list(self.lines)
            if all(line.get(key) == fact for key, fact in wanted.items())
        ]

    def awaits(self, event: str, times: int = 1, **facts: Any) -> list[Line]:
        """The lines of an event, once there are so many."""

        def seen() -> list[Line]:
            over = self.over
            found = self.told(event, **facts)
            assert len(found) >= times or not over, self.story
            return found if len(found) >= times else []

        return eventually(f"`{event}` {times} times", seen)

    def awaits_more(self, event: str, times: int = 1) -> list[Line]:
        """The same, not counting what was told before."""
        return self.awaits(event, len(self.told(event)) + times)

    @property
    def evicted(self) -> set[str]:
        """The uids that it says it evicted: at once, or after all when an answer was lost."""
        told = [*self.told("evicted"), *self.told("evicted after all")]
        return {line["uid"] for line in told}

    @property
    def unknown(self) -> set[str]:
        """The uids of pods that it asked to leave without learning what came of it."""
        told = {line["uid"] for line in self.told("answer lost")}
        return told - self.evicted - {it["uid"] for it in self.told("not evicted after all")}

    @property
    def story(self) -> str:
        """All it said, for a failing test."""
        return "\n".join([*(json.dumps(line) for line in self.lines), *self.other])
