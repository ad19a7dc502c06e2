"""Hypothesis strategies: random clusters and policies.

    @given(clusters(), policies())
    def test_no_plugin_fails(world, document):
        assert plan_policy(document, world).errors == []

Hypothesis decides how many there are of everything and what is left out, which it can undo again
when it shrinks a counterexample. All else is drawn by a random number generator that it has
seeded: worlds differ far more in that way than by its own mutations.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from random import Random
from typing import Any

try:
    from hypothesis import strategies as st
    from hypothesis.errors import InvalidArgument
except ModuleNotFoundError as missing:
    if missing.name != "hypothesis":
        raise
    raise ModuleNotFoundError(
        "resettle.testing.strategies needs Hypothesis; install it with "
        "`pip install 'resettle[testing]'`",
        name="hypothesis",
    ) from None

from resettle.framework.plugin import Plugin
from resettle.testing.random.clusters import COLUMNS, cluster_of
from resettle.testing.random.policies import IMPROVED, leave_out_parts, policy_of
from resettle.testing.worlds import World

__all__ = ["clusters", "policies"]

_ODDS = 64
"""One of so many parts is left out."""
_SEEDS = 2**24
_AFTER_CLUSTERS = 2**32


class _Numbers:
    """Numbers drawn from ranges no two of which are alike.

    What is drawn from equal strategies in one test, Hypothesis copies from one place to another in
    most of its attempts. That is good for values that should meet; here it would show the same
    world over and over again.
    """

    def __init__(self, draw: st.DrawFn, begin: int) -> None:
        self._draw = draw
        self._begin = begin

    def number(self, low: int, high: int) -> int:
        """A number from the lowest to the highest; shrinks to the lowest."""
        if low > high:
            raise InvalidArgument(f"nothing lies between {low} and {high}; widen the bounds")
        begin, self._begin = self._begin, self._begin + high + 1
        return self._draw(st.sampled_from(range(begin + low, begin + high + 1))) - begin

    def random(self) -> Random:
        """A random number generator for all that need not shrink."""
        return Random(self.number(0, _SEEDS - 1))

    def stays(self) -> bool:
        """Nearly always yes; shrinks to no."""
        return self.number(0, _ODDS - 1) > 0


@st.composite
def clusters(
    draw: st.DrawFn,
    *,
    min_nodes: int = 1,
    max_nodes: int = 6,
    min_pods: int = 0,
    max_pods: int = 32,
    max_budgets: int = 3,
    node_traits: Mapping[str, Sequence[Any]] | None = None,
    pod_traits: Mapping[str, Sequence[Any]] | None = None,
) -> World:
    """A strategy for small worlds in which much meets.

    Pods come in a few makes, as those of a workload do: with owners, priorities, requests,
    tolerations, affinities and spread rules. Some are finished, failing, leaving, or wait for a
    node; some budgets allow nothing; some nodes are tainted, cordoned, not ready or too full.

    Traits are what your plugin looks at: arguments of `node` or `pod`, each with its choices, the
    plainest first. `pod_traits={"labels": [{}, {"move-hours": "22-05"}]}` lets some makes of pods
    wear a label beside the labels they would have had.

    The `repr` of a world is the call that builds it.
    """
    numbers = _Numbers(draw, begin=0)
    count = numbers.number(min_pods, max_pods)
    return cluster_of(
        numbers.random(),
        nodes=numbers.number(min_nodes, max_nodes),
        pods=[number for number in range(count) if number < min_pods or numbers.stays()],
        budgets=numbers.number(0, max_budgets),
        makes=numbers.number(1, 4),
        plain=frozenset(column for column in COLUMNS if not numbers.stays()),
        node_traits=node_traits,
        pod_traits=pod_traits,
    )


@st.composite
def policies(
    draw: st.DrawFn,
    *,
    api_versions: Sequence[str] = ("descheduler/v1alpha2", IMPROVED),
    max_profiles: int = 2,
    plugins: Mapping[Plugin, Sequence[Mapping[str, Any]]] | None = None,
) -> dict[str, Any]:
    """A strategy for policy documents that load without a problem.

    They have limits and profiles of resettle's own strategies, sorters and DefaultEvictor's
    arguments. `plugins` are yours, each with the arguments it may be given: they are in every
    profile, at each extension point they serve.
    """
    own = plugins or {}
    numbers = _Numbers(draw, begin=_AFTER_CLUSTERS)
    document = policy_of(
        numbers.random(),
        profiles=numbers.number(1, max_profiles),
        api_version=api_versions[numbers.number(0, len(api_versions) - 1)],
        own=own,
    )
    return leave_out_parts(document, {plugin.name for plugin in own}, numbers.stays)
