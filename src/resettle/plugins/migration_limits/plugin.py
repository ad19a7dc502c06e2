"""MigrationLimits: keeps so many pods of each workload running while others are moved.

It is a filter, and works with any strategy and any mover. Disruption budgets say what their authors
allow; these limits protect workloads that have no budget, nodes and namespaces too.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta

from resettle.framework.plugin import Plugin, PreparedFilter, Setting
from resettle.framework.verdict import Refusal
from resettle.framework.view import View
from resettle.model.pod import Pod
from resettle.model.semantics import Semantics
from resettle.model.workloads import WORKLOAD_KINDS, ScaleKind
from resettle.plugins.migration_limits.args import GATES, Args
from resettle.plugins.migration_limits.rules import MovesInView
from resettle.plugins.migration_limits.settings import settings_that_admit
from resettle.policy.args import ExtensionPoint


def reads(args: Args) -> frozenset[str]:
    """The kinds of workloads, unless every check that needs them is left out."""
    return WORKLOAD_KINDS if args.checks_workloads else frozenset()


def scales(args: Args) -> frozenset[ScaleKind]:
    """Other kinds of workloads, read by their `scale` subresource."""
    return args.scales if args.checks_workloads else frozenset()


def eviction_window(args: Args) -> timedelta:
    """How far back evictions count."""
    return args.eviction_window


def cautions(args: Args, semantics: Semantics) -> Iterator[str]:
    """Arguments with which nothing is limited."""
    if all(gate in args.skip_eviction_gates for gate in GATES) and not args.eviction_window:
        yield "`skipEvictionGates` leaves out every check, so nothing is limited"


def refusals(args: Args, view: View, pod: Pod, point: ExtensionPoint) -> Iterator[Refusal]:
    """All rules that refuse the pod, in the order they are asked."""
    return view.prepare_once(args, MovesInView).refusals(pod)


def settings(args: Args, view: View, pod: Pod) -> Iterator[Setting]:
    """Settings that could be changed so that the pod may go."""
    return settings_that_admit(view.prepare_once(args, MovesInView), pod)


PLUGIN = Plugin(
    name="MigrationLimits",
    args=Args,
    filter=PreparedFilter(MovesInView, MovesInView.refusal),
    reads=reads,
    scales=scales,
    eviction_window=eviction_window,
    cautions=cautions,
    refusals=refusals,
    settings=settings,
)
