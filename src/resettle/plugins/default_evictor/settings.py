"""Settings of DefaultEvictor that could be changed so that it admits a pod, for `explain`.

Each is written as the policy writes it: `podProtections` by default, the older switches where one
of those is set.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from msgspec import Struct, structs

from resettle.framework.plugin import ChangeScope, Setting
from resettle.model.pod import CRITICAL_PRIORITY, Pod
from resettle.times import policy_duration

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


class EvictorContext(Struct, frozen=True, kw_only=True):
    """The arguments in effect in this view."""

    min_replicas: int
    min_age: timedelta | None
    unset_age: str | None
    """How a policy says that no age is asked for: with nothing, or with zero."""
    node_fit: bool
    threshold: int
    now: datetime


def settings_that_admit(args: Args, context: EvictorContext, pod: Pod) -> Iterator[Setting]:
    """All settings that could be changed, whatever the pod was refused for."""
    yield from _figures(context, pod)
    yield from _selections(args)
    for name in sorted(args.protections):
        yield _without(args, name)
    if context.node_fit:
        yield _with_value("nodeFit", "node_fit", True, False, "no-node-fits", ChangeScope.CHECK)


def _figures(context: EvictorContext, pod: Pod) -> Iterator[Setting]:
    if context.min_replicas > 1:
        yield Setting(
            key="minReplicas",
            current=context.min_replicas,
            values=range(context.min_replicas - 1, 0, -1),
            apply=lambda args, value: structs.replace(args, min_replicas=value),
            describe=lambda value: f"`minReplicas` were {value}",
            lifts=frozenset({"min-replicas"}),
        )
    if context.min_age is not None:
        yield Setting(
            key="minPodAge",
            current=policy_duration(context.min_age),
            values=_shorter_ages(context, pod),
            apply=lambda args, value: structs.replace(args, min_pod_age=value),
            describe=lambda value: f"`minPodAge` were {'not set' if value is None else value}",
            lifts=frozenset({"min-age"}),
        )
    priority = pod.spec.priority
    if priority is not None and context.threshold <= priority < CRITICAL_PRIORITY:
        # Whether a threshold protects the pod changes at its own priority and nowhere else.
        yield Setting(
            key="priorityThreshold.value",
            current=context.threshold,
            values=tuple(v for v in (priority, priority + 1) if v > context.threshold),
            apply=_with_threshold,
            describe=lambda value: f"`priorityThreshold` were {value}",
            lifts=frozenset({"priority"}),
        )


def _shorter_ages(context: EvictorContext, pod: Pod) -> tuple[str | None, ...]:
    """Shorter ages: a second more than the pod has, all that it has, none."""
    least = context.min_age or timedelta()
    ages: list[str | None] = []
    if pod.started is not None and pod.started <= context.now:
        second = timedelta(seconds=1)
        age = (context.now - pod.started) // second * second
        ages += (policy_duration(span) for span in (age + second, age) if span < least)
    return tuple(dict.fromkeys((*ages, "0s", context.unset_age)))


def _with_threshold(args: Args, value: int) -> Args:
    threshold = args.priority_threshold
    if threshold is None:
        return args
    return structs.replace(
        args, priority_threshold=structs.replace(threshold, value=value, name="")
    )


def _selections(args: Args) -> Iterator[Setting]:
    if args.no_eviction_policy == "Mandatory":
        yield _with_value(
            "noEvictionPolicy",
            "no_eviction_policy",
            "Mandatory",
            "Preferred",
            "prefers-no-eviction",
        )
    if args.label_selector is not None:
        yield _without_setting("labelSelector", "label_selector", None, "not-selected")
    if args.namespace_label_selector is not None:
        code = "namespace-not-selected"
        yield _without_setting("namespaceLabelSelector", "namespace_label_selector", None, code)
    if args.node_selector:
        yield _without_setting("nodeSelector", "node_selector", "", "no-node-fits")


def _with_value(
    setting: str,
    field: str,
    was: Any,
    value: Any,
    code: str,
    reach: ChangeScope = ChangeScope.SELECTION,
) -> Setting:
    text = str(value).lower() if isinstance(value, bool) else f"`{value}`"
    return Setting(
        key=setting,
        current=was,
        values=(value,),
        apply=lambda args, new: structs.replace(args, **{field: new}),
        describe=lambda _: f"`{setting}` were {text}",
        lifts=frozenset({code}),
        scope=reach,
    )


def _without_setting(setting: str, field: str, nothing: Any, code: str) -> Setting:
    return Setting(
        key=setting,
        current="set",
        values=(nothing,),
        apply=lambda args, new: structs.replace(args, **{field: new}),
        describe=lambda _: f"`{setting}` of DefaultEvictor were removed",
        lifts=frozenset({code}),
        scope=ChangeScope.SELECTION,
    )


def _without(args: Args, protection: str) -> Setting:
    """The setting that drops a protection, as this policy would write it."""
    chosen = args.pod_protections
    switched = any(getattr(args, field) for field, _, _ in SWITCHES.values()) and not (
        chosen.default_disabled or chosen.extra_enabled
    )
    if switched and protection in SWITCHES:
        field, setting, value = SWITCHES[protection]
        knob = _with_value(setting, field, not value, value, "", ChangeScope.PROTECTION)
        return structs.replace(knob, lifts=LIFTED_BY[protection])
    extra = protection in chosen.extra_enabled
    key = "extraEnabled" if extra else "defaultDisabled"
    named = "did not list" if extra else "listed"
    return Setting(
        key=f"podProtections.{key}",
        current=list(chosen.extra_enabled if extra else chosen.default_disabled),
        values=(protection,),
        apply=_remove_extra if extra else _disable_default,
        describe=lambda _: f"`podProtections.{key}` {named} `{protection}`",
        lifts=LIFTED_BY[protection],
        scope=ChangeScope.PROTECTION,
    )


def _remove_extra(args: Args, protection: str) -> Args:
    chosen = args.pod_protections
    kept = tuple(name for name in chosen.extra_enabled if name != protection)
    return structs.replace(args, pod_protections=structs.replace(chosen, extra_enabled=kept))


def _disable_default(args: Args, protection: str) -> Args:
    chosen = args.pod_protections
    names = (*chosen.default_disabled, protection)
    return structs.replace(args, pod_protections=structs.replace(chosen, default_disabled=names))
