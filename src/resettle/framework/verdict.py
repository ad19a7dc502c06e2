"""What the draft answers: a verdict on a proposed pod, and the reasons as values.

A refusal carries a stable code for programs and the facts of a sentence for people.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Any

from msgspec import Struct


class Limit(StrEnum):
    """Which of the cycle's limits is reached; plugins react to each in their own way."""

    TOTAL = "total"
    NODE = "node"
    NODES = "nodes"
    NAMESPACE = "namespace"


class Refusal(Struct, frozen=True):
    """Why a pod stays: a code, a sentence, and the part of the program that refused it."""

    code: str
    says: str
    """The predicate of the sentence, with `{name}` where a fact goes."""
    by: str = ""
    facts: dict[str, Any] = {}
    limit: Limit | None = None
    subject: str = ""
    """What the sentence is about, if not the pod itself; with `{name}` where a fact goes."""
    temporary: bool = False
    """Whether it is about the load of the moment and may end by itself: a job keeps waiting."""

    @property
    def sentence(self) -> str:
        """The whole reason; about the pod itself, it begins with the verb."""
        return f"{self.subject_text} {self.predicate}" if self.subject else self.predicate

    @property
    def subject_text(self) -> str:
        """The subject with its facts; empty if it is the pod itself."""
        return self._with_facts(self.subject)

    @property
    def predicate(self) -> str:
        """The predicate of the sentence, with its facts."""
        return self._with_facts(self.says)

    @property
    def clause(self) -> str:
        """The reason with its subject, as it continues a sentence about the pod."""
        return self.sentence if self.subject else f"it {self.predicate}"

    def _with_facts(self, text: str) -> str:
        try:
            return text.format(**self.facts) if self.facts else text
        except (KeyError, IndexError, ValueError):
            return text


class NotProposed(Struct, frozen=True):
    """Why a plugin did not propose a pod: a code, and a sentence about that pod."""

    code: str
    says: str


class Band(Struct, frozen=True):
    """Where a plugin puts a node: `under`, `within` or `over` what it should carry."""

    name: str
    says: str


class Stopped(Struct, frozen=True):
    """Why a plugin ended early or had nothing to do; not an error."""

    code: str
    says: str


class Verdict(Struct, frozen=True):
    """The answer to a proposal: admitted, already moving, or refused."""

    kind: str
    refusal: Refusal | None = None

    @property
    def admitted(self) -> bool:
        """Whether a new move was entered."""
        return self.kind == "admitted"

    @property
    def is_leaving(self) -> bool:
        """Whether the pod counts as leaving: admitted now, or moving already."""
        return self.kind != "refused"

    @property
    def limit(self) -> Limit | None:
        """The limit that refused it, if one did."""
        return self.refusal.limit if self.refusal else None


ADMITTED = Verdict("admitted")
MOVING = Verdict("moving")


def verdict_of(refusal: Refusal) -> Verdict:
    """The verdict `refused`, with this refusal."""
    return Verdict("refused", refusal)
