"""What there is to say about one line of what somebody runs the peer with."""

from __future__ import annotations

from enum import StrEnum

from msgspec import Struct


class Sort(StrEnum):
    """What kind of thing it is, in the order in which they are told."""

    SWAP = "swap"
    """The one line that makes it resettle."""
    CHANGE = "change"
    """Has to be written otherwise, or resettle cannot start or would not do the same."""
    MISTAKE = "mistake"
    """Does not do what it seems to, and the peer keeps quiet about it."""
    IDLE = "idle"
    """Means nothing here, and may stay."""
    STAYS = "stays"
    """Means the same here."""
    BETTER = "better"
    """Would be decided otherwise by `apiVersion: resettle/v1`."""


HEADINGS = {
    Sort.SWAP: "the swap",
    Sort.CHANGE: "to change first",
    Sort.MISTAKE: "mistakes that descheduler hides",
    Sort.IDLE: "without effect, and may stay",
    Sort.STAYS: "stays as it is",
    Sort.BETTER: "what apiVersion resettle/v1 would do differently",
}


class Finding(Struct, frozen=True, kw_only=True):
    """One thing to know, where it stands, and what to do about it."""

    sort: Sort
    file: str
    line: int = 0
    """Counted from one; 0 where it stands on no line of its own."""
    column: int = 0
    about: str = ""
    says: str
    fix: str = ""

    @property
    def place(self) -> str:
        """The place as editors jump to it."""
        return f"{self.file}:{self.line}:{self.column}" if self.line else self.file

    @property
    def sentence(self) -> str:
        """What is so, and what to do."""
        return f"{self.says}; {self.fix}" if self.fix else self.says
