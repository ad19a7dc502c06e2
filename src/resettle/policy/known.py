"""What the policy room must know of plugins: name, arguments, and where each may be listed.

It is told by its caller and never looks for plugins itself; `framework.plugin.Plugin` fits as is.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Protocol

from resettle.policy.args import Args


class ExtensionPoint(StrEnum):
    """Where plugins take part in a cycle.

    The value is the one spelling: the key under `plugins` of a policy, the field of `PluginSets`
    and of `Plugin`, and the word in JSON, logs, metrics and traces.
    """

    PRE_SORT = "presort"
    SORT = "sort"
    DESCHEDULE = "deschedule"
    BALANCE = "balance"
    FILTER = "filter"
    PRE_EVICTION_FILTER = "preevictionfilter"
    EVICT = "evict"


SORTER_POINTS = (ExtensionPoint.PRE_SORT, ExtensionPoint.SORT)
STRATEGY_POINTS = (ExtensionPoint.DESCHEDULE, ExtensionPoint.BALANCE)
"""Where pods are proposed, in this order in every cycle."""
FILTER_POINTS = (ExtensionPoint.FILTER, ExtensionPoint.PRE_EVICTION_FILTER)
"""Where DefaultEvictor runs unless a policy says otherwise."""
GUARD = "DefaultEvictor"
MOVER = "EvictionAPI"
"""How pods leave unless a profile names another way."""


class KnownPlugin(Protocol):
    """The part of a plugin that a policy is checked against."""

    @property
    def name(self) -> str:
        """The name that policies use."""

    @property
    def args(self) -> type[Args]:
        """The struct that `pluginConfig[].args` must fit."""

    @property
    def points(self) -> frozenset[ExtensionPoint]:
        """The extension points whose `enabled` list may name it."""


KnownPlugins = Mapping[str, KnownPlugin]
