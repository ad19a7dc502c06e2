"""The rules of DefaultEvictor, in the order in which they are asked.

`FILTER_RULES` and `PRE_EVICTION_RULES` are the only places that say this order: a filter takes the
first rule that refuses a pod, an explanation all of them. An `evict` annotation decides before any
rule of the filter is asked.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from datetime import timedelta
from itertools import groupby
from typing import Any, NamedTuple

from msgspec import structs

from resettle.framework.admission import add_diagnosis
from resettle.framework.verdict import Refusal
from resettle.framework.view import View
from resettle.model.node_index import NodeSet
from resettle.model.pod import (
    CRITICAL_PRIORITY,
    EVICT,
    PREFER_NO_EVICTION,
    SPELLINGS_OF_NO,
    Demand,
    Pod,
    Template,
)
from resettle.model.pod_index import ByIdentity
from resettle.model.selectors import EVERYTHING, parse_selector
from resettle.plugins.default_evictor.args import Args, in_effect
from resettle.policy.args import ExtensionPoint
from resettle.times import policy_duration

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
    known = view.priority_classes.get(threshold.name)
    return known.value if known else BUILT_IN_PRIORITIES.get(threshold.name)


def _protects(code: str, says: str, subject: str = "") -> Refusal:
    return Refusal(code, says, "DefaultEvictor", subject=subject)


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
NO_OWNER = _protects("no-owner", "has no controller to recreate it")
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
NO_NODE_FITS = _protects("no-node-fits", "would take it", "no other node")
NAMESPACE_NOT_SELECTED = _protects(
    "namespace-not-selected", "is not selected by `namespaceLabelSelector`", "its namespace"
)


class Rules:
    """The protections of one DefaultEvictor in one view.

    A filter answers with the first rule of its table that refuses the pod, an explanation with all
    of them. Rules about a template are asked once for each template, the others for each pod.
    """

    def __init__(self, args: Args, view: View) -> None:
        self._args = args
        self._view = view
        self._protections = args.protections
        self._threshold = threshold_in(args, view) or 0
        selector, namespaces = args.label_selector, args.namespace_label_selector
        self._selector = (selector.compile() if selector else None) or EVERYTHING
        self._namespaces = (namespaces.compile() if namespaces else None) or EVERYTHING
        self._classes = args.protected_classes
        effect = in_effect(args, view.semantics)
        self._min_age = effect.min_age
        self._node_fit = effect.node_fit
        self._min_replicas = effect.min_replicas
        self._sees_ephemeral = not view.semantics.ephemeral_claims_unseen
        self._no_opts_out = not view.semantics.any_evict_annotation
        # What follows from the arguments and the template alone holds in later snapshots too.
        self._known: dict[Template, Refusal | None] = view.pod_index.template_cache(
            (Rules, ByIdentity(args), self._threshold, self._sees_ephemeral)
        )
        self._plenty: dict[Demand, bool] = {}
        self._fit_nodes: NodeSet = view.node_index.ready & view.node_index.selected_by(
            parse_selector(args.node_selector)
        )
        self._filter_checks = tuple(self._checks(FILTER_RULES))
        self._pre_eviction_checks = tuple(self._checks(PRE_EVICTION_RULES))
        self._lets_templates_leave = all(
            rule.of_template or rule is IS_TERMINATING
            for rule in FILTER_RULES
            if rule.is_in_force(self)
        )

    def _checks(self, rules: Iterable[Rule]) -> Iterator[Callable[[Rules, Pod], Refusal | None]]:
        """The rules in force, in order; those about templates stand together and count as one.

        Bound methods would make a cycle of references, and keep the view from being freed.
        """
        in_force = (rule for rule in rules if rule.is_in_force(self))
        for of_template, group in groupby(in_force, key=lambda rule: rule.of_template):
            if of_template:
                yield Rules._check_template_of
            else:
                yield from (rule.check for rule in group)

    def filter(self, pod: Pod) -> Refusal | None:
        """Why the pod may not leave at all."""
        if EVICT in pod.template.annotations:
            return self._by_annotation(pod.template)
        for check in self._filter_checks:
            refusal = check(self, pod)
            if refusal is not None:
                return refusal
        return None

    def lets_all_leave(self, template: Template) -> bool:
        """Whether the filter has nothing against any pod of the template."""
        return (
            self._lets_templates_leave
            and EVICT not in template.annotations
            and self._check_template(template) is None
        )

    def pre_eviction(self, pod: Pod) -> Refusal | None:
        """Why it may not leave right now."""
        for check in self._pre_eviction_checks:
            refusal = check(self, pod)
            if refusal is not None:
                return refusal
        return None

    def lets_all_leave_now(self, template: Template) -> bool:
        """Whether the pre-eviction filter has nothing against any pod of the template."""
        if self.asks_namespace():
            return False
        return not self._node_fit or (
            self._view.semantics.weak_fit and self._fits_in_plenty(template)
        )

    def all_refusals(self, pod: Pod, point: ExtensionPoint) -> Iterator[Refusal]:
        """All rules that refuse the pod at one of the two points, in order and with figures."""
        if point == ExtensionPoint.FILTER and EVICT in pod.template.annotations:
            decided = self._by_annotation(pod.template)
            yield from () if decided is None else (decided,)
            return
        for rule in FILTER_RULES if point == ExtensionPoint.FILTER else PRE_EVICTION_RULES:
            if rule.is_in_force(self):
                refusal = rule.check(self, pod.template if rule.of_template else pod)
                if refusal is not None:
                    yield rule.in_detail(self, pod, refusal)

    def _by_annotation(self, template: Template) -> Refusal | None:
        """The answer for a pod with an evict annotation, which alone decides."""
        value = template.annotations[EVICT].strip().lower()
        return OPTED_OUT if self._no_opts_out and value in SPELLINGS_OF_NO else None

    def _check_template_of(self, pod: Pod) -> Refusal | None:
        template = pod.template
        known = self._known
        return known[template] if template in known else self._check_template(template)

    def _check_template(self, template: Template) -> Refusal | None:
        """The first refusal of every pod of the template."""
        if template not in self._known:
            checks = (
                rule.check(self, template)
                for rule in FILTER_RULES
                if rule.of_template and rule.is_in_force(self)
            )
            self._known[template] = next(
                (refusal for refusal in checks if refusal is not None), None
            )
        return self._known[template]

    def protects(self, name: str) -> bool:
        """Whether this protection is in force."""
        return name in self._protections

    # -- rules about templates --

    def prefers_to_stay(self, template: Template) -> Refusal | None:
        return PREFERS_TO_STAY if PREFER_NO_EVICTION in template.annotations else None

    def is_mandatory(self) -> bool:
        return self._args.no_eviction_policy == "Mandatory"

    def priority(self, template: Template) -> Refusal | None:
        priority = template.spec.priority
        if priority is None:
            return None
        if template.critical:
            return SYSTEM_CRITICAL
        if priority < self._threshold:
            return None
        return Refusal(
            "priority",
            "has priority {priority}, at or above the threshold {threshold}",
            "DefaultEvictor",
            {"priority": priority, "threshold": self._threshold},
        )

    def claims_of_template(self, template: Template) -> Refusal | None:
        spec = template.spec
        ephemeral = self._sees_ephemeral and spec.ephemeral_claims
        if not self._classes:
            return VOLUME_CLAIM if spec.claim_volumes or ephemeral else None
        # Of which class an ephemeral claim is stands in a part of the pod that is not read.
        return STORAGE_CLASS if ephemeral else None

    def labels(self, template: Template) -> Refusal | None:
        return None if self._selector.matches(template.labels) else NOT_SELECTED

    # -- rules about pods --

    def asks_replicas(self) -> bool:
        return self._min_replicas > 1

    def replicas(self, pod: Pod) -> Refusal | None:
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
                    "has {there} {pods}, `minReplicas` is {wanted}",
                    "DefaultEvictor",
                    {
                        "kind": owner.kind,
                        "there": there,
                        "pods": "pod" if there == 1 else "pods",
                        "wanted": wanted,
                    },
                    subject="its {kind}",
                )
        return None

    def bare_unless_failed(self, pod: Pod) -> Refusal | None:
        return NO_OWNER if not pod.owners and pod.state.phase != "Failed" else None

    def asks_storage_classes(self) -> bool:
        return self.protects("PodsWithPVC") and bool(self._classes)

    def storage_classes(self, pod: Pod) -> Refusal | None:
        for name in pod.claims:
            claim = self._view.claims.get(f"{pod.namespace}/{name}")
            if claim is None or not claim.storage_class or claim.storage_class in self._classes:
                return STORAGE_CLASS
        return None

    def budgets(self, pod: Pod) -> Refusal | None:
        return None if self._view.budgets_of(pod) else NO_BUDGET

    def asks_age(self) -> bool:
        return self._min_age is not None

    def age(self, pod: Pod) -> Refusal | None:
        least = self._min_age or timedelta()
        young = pod.started is None or self._view.taken_at - pod.started < least
        return TOO_YOUNG if young else None

    def age_in_detail(self, pod: Pod, refusal: Refusal) -> Refusal:
        says, least = "has not started yet", policy_duration(self._min_age or timedelta())
        if pod.started is not None:
            says = f"has been running for {policy_duration(self._view.taken_at - pod.started)}"
        return structs.replace(refusal, says=f"{says}, `minPodAge` is {least}")

    # -- rules of the pre-eviction filter --

    def asks_fit(self) -> bool:
        return self._node_fit

    def fit(self, pod: Pod) -> Refusal | None:
        """A refusal unless some node but its own would take the pod, or has a place held for it."""
        if pod.uid in self._view.held_places:
            return None
        if not self._view.semantics.weak_fit:
            # A finished pod gets no replacement.
            fits = pod.finished or self._view.projection.has_safe_node(pod, self._fit_nodes)
        else:
            fits = self._view.upstream_fit.feasible_elsewhere(pod, self._fit_nodes) != 0
        return None if fits else NO_NODE_FITS

    def fit_in_detail(self, pod: Pod, refusal: Refusal) -> Refusal:
        return add_diagnosis(refusal, pod, self._view, self._fit_nodes)

    def _fits_in_plenty(self, template: Template) -> bool:
        """Whether two nodes or more take every such pod: one of them is not the pod's own."""
        spec = template.spec
        plenty = None if spec.anti_affinity else self._plenty.get(spec.demand)
        if plenty is None:
            nodes = self._view.upstream_fit.feasible_for_template(template) & self._fit_nodes
            plenty = nodes.bit_count() > 1
            if not spec.anti_affinity:
                self._plenty[spec.demand] = plenty
        return plenty

    def asks_namespace(self) -> bool:
        return self._namespaces is not EVERYTHING and bool(self._namespaces.requirements)

    def namespace(self, pod: Pod) -> Refusal | None:
        namespace = self._view.namespaces.get(pod.namespace)
        if namespace is None or not self._namespaces.matches(namespace.labels):
            return NAMESPACE_NOT_SELECTED
        return None


# -- the tables -----------------------------------------------------------------------------------


class Rule(NamedTuple):
    """One reason to keep a pod, asked of its template or of the pod itself."""

    check: Callable[[Rules, Any], Refusal | None]
    is_in_force: Callable[[Rules], bool] = lambda rules: True
    of_template: bool = False
    in_detail: Callable[[Rules, Pod, Refusal], Refusal] = lambda rules, pod, refusal: refusal
    """The refusal with the figures behind it, for explanations."""


def _template_rule(
    refusal: Refusal, applies: Callable[[Template], Any], protection: str = ""
) -> Rule:
    """A rule that one look at the template decides, in force with a protection or always."""

    def check(rules: Rules, template: Template) -> Refusal | None:
        return refusal if applies(template) else None

    return Rule(check, _with(protection), of_template=True)


def _with(protection: str) -> Callable[[Rules], bool]:
    return lambda rules: not protection or rules.protects(protection)


IS_TERMINATING = Rule(lambda rules, pod: TERMINATING if pod.terminating else None)
FILTER_RULES = (
    IS_TERMINATING,
    Rule(Rules.prefers_to_stay, Rules.is_mandatory, of_template=True),
    _template_rule(MIRROR_POD, lambda template: template.mirror),
    _template_rule(STATIC_POD, lambda template: template.static),
    Rule(Rules.priority, _with("SystemCriticalPods"), of_template=True),
    _template_rule(NO_OWNER, lambda template: not template.owners, "FailedBarePods"),
    _template_rule(
        LOCAL_STORAGE, lambda template: template.spec.local_storage, "PodsWithLocalStorage"
    ),
    _template_rule(DAEMON_SET, lambda template: template.owned_by(("DaemonSet",)), "DaemonSetPods"),
    Rule(Rules.claims_of_template, _with("PodsWithPVC"), of_template=True),
    _template_rule(
        RESOURCE_CLAIM, lambda template: template.spec.resource_claims, "PodsWithResourceClaims"
    ),
    Rule(Rules.labels, of_template=True),
    Rule(Rules.replicas, Rules.asks_replicas),
    Rule(Rules.bare_unless_failed, lambda rules: not rules.protects("FailedBarePods")),
    Rule(Rules.storage_classes, Rules.asks_storage_classes),
    Rule(Rules.budgets, _with("PodsWithoutPDB")),
    Rule(Rules.age, Rules.asks_age, in_detail=Rules.age_in_detail),
)
"""The rules of the filter; those about templates stand together, so that one answer is kept."""
PRE_EVICTION_RULES = (
    Rule(Rules.fit, Rules.asks_fit, in_detail=Rules.fit_in_detail),
    Rule(Rules.namespace, Rules.asks_namespace),
)
