"""The base of every plugin's arguments, and what a policy is checked against.

A plugin's `Args` is a frozen struct; its fields are the keys of the policy in camelCase. `problems`
reports what no type can express (two fields that exclude each other), before defaults apply. The
plugins that exist are passed in by the caller (`framework.plugin.Plugin` fits `KnownPlugin`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from enum import StrEnum
from typing import Annotated, Protocol

from msgspec import Meta, Struct

from resettle.model.selectors import LabelSelector
from resettle.policy.problems import Problem
from resettle.times import DURATION as DURATION
from resettle.times import parse_duration as parse_duration

Unsigned = Annotated[int, Meta(ge=0)]
Int32 = Annotated[int, Meta(ge=-(2**31), le=2**31 - 1)]
Duration = Annotated[
    str,
    Meta(
        pattern=DURATION,
        description="a duration such as `50m`, `1h30m` or `90s`",
    ),
]


class Args(Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """Arguments of a plugin, as an operator writes them."""

    def problems(self) -> Iterator[Problem]:
        """What is wrong beyond the types; nothing by default."""
        return iter(())


class Namespaces(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Namespaces to include, or to exclude."""

    include: tuple[str, ...] = ()
    """Only pods of these namespaces."""
    exclude: tuple[str, ...] = ()
    """Pods of all namespaces but these."""

    def admits(self, namespace: str) -> bool:
        """Whether pods of this namespace are selected."""
        if self.include and namespace not in self.include:
            return False
        return namespace not in self.exclude


def include_exclude_problems(chosen: Namespaces | None, key: str) -> Iterator[Problem]:
    """A problem when both lists of an include/exclude pair are filled."""
    if chosen is not None and chosen.include and chosen.exclude:
        yield Problem(
            what="both `include` and `exclude` are set",
            fix="keep one of the two lists",
            at=(key,),
        )


def selector_problems(selector: LabelSelector | None, key: str) -> Iterator[Problem]:
    """A problem for each part of a label selector that Kubernetes would not accept."""
    if selector is not None:
        for at, what, fix in selector.problems():
            yield Problem(what=what, fix=fix, at=(key, *at))


class SelectingArgs(Args, frozen=True, kw_only=True):
    """Arguments of a plugin that can be kept to some namespaces and labels."""

    namespaces: Namespaces | None = None
    """Namespaces to keep to or to keep out of; at most one of the two lists."""
    label_selector: LabelSelector | None = None
    """Only pods with these labels."""

    def problems(self) -> Iterator[Problem]:
        yield from include_exclude_problems(self.namespaces, "namespaces")
        yield from selector_problems(self.label_selector, "labelSelector")


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
    CONTROLLER = "controller"


SORTER_POINTS = (ExtensionPoint.PRE_SORT, ExtensionPoint.SORT)
STRATEGY_POINTS = (ExtensionPoint.DESCHEDULE, ExtensionPoint.BALANCE)
"""Where pods are proposed, in this order in every cycle."""
FILTER_POINTS = (ExtensionPoint.FILTER, ExtensionPoint.PRE_EVICTION_FILTER)
"""Where DefaultEvictor runs unless a policy says otherwise."""
DEFAULT_EVICTOR = "DefaultEvictor"
"""The filter of every profile that does not replace it."""
DEFAULT_MOVER = "EvictionAPI"
"""The mover of every profile that names no other."""


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
