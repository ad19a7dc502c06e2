"""RemovePodsViolatingNodeTaints: evict pods that do not tolerate a taint of their node.

NoExecute taints are never checked: Kubernetes itself evicts pods for those. With safe defaults a
node lifecycle taint (set by Kubernetes, autoscalers or node agents while a node starts, fails or is
removed) counts only where the policy names it, and every taint only after a while. The API often
does not say how old a taint is, so cycles remember when they first saw it.
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
from resettle.model.node_index import NodeIndex, NodeSet
from resettle.model.objects import Node
from resettle.model.pod import Pod, Spec
from resettle.model.semantics import Semantics
from resettle.plugins._common import LIMIT_REACHED, NO_CANDIDATE, SweepResult, propose_each
from resettle.policy.args import Duration, SelectingArgs, parse_duration
from resettle.policy.document import ResettleOnly
from resettle.policy.problems import Problem
from resettle.policy.versions.upstream_differences import MIN_TAINT_AGE
from resettle.times import format_duration

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


def is_lifecycle_taint(key: str) -> bool:
    """Whether a taint of this key describes the lifecycle of a node, not its purpose."""
    return key in KEYS or key.startswith(PREFIXES)


FirstSeen = dict[str, dict[str, str]]
"""By node and taint the time of the cycle that first saw it; empty if it was always there."""


class TaintAges:
    """The age of each taint, from the API or from the cycle that first saw it.

    Taints of the first cycle count as old, and so do all taints in a plan without earlier cycles.
    """

    def __init__(self, view: View, known: FirstSeen | None) -> None:
        self._now = view.taken_at
        met = "" if known is None else self._now.isoformat()
        earlier = known or {}
        self.first_seen: FirstSeen = {
            node.name: {
                str(taint): earlier.get(node.name, {}).get(str(taint), met)
                for taint in node.taints
                if taint not in node.tainted_at
            }
            for node in view.node_index
            if len(node.taints) > len(node.tainted_at)
        }

    def of(self, taint: Taint, node: Node) -> timedelta | None:
        """The age of a taint of the node; None if it is older than the first cycle."""
        since = node.tainted_at.get(taint)
        if since is None and (met := self.first_seen[node.name][str(taint)]):
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
    min_taint_age: ResettleOnly[Duration | None] = None
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
    """Whether the plugin checks this taint."""
    if taint.effect != NO_SCHEDULE and not (
        args.include_prefer_no_schedule and taint.effect == PREFER_NO_SCHEDULE
    ):
        return False
    if _is_listed(taint, args.excluded_taints):
        return False
    return args.included_taints is None or _is_listed(taint, args.included_taints)


def min_age(args: Args, semantics: Semantics) -> timedelta:
    """How old a taint must be to count: as written, else the default of the semantics."""
    if args.min_taint_age is not None:
        return parse_duration(args.min_taint_age)
    return timedelta() if semantics.permissive_defaults else parse_duration(MIN_TAINT_AGE)


def is_unnamed_lifecycle_taint(taint: Taint, args: Args, semantics: Semantics) -> bool:
    """Whether the taint is a node lifecycle taint that the policy does not name."""
    if semantics.permissive_defaults or not is_lifecycle_taint(taint.key):
        return False
    return not _is_listed(taint, args.included_taints or ())


def _is_listed(taint: Taint, entries: tuple[str, ...]) -> bool:
    if taint.key in entries:
        return True
    return bool(taint.value) and f"{taint.key}={taint.value}" in entries


def first_untolerated(spec: Spec, taints: list[Taint]) -> Taint | None:
    """The first of the taints that the pod does not tolerate."""
    return next((taint for taint in taints if not spec.tolerates(taint)), None)


def better_nodes(spec: Spec, args: Args, node_index: NodeIndex) -> NodeSet:
    """Nodes without any taint that could count and that the pod does not tolerate."""
    nodes = node_index.all_nodes
    for taint, tainted_nodes in node_index.tainted.items():
        if counts(taint, args) and not spec.tolerates(taint):
            nodes &= ~tainted_nodes
    return nodes


class Ignored(NamedTuple):
    """Why a taint that would count is ignored."""

    kind: str
    says: str


class CheckedTaints:
    """Which taints of a node the plugin checks, and which it ignores."""

    def __init__(self, args: Args, view: View, known: FirstSeen | None = None) -> None:
        self._args = args
        self._semantics = view.semantics
        self._least = min_age(args, view.semantics)
        self._ages = TaintAges(view, known) if self._least > timedelta() else None

    @property
    def memory(self) -> FirstSeen | None:
        """What the next cycle must know of the age of taints."""
        return self._ages.first_seen if self._ages else None

    def on(self, node: Node) -> list[Taint]:
        """The taints of the node that count."""
        named = [taint for taint in node.taints if counts(taint, self._args)]
        return [taint for taint in named if not self._why_ignored(taint, node)]

    def ignored_on(self, node: Node) -> Iterator[tuple[Taint, Ignored]]:
        """The taints of the node that would count without safe defaults, and why they do not."""
        for taint in node.taints:
            if counts(taint, self._args) and (why := self._why_ignored(taint, node)):
                yield taint, why

    def _why_ignored(self, taint: Taint, node: Node) -> Ignored | None:
        if is_unnamed_lifecycle_taint(taint, self._args, self._semantics):
            return OF_LIFECYCLE
        age = self._ages.of(taint, node) if self._ages else None
        if age is None or age >= self._least:
            return None
        return Ignored(
            YOUNG,
            f"it is {format_duration(age)} old, `minTaintAge` is {format_duration(self._least)}",
        )


def deschedule(args: Args, view: View, draft: Draft) -> Stopped | None:
    """Propose on each node the pods that do not tolerate one of its taints."""
    checked = CheckedTaints(args, view, draft.recall())
    draft.remember(checked.memory)
    better = cache(lambda spec: better_nodes(spec, args, view.node_index))
    ignored: Counter[str] = Counter()
    has_taints = False
    for node in view.nodes:
        for taint, why in checked.ignored_on(node):
            ignored[why.kind] += 1
            draft.note(node, "taint-ignored", f"its taint {taint} is ignored: {why.says}")
        taints = checked.on(node)
        if not taints:
            continue
        has_taints = True
        if _sweep(node, taints, args, view, draft, better) is SweepResult.LIMIT_REACHED:
            return LIMIT_REACHED
    return None if has_taints else _nothing_counts(ignored)


def _nothing_counts(ignored: Counter[str]) -> Stopped:
    if not ignored:
        return NO_TAINT
    parts = ", ".join(f"{count} {kind}" for kind, count in sorted(ignored.items()))
    return Stopped(
        "taints-ignored", f"no taint of any node is checked by this policy; ignored: {parts}"
    )


def _sweep(
    node: Node,
    taints: list[Taint],
    args: Args,
    view: View,
    draft: Draft,
    better: Callable[[Spec], NodeSet],
) -> SweepResult:
    offending: dict[Spec, Taint | None] = {}
    candidates = []
    for pod in draft.presort(view.pods_selected_by(args, view.active_on(node))):
        if pod.spec not in offending:
            offending[pod.spec] = first_untolerated(pod.spec, taints)
        if offending[pod.spec]:
            candidates.append(pod)
    return propose_each(
        draft,
        draft.sort(candidates),
        lambda pod: f"does not tolerate the taint {offending[pod.spec]} of {node.name}",
        onto=None if draft.semantics.moves_without_gain else lambda pod: better(pod.spec),
    )


YOUNG = "younger than `minTaintAge`"
OF_LIFECYCLE = Ignored(
    "node lifecycle taints",
    "it is a node lifecycle taint; name it in `includedTaints` to have it checked",
)
NO_TAINT = Stopped(NO_CANDIDATE.code, "no taint of any node is checked by this policy")


def why_not_proposed(args: Args, view: View, pod: Pod) -> NotProposed | None:
    """Why the plugin leaves the pod alone: no taint counts, or it tolerates those that do."""
    node = view.node_index.get(pod.node)
    if node is None:
        return None
    checked = view.prepare_once(args, CheckedTaints)
    taints = checked.on(node)
    if first_untolerated(pod.spec, taints):
        return None
    if taints:
        return NotProposed(
            "tolerates", f"tolerates every taint of {pod.node} that this policy checks"
        )
    for taint, why in checked.ignored_on(node):
        says = f"the taint {taint} of {pod.node} is ignored: {why.says}"
        return NotProposed("taint-ignored", says)
    return NotProposed("no-taint", f"no taint of {pod.node} is checked by this policy")


def near_misses(args: Args, view: View) -> Iterator[str]:
    """Nodes with a taint that would count if the arguments were a little wider."""
    checked = view.prepare_once(args, CheckedTaints)
    for node in view.nodes:
        for taint, why in checked.ignored_on(node):
            yield f"{node.name} has the taint {taint}, which is ignored: {why.says}"
        for taint in node.taints:
            if taint.effect in (NO_SCHEDULE, PREFER_NO_SCHEDULE) and not counts(taint, args):
                yield f"{node.name} has the taint {taint}, which is not checked by this policy"


PLUGIN = Plugin(
    name="RemovePodsViolatingNodeTaints",
    args=Args,
    deschedule=deschedule,
    reads=lambda args: frozenset({"history"}),
    unfinished_only=True,
    why_not_proposed=why_not_proposed,
    near_misses=near_misses,
)
