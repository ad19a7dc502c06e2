"""Taints on nodes, and the tolerations of pods that answer them."""

from __future__ import annotations

from msgspec import Struct

from resettle.model.selector import as_int64

NO_SCHEDULE = "NoSchedule"
NO_EXECUTE = "NoExecute"
PREFER_NO_SCHEDULE = "PreferNoSchedule"


class Taint(Struct, frozen=True, cache_hash=True):
    """A mark on a node that keeps pods away unless they tolerate it."""

    key: str
    effect: str
    value: str = ""

    @property
    def hard(self) -> bool:
        """Whether the scheduler itself would keep a pod away."""
        return self.effect in (NO_SCHEDULE, NO_EXECUTE)

    def __str__(self) -> str:
        return (
            f"{self.key}={self.value}:{self.effect}" if self.value else f"{self.key}:{self.effect}"
        )


class Toleration(Struct, frozen=True, cache_hash=True):
    """A pod's consent to taints of one key, value and effect; empty parts consent to any."""

    key: str = ""
    operator: str = ""
    value: str = ""
    effect: str = ""

    def tolerates(self, taint: Taint) -> bool:
        """Whether this taint is consented to."""
        if self.effect and self.effect != taint.effect:
            return False
        if self.key and self.key != taint.key:
            return False
        match self.operator:
            case "" | "Equal":
                return self.value == taint.value
            case "Exists":
                return True
            case "Lt" | "Gt":
                ours, theirs = as_int64(self.value), as_int64(taint.value)
                if ours is None or theirs is None:
                    return False
                return theirs < ours if self.operator == "Lt" else theirs > ours
        return False


def tolerated(tolerations: tuple[Toleration, ...], taint: Taint) -> bool:
    """Whether any of the tolerations consents to the taint."""
    return any(toleration.tolerates(taint) for toleration in tolerations)
