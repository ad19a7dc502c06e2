"""Settings of DefaultEvictor that could be turned so that it lets a pod go.

Each is spelled as the policy at hand spells it: `podProtections` where that is used or nothing is
said, the older switches where one of those is set.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from msgspec import Struct, structs

from resettle.framework.plugin import Knob, Reach
from resettle.model.pod import CRITICAL_PRIORITY, Pod
from resettle.times import as_duration

if TYPE_CHECKING:
    from datetime import datetime

    from resettle.plugins.default_evictor.args import Args

LIFTED_BY = {
    "PodsWithLocalStorage": frozenset({"local-storage"}),
    "DaemonSetPods": frozenset({"daemon-set"}),
    "SystemCriticalPods": frozenset({"system-critical", "priority"}),
    "FailedBarePods": frozenset({"no-owner"}),
    "PodsWithPVC": frozenset({"volume-claim", "storage-class"}),
    "PodsWithoutPDB": frozenset({"no-budget"}),
    "PodsWithResourceClaims": frozenset({"resource-claim"}),
}
"""Which refusals end when a protection is dropped."""

SWITCHES = {
    "PodsWithLocalStorage": ("evict_local_storage_pods", "evictLocalStoragePods", True),
    "DaemonSetPods": ("evict_daemon_set_pods", "evictDaemonSetPods", True),
    "SystemCriticalPods": ("evict_system_critical_pods", "evictSystemCriticalPods", True),
    "FailedBarePods": ("evict_failed_bare_pods", "evictFailedBarePods", True),
    "PodsWithPVC": ("ignore_pvc_pods", "ignorePvcPods", False),
    "PodsWithoutPDB": ("ignore_pods_without_pdb", "ignorePodsWithoutPDB", False),
}
"""The older switch of each protection: field, spelling, and the value that drops the protection."""


class InForce(Struct, frozen=True, kw_only=True):
    """What the arguments come to in this view."""

    min_replicas: int
    min_age: timedelta | None
    unset_age: str | None
    """How a policy says that no age is asked for: with nothing, or with zero."""
    node_fit: bool
    threshold: int
    now: datetime


def turnable(args: Args, force: InForce, pod: Pod) -> Iterator[Knob]:
    """All that could be turned, whatever the pod was refused for."""
    yield from _figures(force, pod)
    yield from _selections(args)
    for name in sorted(args.protections):
        yield _without(args, name)
    if force.node_fit:
        yield _changed("nodeFit", "node_fit", True, False, "no-node-fits", Reach.CHECK)


def _figures(force: InForce, pod: Pod) -> Iterator[Knob]:
    if force.min_replicas > 1:
        yield Knob(
            setting="minReplicas",
            was=force.min_replicas,
            ladder=range(force.min_replicas - 1, 0, -1),
            turned=lambda args, value: structs.replace(args, min_replicas=value),
            says=lambda value: f"`minReplicas` were {value}",
            lifts=frozenset({"min-replicas"}),
        )
    if force.min_age is not None:
        yield Knob(
            setting="minPodAge",
            was=as_duration(force.min_age),
            ladder=_shorter_ages(force, pod),
            turned=lambda args, value: structs.replace(args, min_pod_age=value),
            says=lambda value: f"`minPodAge` were {'not set' if value is None else value}",
            lifts=frozenset({"min-age"}),
        )
    priority = pod.spec.priority
    if priority is not None and force.threshold <= priority < CRITICAL_PRIORITY:
        # Whether a threshold spares the pod changes at its own priority and nowhere else.
        yield Knob(
            setting="priorityThreshold.value",
            was=force.threshold,
            ladder=tuple(v for v in (priority, priority + 1) if v > force.threshold),
            turned=_with_threshold,
            says=lambda value: f"`priorityThreshold` were {value}",
            lifts=frozenset({"priority"}),
        )


def _shorter_ages(force: InForce, pod: Pod) -> tuple[str | None, ...]:
    """Shorter ages: a second more than the pod has, all that it has, none."""
    least = force.min_age or timedelta()
    ages: list[str | None] = []
    if pod.started is not None and pod.started <= force.now:
        second = timedelta(seconds=1)
        age = (force.now - pod.started) // second * second
        ages += (as_duration(span) for span in (age + second, age) if span < least)
    return tuple(dict.fromkeys((*ages, "0s", force.unset_age)))


def _with_threshold(args: Args, value: int) -> Args:
    threshold = args.priority_threshold
    if threshold is None:
        return args
    return structs.replace(
        args, priority_threshold=structs.replace(threshold, value=value, name="")
    )


def _selections(args: Args) -> Iterator[Knob]:
    if args.no_eviction_policy == "Mandatory":
        yield _changed(
            "noEvictionPolicy",
            "no_eviction_policy",
            "Mandatory",
            "Preferred",
            "prefers-no-eviction",
        )
    if args.label_selector is not None:
        yield _removed("labelSelector", "label_selector", None, "not-selected")
    if args.namespace_label_selector is not None:
        code = "namespace-not-selected"
        yield _removed("namespaceLabelSelector", "namespace_label_selector", None, code)
    if args.node_selector:
        yield _removed("nodeSelector", "node_selector", "", "no-node-fits")


def _changed(
    setting: str, field: str, was: Any, value: Any, code: str, reach: Reach = Reach.SELECTION
) -> Knob:
    said = str(value).lower() if isinstance(value, bool) else f"`{value}`"
    return Knob(
        setting=setting,
        was=was,
        ladder=(value,),
        turned=lambda args, new: structs.replace(args, **{field: new}),
        says=lambda _: f"`{setting}` were {said}",
        lifts=frozenset({code}),
        reach=reach,
    )


def _removed(setting: str, field: str, nothing: Any, code: str) -> Knob:
    return Knob(
        setting=setting,
        was="set",
        ladder=(nothing,),
        turned=lambda args, new: structs.replace(args, **{field: new}),
        says=lambda _: f"`{setting}` of DefaultEvictor were removed",
        lifts=frozenset({code}),
        reach=Reach.SELECTION,
    )


def _without(args: Args, protection: str) -> Knob:
    """The protection dropped, in the words of this policy."""
    chosen = args.pod_protections
    switched = any(getattr(args, field) for field, _, _ in SWITCHES.values()) and not (
        chosen.default_disabled or chosen.extra_enabled
    )
    if switched and protection in SWITCHES:
        field, setting, value = SWITCHES[protection]
        knob = _changed(setting, field, not value, value, "", Reach.PROTECTION)
        return structs.replace(knob, lifts=LIFTED_BY[protection])
    extra = protection in chosen.extra_enabled
    key = "extraEnabled" if extra else "defaultDisabled"
    named = "did not list" if extra else "listed"
    return Knob(
        setting=f"podProtections.{key}",
        was=list(chosen.extra_enabled if extra else chosen.default_disabled),
        ladder=(protection,),
        turned=_unlisted if extra else _disabled,
        says=lambda _: f"`podProtections.{key}` {named} `{protection}`",
        lifts=LIFTED_BY[protection],
        reach=Reach.PROTECTION,
    )


def _unlisted(args: Args, protection: str) -> Args:
    chosen = args.pod_protections
    kept = tuple(name for name in chosen.extra_enabled if name != protection)
    return structs.replace(args, pod_protections=structs.replace(chosen, extra_enabled=kept))


def _disabled(args: Args, protection: str) -> Args:
    chosen = args.pod_protections
    names = (*chosen.default_disabled, protection)
    return structs.replace(args, pod_protections=structs.replace(chosen, default_disabled=names))
