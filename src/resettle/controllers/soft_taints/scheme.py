"""Our taints among all others: their keys, their values, and whose they are.

| style       | a node that is over its line, at level 3 of 3                            |
|-------------|--------------------------------------------------------------------------|
| `Levels`    | `…/overutilized=level1`, `…/overutilized-2=level2`, `…/overutilized-3=…` |
| `OpenShift` | `…/appropriate=true`, `…/overutilized=true`                              |

The scheduler counts soft taints and never looks at their values, and a node may have one taint of a
key and effect; so each level has a key of its own. Ours is a taint by key and effect together: a
hard taint under one of our keys is somebody else's, and stays.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from msgspec import Struct

from resettle.model.node import Node
from resettle.model.taint import PREFER_NO_SCHEDULE, Taint
from resettle.policy.soft_taints import PREFIXES, SoftTaints

OVER = "overutilized"
APPROPRIATE = "appropriate"
NAMES = rf"{APPROPRIATE}|{OVER}(-[1-9][0-9]?)?"
"""What can stand behind the `/` of a key of ours."""
_NAME = re.compile(NAMES)


class Ours(Struct, frozen=True):
    """Which taints are ours: those under these prefixes."""

    prefixes: frozenset[str]

    def claims(self, key: str, effect: str) -> bool:
        """Whether a taint with this key and effect is ours."""
        domain, _, name = key.rpartition("/")
        return (
            effect == PREFER_NO_SCHEDULE
            and domain in self.prefixes
            and _NAME.fullmatch(name) is not None
        )

    def on(self, node: Node) -> tuple[Taint, ...]:
        """Our taints on a node, in their order."""
        return tuple(it for it in node.taints if self.claims(it.key, it.effect))

    def also(self, others: Iterable[str]) -> Ours:
        """With more prefixes."""
        return Ours(self.prefixes | frozenset(others))


EVERYWHERE = Ours(frozenset(PREFIXES.values()))
"""The taints of every style under the prefix it has unless told otherwise: what clean-up knows."""


class Scheme(Struct, frozen=True):
    """Which taints stand for which state of a node."""

    settings: SoftTaints

    @property
    def ours(self) -> Ours:
        """Our taints under the prefix in use, whatever style or level they were set by."""
        return Ours(frozenset({self.settings.domain}))

    def over(self, level: int) -> tuple[Taint, ...]:
        """The taints of a node that is over its line."""
        if self.settings.style == "OpenShift":
            return (*self.appropriate, self._taint(OVER, "true"))
        return tuple(
            self._taint(OVER if k == 1 else f"{OVER}-{k}", f"level{k}") for k in range(1, level + 1)
        )

    @property
    def appropriate(self) -> tuple[Taint, ...]:
        """The taints of a node that is as full as it should be, while another is emptier."""
        if self.settings.style == "OpenShift":
            return (self._taint(APPROPRIATE, "true"),)
        return ()

    def level(self, node: Node) -> int:
        """The level a node is marked with: how many of our taints say that it is over its line."""
        return sum(it.key.rpartition("/")[2] != APPROPRIATE for it in self.ours.on(node))

    def _taint(self, name: str, value: str) -> Taint:
        return Taint(f"{self.settings.domain}/{name}", PREFER_NO_SCHEDULE, value)
