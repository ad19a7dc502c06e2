"""Arguments of DefaultEvictor, and the defaults of each policy version."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from datetime import timedelta
from typing import Literal

from msgspec import Struct, field

from resettle.errors import InputError
from resettle.model.pod import CRITICAL_PRIORITY
from resettle.model.selectors import LabelSelector, parse_selector
from resettle.model.semantics import Semantics
from resettle.policy.args import Args as PluginArgs
from resettle.policy.args import Duration, Int32, Unsigned, parse_duration, selector_problems
from resettle.policy.problems import Problem, did_you_mean
from resettle.policy.versions.upstream_differences import MIN_POD_AGE, MIN_REPLICAS, NODE_FIT

DEFAULT_PROTECTIONS = (
    "PodsWithLocalStorage",
    "DaemonSetPods",
    "SystemCriticalPods",
    "FailedBarePods",
)
EXTRA_PROTECTIONS = ("PodsWithPVC", "PodsWithoutPDB", "PodsWithResourceClaims")


class PriorityThreshold(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Pods of this priority and above are protected."""

    value: Int32 | None = None
    """The priority itself, at most 2000000000."""
    name: str = ""
    """The priority class to take it from; `value` or `name`, not both."""


class StorageClass(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A storage class by name."""

    name: str = ""
    """The name of a storage class."""


class ClaimsConfig(Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """Narrows PodsWithPVC to claims of some classes."""

    protected_storage_classes: tuple[StorageClass, ...] = ()
    """Protect only claims of these storage classes."""


class ProtectionsConfig(
    Struct,
    frozen=True,
    kw_only=True,
    rename={"pods_with_pvc": "PodsWithPVC"},
    forbid_unknown_fields=True,
):
    """Settings of single protections."""

    pods_with_pvc: ClaimsConfig | None = None
    """Settings of `PodsWithPVC`."""


class PodProtections(Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """Which protections hold beyond, or less than, the default ones."""

    default_disabled: tuple[str, ...] = ()
    """Default protections to turn off."""
    extra_enabled: tuple[str, ...] = ()
    """Protections to turn on."""
    config: ProtectionsConfig | None = None
    """Settings of single protections."""


class Args(PluginArgs, frozen=True, kw_only=True):
    """Arguments of DefaultEvictor."""

    node_selector: str = ""
    """Narrows the nodes that `nodeFit` may find; the policy's own `nodeSelector` does not."""
    label_selector: LabelSelector | None = None
    """Only pods with these labels may go."""
    namespace_label_selector: LabelSelector | None = None
    """Only pods of namespaces with these labels may go."""
    priority_threshold: PriorityThreshold | None = None
    """Pods of this priority and above stay; without it 2000000000."""
    node_fit: bool | None = None
    """A pod only goes when some other node would take it."""
    min_replicas: Unsigned | None = None
    """Pods whose only owner has fewer pods than this stay; 0 and 1 ask for nothing."""
    min_pod_age: Duration | None = None
    """Pods that started less than this ago stay; in `resettle/v1` `0s` asks for nothing."""
    no_eviction_policy: Literal["", "Preferred", "Mandatory"] = ""
    """`Mandatory`: pods that carry `prefer-no-eviction` stay; else these only go later than their
    like."""
    pod_protections: PodProtections = PodProtections()
    """What to protect beyond, or less than, the default."""
    evict_local_storage_pods: bool = False
    """Older form of disabling `PodsWithLocalStorage`."""
    evict_daemon_set_pods: bool = False
    """Older form of disabling `DaemonSetPods`."""
    evict_system_critical_pods: bool = False
    """Older form of disabling `SystemCriticalPods`."""
    evict_failed_bare_pods: bool = False
    """Older form of disabling `FailedBarePods`."""
    ignore_pvc_pods: bool = False
    """Older form of enabling `PodsWithPVC`."""
    ignore_pods_without_pdb: bool = field(name="ignorePodsWithoutPDB", default=False)
    """Older form of enabling `PodsWithoutPDB`."""

    @property
    def protections(self) -> frozenset[str]:
        """The protections in force."""
        chosen = self.pod_protections
        if chosen.extra_enabled or chosen.default_disabled:
            kept = frozenset(DEFAULT_PROTECTIONS) - frozenset(chosen.default_disabled)
            return kept | frozenset(chosen.extra_enabled)
        return frozenset(
            name
            for name, on in (
                ("PodsWithLocalStorage", not self.evict_local_storage_pods),
                ("DaemonSetPods", not self.evict_daemon_set_pods),
                ("SystemCriticalPods", not self.evict_system_critical_pods),
                ("FailedBarePods", not self.evict_failed_bare_pods),
                ("PodsWithPVC", self.ignore_pvc_pods),
                ("PodsWithoutPDB", self.ignore_pods_without_pdb),
            )
            if on
        )

    @property
    def protected_classes(self) -> frozenset[str]:
        """Storage classes that PodsWithPVC is narrowed to; none means all claims."""
        config = self.pod_protections.config
        claims = config.pods_with_pvc if config else None
        return (
            frozenset(storage_class.name for storage_class in claims.protected_storage_classes)
            if claims
            else frozenset()
        )

    def problems(self) -> Iterator[Problem]:
        yield from selector_problems(self.label_selector, "labelSelector")
        yield from selector_problems(self.namespace_label_selector, "namespaceLabelSelector")
        threshold = self.priority_threshold
        if threshold and threshold.value is not None and threshold.name:
            yield Problem(
                what="both `value` and `name` are set",
                fix="keep one of the two",
                at=("priorityThreshold",),
            )
        if threshold and threshold.value is not None and threshold.value > CRITICAL_PRIORITY:
            yield too_high(threshold.value)
        if self.node_selector:
            try:
                parse_selector(self.node_selector)
            except InputError as error:
                yield Problem(what=str(error), at=("nodeSelector",))
        yield from self._protection_problems()

    def _protection_problems(self) -> Iterator[Problem]:
        chosen = self.pod_protections
        lists = (
            ("defaultDisabled", chosen.default_disabled, DEFAULT_PROTECTIONS, EXTRA_PROTECTIONS),
            ("extraEnabled", chosen.extra_enabled, EXTRA_PROTECTIONS, DEFAULT_PROTECTIONS),
        )
        for key, names, known, other in lists:
            for i, name in enumerate(names):
                at = ("podProtections", key, i)
                if name in other:
                    where = "extraEnabled" if key == "defaultDisabled" else "defaultDisabled"
                    yield Problem(what=f"`{name}` belongs in `{where}`", at=at)
                elif name not in known:
                    yield Problem(
                        what=f"no protection is named `{name}`",
                        fix=did_you_mean(name, known),
                        at=at,
                    )
            for name, times in Counter(names).items():
                if times > 1:
                    last = len(names) - 1 - names[::-1].index(name)
                    yield Problem(
                        what=f"`{name}` is listed {times} times",
                        fix="list it once",
                        at=("podProtections", key, last),
                    )
        if chosen.extra_enabled or chosen.default_disabled:
            for key, on, instead in self._older_switches():
                if on:
                    yield Problem(
                        what=f"`{key}` does not go together with `podProtections`",
                        fix=f"remove it and use {instead}",
                        at=(key,),
                    )
        if "PodsWithPVC" in chosen.extra_enabled and "" in self.protected_classes:
            yield Problem(
                what="a protected storage class has no name",
                fix="write `- name: CLASS`",
                at=("podProtections", "config", "PodsWithPVC", "protectedStorageClasses"),
            )

    def _older_switches(self) -> Iterator[tuple[str, bool, str]]:
        off, on = "`podProtections.defaultDisabled: [{}]`", "`podProtections.extraEnabled: [{}]`"
        yield (
            "evictLocalStoragePods",
            self.evict_local_storage_pods,
            off.format("PodsWithLocalStorage"),
        )
        yield "evictDaemonSetPods", self.evict_daemon_set_pods, off.format("DaemonSetPods")
        yield (
            "evictSystemCriticalPods",
            self.evict_system_critical_pods,
            off.format("SystemCriticalPods"),
        )
        yield "evictFailedBarePods", self.evict_failed_bare_pods, off.format("FailedBarePods")
        yield "ignorePvcPods", self.ignore_pvc_pods, on.format("PodsWithPVC")
        yield "ignorePodsWithoutPDB", self.ignore_pods_without_pdb, on.format("PodsWithoutPDB")


def too_high(priority: int) -> Problem:
    """The problem of a threshold that would leave system-critical pods unprotected."""
    return Problem(
        what=f"the priority threshold {priority} is above {CRITICAL_PRIORITY}",
        fix=f"write at most {CRITICAL_PRIORITY}, the priority of the system itself",
        at=("priorityThreshold",),
    )


class InEffect(Struct, frozen=True, kw_only=True):
    """The values in effect of three arguments that a policy may omit."""

    node_fit: bool
    min_replicas: int
    min_age: timedelta | None


def in_effect(args: Args, semantics: Semantics) -> InEffect:
    """The arguments as written, with the defaults of the semantics where they are omitted."""
    safe = not semantics.permissive_defaults
    fit, replicas, age = args.node_fit, args.min_replicas, args.min_pod_age
    if age is None and safe:
        age = MIN_POD_AGE
    min_age = None if age is None else parse_duration(age)
    if safe and min_age is not None and min_age <= timedelta():
        # Upstream, `0s` still protects pods that have not started; here it protects none.
        min_age = None
    return InEffect(
        node_fit=fit if fit is not None else safe and NODE_FIT,
        min_replicas=replicas if replicas is not None else MIN_REPLICAS if safe else 0,
        min_age=min_age,
    )
