"""DefaultEvictor: protects the pods that operators expect to be protected.

Serves both filter points. An `evict` annotation overrides every protection of the filter, but not
the fit check, limits or budgets; where its value counts, `false` protects the pod. Most rules are
about a pod's template, so they are checked once for each template.
"""

from __future__ import annotations

from collections.abc import Iterator

from resettle.framework.plugin import Plugin, PreparedFilter, Setting
from resettle.framework.verdict import Refusal
from resettle.framework.view import View
from resettle.model.pod import CRITICAL_PRIORITY, Pod
from resettle.model.semantics import PARITY, Semantics
from resettle.plugins.default_evictor.args import Args, in_effect, too_high
from resettle.plugins.default_evictor.rules import Rules, threshold_in
from resettle.plugins.default_evictor.settings import EvictorContext, settings_that_admit
from resettle.policy.args import ExtensionPoint
from resettle.policy.problems import Problem


def needs(args: Args, view: View) -> Iterator[Problem]:
    """The problem of a priority class that is missing or too high."""
    priority = threshold_in(args, view)
    if priority is None and args.priority_threshold:
        yield Problem(
            what=f"there is no priority class `{args.priority_threshold.name}`",
            fix="name one that exists; a dump needs them too (`kubectl get priorityclasses`)",
        )
    if priority is not None and priority > CRITICAL_PRIORITY:
        yield too_high(priority)


def cautions(args: Args, semantics: Semantics) -> Iterator[str]:
    """Settings that behave differently upstream, or that protect nothing."""
    if "PodsWithoutPDB" in args.protections and semantics == PARITY:
        yield (
            "PodsWithoutPDB protects pods without a disruption budget, as documented; "
            "kubernetes-sigs/descheduler 0.36 protects every pod with this setting"
        )
    if args.min_replicas == 1:
        yield "`minReplicas: 1` protects nothing; write 2 or more"


def reads(args: Args) -> frozenset[str]:
    """Kinds that are read for the protections in force."""
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


def refusals(args: Args, view: View, pod: Pod, point: ExtensionPoint) -> Iterator[Refusal]:
    """All rules that refuse the pod at one of the two points, in the order they are asked."""
    return view.prepare_once(args, Rules).all_refusals(pod, point)


def knobs(args: Args, view: View, pod: Pod) -> Iterator[Setting]:
    """Settings that could be changed so that the pod may go."""
    effect = in_effect(args, view.semantics)
    context = EvictorContext(
        min_replicas=effect.min_replicas,
        min_age=effect.min_age,
        unset_age=None if view.semantics.permissive_defaults else "0s",
        node_fit=effect.node_fit,
        threshold=threshold_in(args, view) or 0,
        now=view.taken_at,
    )
    return settings_that_admit(args, context, pod)


PLUGIN = Plugin(
    name="DefaultEvictor",
    args=Args,
    filter=PreparedFilter(Rules, Rules.filter, Rules.lets_all_leave),
    preevictionfilter=PreparedFilter(Rules, Rules.pre_eviction, Rules.lets_all_leave_now),
    reads=reads,
    cautions=cautions,
    needs=needs,
    refusals=refusals,
    settings=knobs,
)
