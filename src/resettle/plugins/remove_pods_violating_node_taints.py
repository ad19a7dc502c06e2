"""Taints that say what a node is going through rather than whom it is meant for.

Kubernetes, autoscalers and node agents set them while a node starts, falters or goes, take them off
again, and see to its pods themselves.

How long a taint has been on its node, where the API often does not say.

RemovePodsViolatingNodeTaints: evict pods that do not tolerate a taint of their node.

NoExecute taints are never looked at: Kubernetes itself removes pods for those. With safe defaults a
taint of a node's life cycle counts only where it is named, and a young one not yet.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from datetime import datetime, timedelta
from functools import cache
from typing import NamedTuple

from resettle.framework.draft import Draft
from resettle.framework.plugin import Plugin
from resettle.framework.verdict import NotProposed, Stopped
from resettle.framework.view import View
from resettle.model.constraints import NO_SCHEDULE, PREFER_NO_SCHEDULE, Taint
from resettle.model.node_index import Fleet, NodeSet
from resettle.model.objects import Node
from resettle.model.pod import Pod, Spec
from resettle.model.semantics import Semantics
from resettle.plugins._common import LIMIT_REACHED, NO_CANDIDATE, Next, propose_in_turn
from resettle.policy.args import Duration, SelectingArgs, parse_duration
from resettle.policy.document import Ours
from resettle.policy.problems import Problem
from resettle.policy.versions.upstream_differences import MIN_TAINT_AGE
from resettle.times import spoken

KEYS = frozenset(
    {
        # kubelet and node controllers
        "node.kubernetes.io/disk-pressure",
        "node.kubernetes.io/memory-pressure",
        "node.kubernetes.io/network-unavailable",
        "node.kubernetes.io/not-ready",
        "node.kubernetes.io/out-of-service",
        "node.kubernetes.io/pid-pressure",
        "node.kubernetes.io/unreachable",
        "node.kubernetes.io/unschedulable",
        # cloud controllers and Cluster API
        "cloud.google.com/impending-node-termination",
        "node.cloudprovider.kubernetes.io/shutdown",
        "node.cloudprovider.kubernetes.io/uninitialized",
        "node.cluster.x-k8s.io/outdated-revision",
        "node.cluster.x-k8s.io/uninitialized",
        "remediator.aks.microsoft.com/unschedulable",
        "remediator.kubernetes.azure.com/unschedulable",
        # autoscalers
        "DeletionCandidateOfClusterAutoscaler",
        "ToBeDeletedByClusterAutoscaler",
        "karpenter.sh/disrupted",
        "karpenter.sh/disruption",
        "karpenter.sh/unregistered",
        # agents that a node waits for
        "cni.istio.io/not-ready",
        "ebs.csi.aws.com/agent-not-ready",
        "efs.csi.aws.com/agent-not-ready",
        "node.cilium.io/agent-not-ready",
    }
)
PREFIXES = (
    "aws-node-termination-handler/",
    "ignore-taint.cluster-autoscaler.kubernetes.io/",
    "startup-taint.cluster-autoscaler.kubernetes.io/",
    "status-taint.cluster-autoscaler.kubernetes.io/",
)


def of_lifecycle(key: str) -> bool:
    """Whether a taint of this key belongs to a node's life rather than to its purpose."""
    return key in KEYS or key.startswith(PREFIXES)


FirstMet = dict[str, dict[str, str]]
"""By node and taint the time of the cycle that first met it; empty for what was always there."""


class TaintAges:
    """The age of each taint, by the API's word or else by when it was first met.

    What was there in the first cycle counts as old, and so does everything in a plan that knows of
    no cycle before it.
    """

    def __init__(self, view: View, known: FirstMet | None) -> None:
        self._now = view.taken_at
        met = "" if known is None else self._now.isoformat()
        earlier = known or {}
        self.first_met: FirstMet = {
            node.name: {
                str(taint): earlier.get(node.name, {}).get(str(taint), met)
                for taint in node.taints
                if taint not in node.tainted_at
            }
            for node in view.fleet
            if len(node.taints) > len(node.tainted_at)
        }

    def of(self, taint: Taint, node: Node) -> timedelta | None:
        """The age of a taint of the node; None when it is as old as anybody remembers."""
        since = node.tainted_at.get(taint)
        if since is None and (met := self.first_met[node.name][str(taint)]):
            since = datetime.fromisoformat(met)
        return None if since is None else self._now - since


class Args(SelectingArgs, frozen=True, kw_only=True):
    """Arguments of RemovePodsViolatingNodeTaints; a taint is listed as `key` or `key=value`."""

    include_prefer_no_schedule: bool = False
    """`PreferNoSchedule` taints count too."""
    excluded_taints: tuple[str, ...] = ()
    """Taints that do not count."""
    included_taints: tuple[str, ...] | None = None
    """Only these taints count; an empty list means that none does."""
    min_taint_age: Ours[Duration | None] = None
    """A taint counts once it has been there for so long; `0s` asks for nothing."""

    def problems(self) -> Iterator[Problem]:
        yield from super().problems()
        if self.excluded_taints and self.included_taints:
            yield Problem(
                what="both `includedTaints` and `excludedTaints` are set",
                fix="keep one of the two lists",
                at=("includedTaints",),
            )


def counts(taint: Taint, args: Args) -> bool:
    """Whether the plugin goes by this taint."""
    if taint.effect != NO_SCHEDULE and not (
        args.include_prefer_no_schedule and taint.effect == PREFER_NO_SCHEDULE
    ):
        return False
    if _listed(taint, args.excluded_taints):
        return False
    return args.included_taints is None or _listed(taint, args.included_taints)


def patience(args: Args, semantics: Semantics) -> timedelta:
    """How old a taint must be to count: as written, else as the semantics would have it."""
    if args.min_taint_age is not None:
        return parse_duration(args.min_taint_age)
    return timedelta() if semantics.permissive_defaults else parse_duration(MIN_TAINT_AGE)


def left_alone(taint: Taint, args: Args, semantics: Semantics) -> bool:
    """Whether the taint is one of a node's life cycle that the policy does not name."""
    if semantics.permissive_defaults or not of_lifecycle(taint.key):
        return False
    return not _listed(taint, args.included_taints or ())


def _listed(taint: Taint, entries: tuple[str, ...]) -> bool:
    if taint.key in entries:
        return True
    return bool(taint.value) and f"{taint.key}={taint.value}" in entries


def first_untolerated(spec: Spec, taints: list[Taint]) -> Taint | None:
    """The first of the taints that the pod does not tolerate."""
    return next((taint for taint in taints if not spec.tolerates(taint)), None)


def untainted(spec: Spec, args: Args, fleet: Fleet) -> NodeSet:
    """Nodes without any taint that could count and that the pod does not tolerate."""
    nodes = fleet.everyone
    for taint, carriers in fleet.tainted.items():
        if counts(taint, args) and not spec.tolerates(taint):
            nodes &= ~carriers
    return nodes


class Ignored(NamedTuple):
    """A taint that would count but is passed over."""

    kind: str
    says: str


class InForce:
    """Which taints of a node the plugin goes by, and which it passes over."""

    def __init__(self, args: Args, view: View, known: FirstMet | None = None) -> None:
        self._args = args
        self._semantics = view.semantics
        self._least = patience(args, view.semantics)
        self._ages = TaintAges(view, known) if self._least > timedelta() else None

    @property
    def memory(self) -> FirstMet | None:
        """What the next cycle must know to tell how old a taint is."""
        return self._ages.first_met if self._ages else None

    def on(self, node: Node) -> list[Taint]:
        """The taints of the node that count."""
        named = [taint for taint in node.taints if counts(taint, self._args)]
        return [taint for taint in named if not self._ignored(taint, node)]

    def ignored_on(self, node: Node) -> Iterator[tuple[Taint, Ignored]]:
        """The taints of the node that would count without safe defaults, and why they do not."""
        for taint in node.taints:
            if counts(taint, self._args) and (why := self._ignored(taint, node)):
                yield taint, why

    def _ignored(self, taint: Taint, node: Node) -> Ignored | None:
        if left_alone(taint, self._args, self._semantics):
            return OF_LIFECYCLE
        age = self._ages.of(taint, node) if self._ages else None
        if age is None or age >= self._least:
            return None
        return Ignored(YOUNG, f"it is {spoken(age)} old, `minTaintAge` is {spoken(self._least)}")


def deschedule(args: Args, view: View, draft: Draft) -> Stopped | None:
    """Proposes on each node the pods that one of its taints does not suffer."""
    in_force = InForce(args, view, draft.recall())
    draft.remember(in_force.memory)
    better = cache(lambda spec: untainted(spec, args, view.fleet))
    ignored: Counter[str] = Counter()
    found = False
    for node in view.nodes:
        for taint, why in in_force.ignored_on(node):
            ignored[why.kind] += 1
            draft.note(node, "taint-ignored", f"its taint {taint} does not count: {why.says}")
        taints = in_force.on(node)
        if not taints:
            continue
        found = True
        if _sweep(node, taints, args, view, draft, better) is Next.NOTHING:
            return LIMIT_REACHED
    return None if found else _nothing_counts(ignored)


def _nothing_counts(ignored: Counter[str]) -> Stopped:
    if not ignored:
        return NO_TAINT
    parts = ", ".join(f"{count} {kind}" for kind, count in sorted(ignored.items()))
    return Stopped("taints-ignored", f"no node carries a taint that counts here; ignored: {parts}")


def _sweep(
    node: Node,
    taints: list[Taint],
    args: Args,
    view: View,
    draft: Draft,
    better: Callable[[Spec], NodeSet],
) -> Next:
    offending: dict[Spec, Taint | None] = {}
    candidates = []
    for pod in draft.walked(view.pods_selected_by(args, view.active_on(node))):
        if pod.spec not in offending:
            offending[pod.spec] = first_untolerated(pod.spec, taints)
        if offending[pod.spec]:
            candidates.append(pod)
    return propose_in_turn(
        draft,
        draft.ordered(candidates),
        lambda pod: f"does not tolerate the taint {offending[pod.spec]} of {node.name}",
        onto=None if draft.semantics.moves_without_gain else lambda pod: better(pod.spec),
    )


YOUNG = "younger than `minTaintAge`"
OF_LIFECYCLE = Ignored(
    "of the life cycle of nodes",
    "it tells of the life cycle of the node; name it in `includedTaints` to have it count",
)
NO_TAINT = Stopped(NO_CANDIDATE.code, "no node carries a taint that counts here")


def why_not_proposed(args: Args, view: View, pod: Pod) -> NotProposed | None:
    """Whether no taint of the node counts, or the pod tolerates those that do."""
    node = view.fleet.get(pod.node)
    if node is None:
        return None
    in_force = view.prepared(args, InForce)
    taints = in_force.on(node)
    if first_untolerated(pod.spec, taints):
        return None
    if taints:
        return NotProposed("tolerates", f"tolerates every taint of {pod.node} that counts")
    for taint, why in in_force.ignored_on(node):
        said = f"the taint {taint} of {pod.node} is passed over: {why.says}"
        return NotProposed("taint-ignored", said)
    return NotProposed("no-taint", f"{pod.node} has no taint that counts")


def near_misses(args: Args, view: View) -> Iterator[str]:
    """Nodes with a taint that would count if the arguments were a little wider."""
    in_force = view.prepared(args, InForce)
    for node in view.nodes:
        for taint, why in in_force.ignored_on(node):
            yield f"{node.name} has the taint {taint}, which is passed over: {why.says}"
        for taint in node.taints:
            if taint.effect in (NO_SCHEDULE, PREFER_NO_SCHEDULE) and not counts(taint, args):
                yield f"{node.name} has the taint {taint}, which does not count here"


PLUGIN = Plugin(
    name="RemovePodsViolatingNodeTaints",
    args=Args,
    deschedule=deschedule,
    reads=lambda args: frozenset({"history"}),
    unfinished_only=True,
    why_not_proposed=why_not_proposed,
    near_misses=near_misses,
)
