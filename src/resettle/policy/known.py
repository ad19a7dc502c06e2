"""What the policy room must know of plugins: name, arguments, and where each may be listed.

It is told by its caller and never looks for plugins itself; `framework.plugin.Plugin` fits as is.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from resettle.policy.args import Args

POINTS = ("presort", "sort", "deschedule", "balance", "filter", "preevictionfilter", "evict")
GUARD = "DefaultEvictor"
MOVER = "EvictionAPI"
"""How pods leave unless a profile names another way."""
GUARDED_POINTS = ("filter", "preevictionfilter")


class KnownPlugin(Protocol):
    """The part of a plugin that a policy is checked against."""

    @property
    def name(self) -> str:
        """The name that policies use."""

    @property
    def args(self) -> type[Args]:
        """The struct that `pluginConfig[].args` must fit."""

    @property
    def points(self) -> frozenset[str]:
        """The extension points whose `enabled` list may name it."""


KnownPlugins = Mapping[str, KnownPlugin]
