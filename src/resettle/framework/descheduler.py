"""A descheduler, put together from a policy or in code, that draws plans.

All profiles' deschedule plugins run first, then all profiles' balance plugins. A plugin that fails
costs its own remaining proposals and nothing else: the others still run, and the plan says so.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractContextManager, nullcontext
from typing import Any

from msgspec import Struct

from resettle.errors import PolicyError
from resettle.framework.books import Books
from resettle.framework.draft import Draft
from resettle.framework.plan import Note, Plan, PluginRun, Proposal
from resettle.framework.plugin import Plugin
from resettle.framework.profile import Instance, Profile
from resettle.framework.verdict import Stopped
from resettle.model.selector import EVERYTHING, Selector
from resettle.model.semantics import IMPROVED, PARITY, Semantics
from resettle.model.snapshot import Snapshot
from resettle.policy.document import Limits, Policy
from resettle.policy.document import Profile as ProfileDocument

TOO_FEW_NODES = 1
BUDGETS = frozenset({"PodDisruptionBudget"})
PLACING = frozenset({"PersistentVolumeClaim", "PersistentVolume", "CSINode", "Namespace"})
"""What a fit as the scheduler sees it is judged by, besides nodes and pods."""


class Descheduler(Struct, frozen=True, kw_only=True):
    """Profiles, and what holds for all of them."""

    profiles: tuple[Profile, ...]
    limits: Limits = Limits()
    node_selector: Selector = EVERYTHING
    semantics: Semantics = PARITY

    @property
    def reads(self) -> frozenset[str]:
        """Kinds (and `usage`, `history`) that the enabled plugins read besides nodes and pods."""
        declared = (
            instance.plugin.reads(instance.args)
            for profile in self.profiles
            for instance in profile.instances
        )
        # Budgets are the draft's own business: no plan equals its run without them.
        own = BUDGETS if self.semantics.weak_fit else BUDGETS | PLACING
        return own.union(*declared)

    @property
    def cautions(self) -> tuple[str, ...]:
        """What the enabled plugins would have an operator know before anything is decided."""
        said = (
            f"profile {profile.name}: {instance.name}: {caution}"
            for profile in self.profiles
            for instance in profile.instances
            for caution in instance.plugin.cautions(instance.args, self.semantics)
        )
        return tuple(dict.fromkeys(said))

    def draw_plan(
        self,
        snapshot: Snapshot,
        *,
        watching: Iterable[str] = (),
        phase: Callable[[str], AbstractContextManager[object]] = nullcontext,
    ) -> Plan:
        """What a cycle would do; notes are kept for the pods and nodes being watched.

        `phase` is entered around each plugin's turn: a way to time it from outside.
        """
        snapshot = snapshot.read_as(self.semantics, self.node_selector)
        self._check_needs(snapshot)
        nodes = len(snapshot.nodes)
        if nodes <= TOO_FEW_NODES:
            return _plan(snapshot, skipped=_too_few(nodes, snapshot), history=snapshot.history)
        books = Books(self.limits, snapshot)
        watched = frozenset(watching)
        runs: list[PluginRun] = []
        notes: list[Note] = []
        proposals: list[Proposal] = []
        history: dict[tuple[str, str], Any] = {}
        for point in ("deschedule", "balance"):
            for profile in self.profiles:
                for instance in getattr(profile, point):
                    draft = Draft(profile, instance.name, snapshot, books, watched)
                    with phase(instance.name):
                        runs.append(_turn(instance, snapshot, draft))
                    notes.extend(draft.notes)
                    proposals.extend(draft.proposals)
                    # A turn that failed has nothing to say: what was known before stays known.
                    memory = draft.recall() if runs[-1].error else draft.memory
                    if memory is not None:
                        history[profile.name, instance.name] = memory
        return _plan(
            snapshot, books=books, runs=runs, notes=notes, proposals=proposals, history=history
        )

    def _check_needs(self, snapshot: Snapshot) -> None:
        problems = {
            f"profile {profile.name}: {instance.name}: {problem}": None
            for profile in self.profiles
            for instance in profile.instances
            for problem in instance.plugin.needs(instance.args, snapshot)
        }
        if problems:
            raise PolicyError("\n".join(["the cluster lacks what the policy names", *problems]))


def assembled(policy: Policy, plugins: Mapping[str, Plugin]) -> Descheduler:
    """The descheduler that a policy describes."""
    return Descheduler(
        profiles=tuple(_profile(document, plugins) for document in policy.profiles),
        limits=policy.limits,
        node_selector=policy.node_selector,
        semantics=IMPROVED if policy.improved else PARITY,
    )


def _profile(document: ProfileDocument, plugins: Mapping[str, Plugin]) -> Profile:
    def instances(point: str) -> tuple[Instance, ...]:
        return tuple(
            Instance(plugins[name], document.args[name], point)
            for name in document.enabled.get(point, ())
        )

    return Profile(
        name=document.name,
        deschedule=instances("deschedule"),
        balance=instances("balance"),
        filters=instances("filter"),
        pre_eviction_filters=instances("preevictionfilter"),
        presort=instances("presort"),
        sort=instances("sort"),
    )


def _turn(instance: Instance, snapshot: Snapshot, draft: Draft) -> PluginRun:
    try:
        stopped = instance.sweep(instance.args, snapshot, draft)
    except Exception as error:
        return draft.run(instance.point, None, f"{type(error).__name__}: {error}")
    return draft.run(instance.point, stopped)


def _too_few(nodes: int, snapshot: Snapshot) -> Stopped:
    there = "only one node" if nodes else "no node"
    rest = len(snapshot.fleet.nodes) - nodes
    left_out = f" ({rest} unready or not selected)" if rest else ""
    return Stopped(
        "too-few-nodes",
        f"{there} is ready and selected{left_out}; moving pods takes at least two",
    )


def _plan(
    snapshot: Snapshot,
    *,
    books: Books | None = None,
    runs: Iterable[PluginRun] = (),
    notes: Iterable[Note] = (),
    proposals: Iterable[Proposal] = (),
    history: Mapping[tuple[str, str], Any] | None = None,
    skipped: Stopped | None = None,
) -> Plan:
    return Plan(
        moves=tuple(books.moves) if books else (),
        runs=tuple(runs),
        taken_at=snapshot.taken_at,
        nodes=len(snapshot.fleet.nodes),
        nodes_in_scope=len(snapshot.nodes),
        pods=len(snapshot.population),
        skipped=skipped,
        notes=tuple(notes),
        proposals=tuple(proposals),
        spent=books.spent if books else (),
        history=history or {},
    )
