"""What the draft answers: a verdict on a proposed pod, and the reasons as values.

A refusal carries a stable code for programs and the facts of a sentence for people.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Any

from msgspec import Struct


class Limit(StrEnum):
    """Which of the cycle's limits stood in the way; plugins react to each in their own manner."""

    TOTAL = "total"
    NODE = "node"
    NODES = "nodes"
    NAMESPACE = "namespace"


class Refusal(Struct, frozen=True):
    """Why a pod stays: a code, a sentence, and who said so."""

    code: str
    says: str
    """The sentence, with `{name}` where a fact goes."""
    by: str = ""
    facts: dict[str, Any] = {}
    limit: Limit | None = None

    @property
    def sentence(self) -> str:
        """The reason, as one would say it of the pod."""
        try:
            return self.says.format(**self.facts) if self.facts else self.says
        except (KeyError, IndexError, ValueError):
            return self.says


class Unwanted(Struct, frozen=True):
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
    def gone(self) -> bool:
        """Whether the pod counts as leaving: admitted now, or moving already."""
        return self.kind != "refused"

    @property
    def limit(self) -> Limit | None:
        """The limit that refused it, if one did."""
        return self.refusal.limit if self.refusal else None


ADMITTED = Verdict("admitted")
MOVING = Verdict("moving")


def refused(refusal: Refusal) -> Verdict:
    """The verdict that a refusal makes."""
    return Verdict("refused", refusal)
