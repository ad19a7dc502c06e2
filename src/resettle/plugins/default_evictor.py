"""DefaultEvictor: keeps from eviction what operators expect to be kept.

Guards both filter points. An `evict` annotation overrides every protection of the filter, but not
the fit check, limits or budgets; where its value counts, a no keeps the pod for good. Most rules
ask about a pod's template, so they are asked once for each.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta

from msgspec import structs

from resettle.framework.admission import add_diagnosis
from resettle.framework.knob import Knob
from resettle.framework.plugin import Plugin, PreparedGuard
from resettle.framework.verdict import Refusal
from resettle.framework.view import View
from resettle.model.fleet import NodeSet
from resettle.model.pod import (
    CRITICAL_PRIORITY,
    EVICT,
    PREFER_NO_EVICTION,
    SPELLINGS_OF_NO,
    Demand,
    Pod,
    Template,
)
from resettle.model.population import Same
from resettle.model.selector import EVERYTHING, parse_selector
from resettle.model.semantics import PARITY, Semantics
from resettle.model.spans import as_duration
from resettle.plugins.evictor_args import Args, in_effect, too_high
from resettle.plugins.evictor_knobs import InForce, turnable
from resettle.policy.known import ExtensionPoint
from resettle.policy.problem import Problem

BUILT_IN_PRIORITIES = {
    "system-cluster-critical": CRITICAL_PRIORITY,
    "system-node-critical": CRITICAL_PRIORITY + 1000,
}


def threshold_in(args: Args, view: View) -> int | None:
    """The priority from which pods are protected; None when its class does not exist."""
    threshold = args.priority_threshold
    if threshold is None or (threshold.value is None and not threshold.name):
        return CRITICAL_PRIORITY
    if threshold.value is not None:
        return threshold.value
    found = view.priority_classes.get(threshold.name)
    return found.value if found else BUILT_IN_PRIORITIES.get(threshold.name)


def needs(args: Args, view: View) -> Iterator[Problem]:
    """Complains when the priority class that the threshold names is missing or too high."""
    priority = threshold_in(args, view)
    if priority is None and args.priority_threshold:
        yield Problem(
            what=f"there is no priority class `{args.priority_threshold.name}`",
            fix="name one that exists; a dump needs them too (`kubectl get priorityclasses`)",
        )
    if priority is not None and priority > CRITICAL_PRIORITY:
        yield too_high(priority)


def cautions(args: Args, semantics: Semantics) -> Iterator[str]:
    """What surprises people who come from kubernetes-sigs/descheduler, or who hope for too much."""
    if "PodsWithoutPDB" in args.protections and semantics == PARITY:
        yield (
            "PodsWithoutPDB protects pods without a disruption budget, as documented; "
            "kubernetes-sigs/descheduler 0.36 protects every pod with this setting"
        )
    if args.min_replicas == 1:
        yield "`minReplicas: 1` protects nothing; write 2 or more"


def reads(args: Args) -> frozenset[str]:
    """Kinds read, given which protections are in force."""
    kinds = set()
    if args.priority_threshold and args.priority_threshold.name:
        kinds.add("PriorityClass")
    if args.namespace_label_selector:
        kinds.add("Namespace")
    if "PodsWithPVC" in args.protections and args.protected_classes:
        kinds.add("PersistentVolumeClaim")
    if "PodsWithoutPDB" in args.protections:
        kinds.add("PodDisruptionBudget")
    return frozenset(kinds)


class Rules:
    """The protections of one DefaultEvictor in one view.

    Rules about a template are asked once for each template, rules about a pod for each pod.
    """

    def __init__(self, args: Args, view: View) -> None:
        self._args = args
        self._view = view
        self._protections = args.protections
        self._threshold = threshold_in(args, view) or 0
        selector, namespaces = args.label_selector, args.namespace_label_selector
        self._selector = (selector.compiled() if selector else None) or EVERYTHING
        self._namespaces = (namespaces.compiled() if namespaces else None) or EVERYTHING
        self._classes = args.protected_classes
        effect = in_effect(args, view.semantics)
        self._min_age = effect.min_age
        self._node_fit = effect.node_fit
        self._min_replicas = effect.min_replicas
        self._sees_ephemeral = not view.semantics.ephemeral_claims_unseen
        self._heeds_no = not view.semantics.any_evict_annotation
        # What follows from the arguments and the template alone holds in later snapshots too.
        self._known: dict[Template, Refusal | None] = view.population.answers(
            (Rules, Same(args), self._threshold, self._sees_ephemeral)
        )
        self._asks_pods = bool(
            self._classes
            or self._min_age is not None
            or "FailedBarePods" not in self._protections
            or "PodsWithoutPDB" in self._protections
        )
        self._plenty: dict[Demand, bool] = {}
        self._fit_nodes: NodeSet = view.fleet.ready & view.fleet.selected(
            parse_selector(args.node_selector)
        )

    def filter(self, pod: Pod) -> Refusal | None:
        """Why the pod may not leave at all."""
        template = pod.template
        if EVICT in template.annotations:
            said = template.annotations[EVICT].strip().lower()
            return OPTED_OUT if self._heeds_no and said in SPELLINGS_OF_NO else None
        if pod.terminating:
            return TERMINATING
        refusal = self._of_template(template)
        if refusal is None and self._min_replicas > 1:
            refusal = self._too_few_replicas(pod)
        if refusal is None and self._asks_pods:
            refusal = next(self._about_pod(pod), None)
        return refusal

    def lets_all_leave(self, template: Template) -> bool:
        """Whether the filter has nothing against any pod of the template."""
        return (
            not self._asks_pods
            and self._min_replicas <= 1
            and EVICT not in template.annotations
            and self._of_template(template) is None
        )

    def pre_eviction(self, pod: Pod) -> Refusal | None:
        """Why it may not leave right now."""
        if self._node_fit and not self._fits_elsewhere(pod):
            return NO_NODE_FITS
        return NAMESPACE_NOT_SELECTED if self._namespace_left_out(pod) else None

    def lets_all_leave_now(self, template: Template) -> bool:
        """The same for the pre-eviction filter: wherever they are, they would fit elsewhere."""
        if self._chooses_namespaces:
            return False
        return not self._node_fit or (
            self._view.semantics.weak_fit and self._fits_in_plenty(template)
        )

    def grounds(self, pod: Pod, point: ExtensionPoint) -> Iterator[Refusal]:
        """All that stands against the pod at one of the two points, in the order it is asked."""
        first = self.filter(pod) if point == ExtensionPoint.FILTER else self.pre_eviction(pod)
        if first is None:
            return
        if point != ExtensionPoint.FILTER:
            if first is NO_NODE_FITS:
                yield add_diagnosis(NO_NODE_FITS, pod, self._view, self._fit_nodes)
            if self._namespace_left_out(pod):
                yield NAMESPACE_NOT_SELECTED
        elif EVICT in pod.template.annotations:
            yield first
        else:
            if pod.terminating:
                yield TERMINATING
            yield from self._about_template(pod.template)
            if self._min_replicas > 1 and (few := self._too_few_replicas(pod)):
                yield few
            for refusal in self._about_pod(pod) if self._asks_pods else ():
                yield self._how_young(pod) if refusal is TOO_YOUNG else refusal

    def _how_young(self, pod: Pod) -> Refusal:
        """The same refusal with the figures behind it."""
        said, least = "has not started yet", as_duration(self._min_age or timedelta())
        if pod.started is not None:
            said = f"has been running for {as_duration(self._view.taken_at - pod.started)}"
        return structs.replace(TOO_YOUNG, says=f"{said}, `minPodAge` is {least}")

    @property
    def _chooses_namespaces(self) -> bool:
        return self._namespaces is not EVERYTHING and bool(self._namespaces.requirements)

    def _namespace_left_out(self, pod: Pod) -> bool:
        if not self._chooses_namespaces:
            return False
        namespace = self._view.namespaces.get(pod.namespace)
        return namespace is None or not self._namespaces.matches(namespace.labels)

    def _fits_elsewhere(self, pod: Pod) -> bool:
        """Whether some node but its own would take the pod."""
        if not self._view.semantics.weak_fit:
            # A pod that has run its course gets no replacement.
            return pod.finished or self._view.projection.elsewhere(pod, self._fit_nodes)
        return self._view.upstream_fit.elsewhere(pod, self._fit_nodes) != 0

    def _fits_in_plenty(self, template: Template) -> bool:
        """Whether two nodes or more take every such pod: one of them is not the pod's own."""
        spec = template.spec
        plenty = None if spec.anti_affinity else self._plenty.get(spec.demand)
        if plenty is None:
            nodes = self._view.upstream_fit.open_to(template) & self._fit_nodes
            plenty = nodes.bit_count() > 1
            if not spec.anti_affinity:
                self._plenty[spec.demand] = plenty
        return plenty

    def _of_template(self, template: Template) -> Refusal | None:
        """What stands first against every pod of the template."""
        if template not in self._known:
            self._known[template] = next(self._about_template(template), None)
        return self._known[template]

    def _about_template(self, template: Template) -> Iterator[Refusal]:
        """What stands against every pod of the template, in the order it is asked."""
        protected, spec = self._protections, template.spec
        priority = spec.priority
        if (
            self._args.no_eviction_policy == "Mandatory"
            and PREFER_NO_EVICTION in template.annotations
        ):
            yield PREFERS_TO_STAY
        if template.mirror:
            yield MIRROR_POD
        if template.static:
            yield STATIC_POD
        if "SystemCriticalPods" in protected and priority is not None:
            if template.critical:
                yield SYSTEM_CRITICAL
            elif priority >= self._threshold:
                yield Refusal(
                    "priority",
                    "has priority {priority}, at or above the threshold {threshold}",
                    "DefaultEvictor",
                    {"priority": priority, "threshold": self._threshold},
                )
        if "FailedBarePods" in protected and not template.owners:
            yield NO_OWNER
        if "PodsWithLocalStorage" in protected and spec.local_storage:
            yield LOCAL_STORAGE
        if "DaemonSetPods" in protected and template.owned_by(("DaemonSet",)):
            yield DAEMON_SET
        ephemeral = self._sees_ephemeral and spec.ephemeral_claims
        if "PodsWithPVC" in protected and not self._classes and (spec.claim_volumes or ephemeral):
            yield VOLUME_CLAIM
        elif "PodsWithPVC" in protected and ephemeral:
            # Of which class such a claim is stands in a part of the pod that is not read.
            yield STORAGE_CLASS
        if "PodsWithResourceClaims" in protected and spec.resource_claims:
            yield RESOURCE_CLAIM
        if not self._selector.matches(template.labels):
            yield NOT_SELECTED

    def _too_few_replicas(self, pod: Pod) -> Refusal | None:
        wanted, owners = self._min_replicas, pod.template.owners
        loosely = self._view.semantics.replicas_counted_loosely
        if (loosely and len(owners) != 1) or (not loosely and pod.finished):
            return None
        for owner in owners:
            there = (
                self._view.replicas.get(owner.uid, 0)
                if loosely
                else self._view.projection.live_replicas(owner.uid)
            )
            if there < wanted:
                return Refusal(
                    "min-replicas",
                    "its {kind} has {there} {pods}, `minReplicas` is {wanted}",
                    "DefaultEvictor",
                    {
                        "kind": owner.kind,
                        "there": there,
                        "pods": "pod" if there == 1 else "pods",
                        "wanted": wanted,
                    },
                )
        return None

    def _about_pod(self, pod: Pod) -> Iterator[Refusal]:
        """The same for what differs from pod to pod."""
        protected = self._protections
        if not pod.owners and "FailedBarePods" not in protected and pod.state.phase != "Failed":
            yield NO_OWNER
        if "PodsWithPVC" in protected and self._classes and pod.claims:
            for name in pod.claims:
                claim = self._view.claims.get(f"{pod.namespace}/{name}")
                if claim is None or not claim.storage_class or claim.storage_class in self._classes:
                    yield STORAGE_CLASS
        if "PodsWithoutPDB" in protected and not self._view.budgets_of(pod):
            yield NO_BUDGET
        if self._min_age is not None and (
            pod.started is None or self._view.taken_at - pod.started < self._min_age
        ):
            yield TOO_YOUNG


def _protects(code: str, says: str) -> Refusal:
    return Refusal(code, says, "DefaultEvictor")


OPTED_OUT = _protects(
    "opted-out", "carries the evict annotation with the value false, which opts out"
)
TERMINATING = _protects("terminating", "is already terminating")
PREFERS_TO_STAY = _protects(
    "prefers-no-eviction", "carries prefer-no-eviction, which is mandatory here"
)
MIRROR_POD = _protects("mirror-pod", "is a mirror pod of the kubelet")
STATIC_POD = _protects("static-pod", "is a static pod of the kubelet")
SYSTEM_CRITICAL = _protects("system-critical", "is critical to the system")
NO_OWNER = _protects("no-owner", "has no owner that would make it anew")
LOCAL_STORAGE = _protects("local-storage", "keeps data in local storage")
DAEMON_SET = _protects("daemon-set", "belongs to a DaemonSet")
VOLUME_CLAIM = _protects("volume-claim", "uses a persistent volume claim")
STORAGE_CLASS = _protects(
    "storage-class", "uses a volume claim of a protected or unknown storage class"
)
NO_BUDGET = _protects("no-budget", "is covered by no disruption budget")
RESOURCE_CLAIM = _protects("resource-claim", "uses resource claims")
NOT_SELECTED = _protects("not-selected", "is not selected by `labelSelector`")
TOO_YOUNG = _protects("min-age", "has not been running for `minPodAge` yet")
NO_NODE_FITS = _protects("no-node-fits", "no other node would take it")
NAMESPACE_NOT_SELECTED = _protects(
    "namespace-not-selected", "its namespace is not selected by `namespaceLabelSelector`"
)


def refusals(args: Args, view: View, pod: Pod, point: ExtensionPoint) -> Iterator[Refusal]:
    """All grounds of one of the two points."""
    return view.prepared(args, Rules).grounds(pod, point)


def knobs(args: Args, view: View, pod: Pod) -> Iterator[Knob]:
    """What could be turned so that the pod may go."""
    effect = in_effect(args, view.semantics)
    force = InForce(
        min_replicas=effect.min_replicas,
        min_age=effect.min_age,
        unset_age=None if view.semantics.permissive_defaults else "0s",
        node_fit=effect.node_fit,
        threshold=threshold_in(args, view) or 0,
        now=view.taken_at,
    )
    return turnable(args, force, pod)


PLUGIN = Plugin(
    name="DefaultEvictor",
    args=Args,
    filter=PreparedGuard(Rules, Rules.filter, Rules.lets_all_leave),
    preevictionfilter=PreparedGuard(Rules, Rules.pre_eviction, Rules.lets_all_leave_now),
    reads=reads,
    cautions=cautions,
    needs=needs,
    refusals=refusals,
    knobs=knobs,
)
