"""A descheduler, built from a policy or in code, that draws plans.

All profiles' deschedule plugins run first, then all profiles' balance plugins. When a plugin
fails, only its own remaining proposals are lost: the others still run, and the plan says so.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractContextManager, nullcontext
from datetime import timedelta
from typing import Any

from msgspec import Struct

from resettle.errors import PluginError, PolicyError, ResettleError
from resettle.framework.draft import Draft
from resettle.framework.plan import HeldBack, Note, Plan, PluginRun, Proposal, Turn
from resettle.framework.plan_state import NO_EARLIER_ROUNDS, EarlierRounds, PlanState
from resettle.framework.plugin import Plugin
from resettle.framework.profile import Instance, Profile
from resettle.framework.verdict import Stopped
from resettle.framework.view import View
from resettle.model.measurements import KUBERNETES_METRICS, MetricsQuery, Readings
from resettle.model.selectors import EVERYTHING, Selector
from resettle.model.semantics import IMPROVED, PARITY, Semantics
from resettle.model.snapshot import Snapshot
from resettle.model.workloads import DepartedPod, ScaleKind
from resettle.policy.args import STRATEGY_POINTS, ExtensionPoint
from resettle.policy.document import Limits, MetricsProvider, Policy, SoftTaints
from resettle.policy.document import ProfileConfig as ProfileDocument

TOO_FEW_NODES = 1
BUDGETS = frozenset({"PodDisruptionBudget"})
PLACING = frozenset({"PersistentVolumeClaim", "PersistentVolume", "CSINode", "Namespace"})
"""Kinds that kube-scheduler's filters read, besides nodes and pods."""


class Descheduler(Struct, frozen=True, kw_only=True):
    """Profiles, and what holds for all of them."""

    profiles: tuple[Profile, ...]
    limits: Limits = Limits()
    node_selector: Selector = EVERYTHING
    semantics: Semantics = PARITY
    providers: tuple[MetricsProvider, ...] = ()
    """Sources of measured utilization, where it is not what pods request."""
    soft_taints: SoftTaints = SoftTaints()
    """How the soft tainter marks nodes that are too full."""
    keeps_held_back: bool = False
    """Whether plans keep each pod that a limit or a budget held back, for events."""

    @property
    def reads(self) -> frozenset[str]:
        """Kinds, `history` and `conditions` that enabled plugins read besides nodes and pods."""
        declared = [
            instance.plugin.reads(instance.args)
            for profile in self.profiles
            for instance in profile.instances
        ]
        declared += [
            instance.plugin.controller_reads(instance.args)
            for profile in self.profiles
            for instance in profile.controllers
        ]
        # The draft itself reads budgets: without them a plan would not equal its run.
        own = BUDGETS if self.semantics.weak_fit else BUDGETS | PLACING
        return own.union(*declared)

    @property
    def measures(self) -> frozenset[MetricsQuery]:
        """All that has to be measured for the enabled plugins."""
        return frozenset(
            question
            for profile in self.profiles
            for instance in profile.instances
            for question in instance.plugin.measures(instance.args)
        )

    def with_moves_of_objects(self, snapshot: Snapshot) -> Snapshot:
        """The snapshot with the moves, under way and done, that objects of movers stand for."""
        movers = [profile.mover for profile in self.profiles if profile.mover]
        moving = snapshot.moving.union(*(_moving(mover, snapshot) for mover in movers))
        evictions = {eviction.pod: eviction for eviction in snapshot.evictions}
        for mover in movers:
            for eviction in mover.plugin.evictions(mover.args, snapshot):
                evictions.setdefault(eviction.pod, eviction)
        return snapshot.with_moving(moving).with_evictions(evictions.values())

    @property
    def scales(self) -> frozenset[ScaleKind]:
        """The kinds of workloads whose `scale` subresource is read for the enabled plugins."""
        return frozenset(
            kind
            for profile in self.profiles
            for instance in profile.instances
            for kind in instance.plugin.scales(instance.args)
        )

    @property
    def eviction_window(self) -> timedelta:
        """How far back the enabled plugins look at evictions; zero if none does."""
        windows = (
            instance.plugin.eviction_window(instance.args)
            for profile in self.profiles
            for instance in profile.instances
        )
        return max(windows, default=timedelta())

    def view(self, snapshot: Snapshot) -> View:
        """The cluster as this policy sees it: with the pods that its movers are moving.

        What no provider measures for the policy is not measured.
        """
        snapshot = self.with_moves_of_objects(snapshot)
        if unprovided := [
            question for question in self.measures if not self._provides(question.source)
        ]:
            without = {question: _no_provider(question.source) for question in unprovided}
            snapshot = snapshot.with_usage({**snapshot.usage, **without})
        return View(snapshot, self.semantics, self.node_selector, self._list_departed(snapshot))

    def _list_departed(self, snapshot: Snapshot) -> tuple[DepartedPod, ...]:
        """The pods that are gone while objects of movers still stand for their moves."""
        movers = [profile.mover for profile in self.profiles if profile.mover]
        departed = {
            pod.uid: pod for mover in movers for pod in mover.plugin.departed(mover.args, snapshot)
        }
        return tuple(departed.values())

    def _provides(self, source: str) -> bool:
        """Whether a provider measures this source; `resettle/v1` needs none for the metrics API."""
        built_in = source == KUBERNETES_METRICS and not self.semantics.figures_judged_together
        return built_in or any(provider.source == source for provider in self.providers)

    @property
    def cautions(self) -> tuple[str, ...]:
        """Warnings of the enabled plugins, for an operator to read before a plan is drawn."""
        of_plugins = (
            f"profile {profile.name}: {instance.name}: {caution}"
            for profile in self.profiles
            for instance in profile.instances
            for caution in instance.plugin.cautions(instance.args, self.semantics)
        )
        lacking = (
            f"`metricsProviders` does not name {source}, by which nodes are to be judged; "
            "nothing will be moved for that"
            for source in sorted({question.source for question in self.measures})
            if not self._provides(source)
        )
        return tuple(dict.fromkeys((*of_plugins, *lacking)))

    def draw_plan(
        self,
        snapshot: Snapshot,
        *,
        watching: Iterable[str] = (),
        earlier_rounds: EarlierRounds = NO_EARLIER_ROUNDS,
        phase: Callable[[Turn], AbstractContextManager[object]] = nullcontext,
    ) -> Plan:
        """What a cycle would do; notes are kept for the pods and nodes being watched.

        `earlier_rounds` holds the results of earlier plans from the same snapshot. `phase` is
        entered around each plugin's turn, so that the caller can time it.
        """
        view = self.view(snapshot)
        try:
            self._check_needs(view)
            return self._draw(view, frozenset(watching), earlier_rounds, phase)
        finally:
            view.release()

    def _draw(
        self,
        view: View,
        watched: frozenset[str],
        earlier_rounds: EarlierRounds,
        phase: Callable[[Turn], AbstractContextManager[object]],
    ) -> Plan:
        nodes = len(view.nodes)
        if nodes <= TOO_FEW_NODES:
            return _plan(view, skipped=_too_few(nodes, view), history=view.history)
        state = PlanState(view, self.limits, earlier_rounds)
        runs: list[PluginRun] = []
        notes: list[Note] = []
        proposals: list[Proposal] = []
        held_back: list[HeldBack] = []
        history: dict[tuple[str, str], Any] = {}
        for point in STRATEGY_POINTS:
            for profile in self.profiles:
                for instance in profile.strategies(point):
                    draft = Draft(
                        profile,
                        instance.name,
                        view,
                        state,
                        watched,
                        keeps_held_back=self.keeps_held_back,
                    )
                    with phase(Turn(profile.name, instance.name, point)):
                        runs.append(_turn(instance, view, draft))
                    notes.extend(draft.notes)
                    proposals.extend(draft.proposals)
                    held_back.extend(draft.held_back)
                    # A turn that failed keeps what the plugin remembered before.
                    memory = draft.recall() if runs[-1].error else draft.memory
                    if memory is not None:
                        history[profile.name, instance.name] = memory
        return _plan(
            view,
            state=state,
            runs=runs,
            notes=notes,
            proposals=proposals,
            held_back=held_back,
            history=history,
        )

    def _check_needs(self, view: View) -> None:
        problems = {
            f"profile {profile.name}: {instance.name}: {problem}": None
            for profile in self.profiles
            for instance in profile.instances
            for problem in instance.plugin.needs(instance.args, view)
        }
        if problems:
            raise PolicyError("\n".join(["the cluster lacks what the policy names", *problems]))


def build_descheduler(policy: Policy, plugins: Mapping[str, Plugin]) -> Descheduler:
    """The descheduler that a policy describes."""
    return Descheduler(
        profiles=tuple(_profile(document, plugins) for document in policy.profiles),
        limits=policy.limits,
        node_selector=policy.node_selector,
        semantics=IMPROVED if policy.improved else PARITY,
        providers=_providers(policy),
        soft_taints=policy.soft_taints,
        keeps_held_back=policy.eviction_failure_event_notification,
    )


def _providers(policy: Policy) -> tuple[MetricsProvider, ...]:
    """The providers, with the one that the older switch `metricsCollector` stands for."""
    if policy.metrics_collector:
        return (*policy.metrics_providers, MetricsProvider(source=KUBERNETES_METRICS))
    return policy.metrics_providers


def _no_provider(source: str) -> Readings:
    return Readings(failure=f"`metricsProviders` of the policy does not name {source}")


def _profile(document: ProfileDocument, plugins: Mapping[str, Plugin]) -> Profile:
    def instances(point: ExtensionPoint) -> tuple[Instance, ...]:
        return tuple(
            Instance(plugins[name], document.args[name], point)
            for name in document.enabled.get(point, ())
        )

    return Profile(
        name=document.name,
        deschedule=instances(ExtensionPoint.DESCHEDULE),
        balance=instances(ExtensionPoint.BALANCE),
        filters=instances(ExtensionPoint.FILTER),
        pre_eviction_filters=instances(ExtensionPoint.PRE_EVICTION_FILTER),
        presort=instances(ExtensionPoint.PRE_SORT),
        sort=instances(ExtensionPoint.SORT),
        mover=next(iter(instances(ExtensionPoint.EVICT)), None),
        controllers=instances(ExtensionPoint.CONTROLLER),
    )


def _moving(mover: Instance, snapshot: Snapshot) -> frozenset[str]:
    """What the mover is moving; raises if it cannot say: then nothing must be planned."""
    try:
        return mover.plugin.moving(mover.args, snapshot)
    except ResettleError:
        raise
    except Exception as error:
        what = f"{mover.name} could not say which pods it is moving"
        raise PluginError(f"{what}: {type(error).__name__}: {error}") from error


def _turn(instance: Instance, view: View, draft: Draft) -> PluginRun:
    try:
        stopped = instance.strategy(instance.args, view, draft)
    except ResettleError as error:
        return draft.run(instance.point, None, str(error))
    except Exception as error:
        return draft.run(instance.point, None, f"{type(error).__name__}: {error}")
    return draft.run(instance.point, stopped)


def _too_few(nodes: int, view: View) -> Stopped:
    there = "only one node" if nodes else "no node"
    rest = len(view.node_index.nodes) - nodes
    left_out = f" ({rest} unready or not selected)" if rest else ""
    return Stopped(
        "too-few-nodes",
        f"{there} is ready and selected{left_out}; moving pods takes at least two",
    )


def _plan(
    view: View,
    *,
    state: PlanState | None = None,
    runs: Iterable[PluginRun] = (),
    notes: Iterable[Note] = (),
    proposals: Iterable[Proposal] = (),
    held_back: Iterable[HeldBack] = (),
    history: Mapping[tuple[str, str], Any] | None = None,
    skipped: Stopped | None = None,
) -> Plan:
    return Plan(
        moves=tuple(state.moves) if state else (),
        runs=tuple(runs),
        taken_at=view.taken_at,
        nodes=len(view.node_index.nodes),
        nodes_in_scope=len(view.nodes),
        pods=len(view.pod_index),
        skipped=skipped,
        notes=tuple(notes),
        proposals=tuple(proposals),
        held_back=tuple(held_back),
        spent=state.limits.spent if state else (),
        history=history or {},
    )
