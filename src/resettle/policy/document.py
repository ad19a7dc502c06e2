"""A policy in two forms: the document as people write it, and the policy as resettle uses it.

The first half is the shape of `descheduler/v1alpha2` and `resettle/v1`; the second half is what
every apiVersion becomes once it is read, checked and completed. A field declared
`ResettleOnly[int | None]` exists in `resettle/v1` only and is an error in other policies; the JSON
Schema says so too. `softTaints` is part of the policy because it uses the policy's thresholds.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Annotated, Any, Literal, TypeVar

from msgspec import Meta, Struct, inspect

from resettle.model.selectors import EVERYTHING, Selector
from resettle.policy.args import Args, ExtensionPoint, Unsigned
from resettle.policy.problems import Located, Problem

BALANCER = "LowNodeUtilization"
"""The plugin whose thresholds and source of usage the tainter shares."""
PREFIXES = {
    "Levels": "nodeutilization.descheduler.kubernetes.io",
    "OpenShift": "nodeutilization.descheduler.openshift.io",
}
"""The part of a key before the `/` unless a policy sets it, for each style."""
MOST_LEVELS = 10
_DOMAIN = re.compile(
    r"(?=.{1,253}$)[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*"
)

Points = Annotated[float, Meta(ge=0, le=100, description="a number of percentage points")]
Percent = Annotated[float, Meta(gt=0, le=100, description="a share in percent")]


class SoftTaints(Args, frozen=True, kw_only=True):
    """Which soft taints a node gets, and how many nodes may have some."""

    profile: str = ""
    """The profile whose thresholds are used, where several profiles have some."""
    style: Literal["Levels", "OpenShift"] = "Levels"
    prefix: str = ""
    levels: Annotated[int, Meta(ge=1, le=MOST_LEVELS)] = 1
    scale: Literal["Linear", "Exponential"] = "Linear"
    release_margin: Points = 0.0
    max_percent_of_nodes: Percent | None = None

    @property
    def domain(self) -> str:
        """The part of every key before the `/`."""
        return self.prefix or PREFIXES[self.style]

    def problems(self) -> Iterator[Problem]:
        if self.prefix and not _DOMAIN.fullmatch(self.prefix):
            yield Problem(
                what=f"`{self.prefix}` is not a valid prefix of a taint key",
                fix=f"write a domain such as `{PREFIXES['Levels']}`",
                at=("prefix",),
            )
        if self.style == "OpenShift" and self.levels > 1:
            yield Problem(
                what="the style `OpenShift` has two taints and no levels",
                fix="remove `levels`, or write `style: Levels`",
                at=("levels",),
            )


RESETTLE_V1 = "resettle/v1"
CONVERT_COMMAND = f"resettle policy convert --to {RESETTLE_V1}"

T = TypeVar("T")
ResettleOnly = Annotated[T, Meta(extra={"since": RESETTLE_V1}, description=f"`{RESETTLE_V1}` only")]


def is_resettle_only(kind: inspect.Type) -> bool:
    """Whether a field of this type exists in `resettle/v1` only."""
    return isinstance(kind, inspect.Metadata) and (kind.extra or {}).get("since") == RESETTLE_V1


V1ALPHA1 = "descheduler/v1alpha1"
V1ALPHA2 = "descheduler/v1alpha2"
IMPROVED = RESETTLE_V1
API_VERSIONS = (V1ALPHA1, V1ALPHA2, IMPROVED)
KIND = "DeschedulerPolicy"
Share = Annotated[float, Meta(gt=0, le=100, description="a share in percent")]


class Document(Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """Any part of a policy document; its keys are camelCase and there are no others."""


class PluginSet(Document, frozen=True, kw_only=True):
    """The plugins of one extension point; None stands for a name that could not be read."""

    enabled: tuple[str | None, ...] = ()
    disabled: tuple[str | None, ...] = ()


class PluginSets(Document, frozen=True, kw_only=True):
    """`plugins` of a profile: a set for each extension point."""

    deschedule: PluginSet = PluginSet()
    balance: PluginSet = PluginSet()
    filter: PluginSet = PluginSet()
    preevictionfilter: PluginSet = PluginSet()
    presort: PluginSet = PluginSet()
    sort: PluginSet = PluginSet()
    evict: ResettleOnly[PluginSet] = PluginSet()
    controller: ResettleOnly[PluginSet] = PluginSet()

    def at(self, point: ExtensionPoint) -> PluginSet:
        """The plugins of this extension point."""
        chosen: PluginSet = getattr(self, point)
        return chosen


class PluginConfig(Document, frozen=True, kw_only=True):
    """The arguments of one plugin; what they may be depends on its name."""

    name: str
    args: Any = None


class ProfileDocument(Document, frozen=True, kw_only=True):
    """A profile as written."""

    name: str = ""
    plugin_config: tuple[PluginConfig | None, ...] = ()
    plugins: PluginSets = PluginSets()


class SecretReference(Document, frozen=True, kw_only=True):
    """Names a Secret of the cluster."""

    namespace: str = ""
    name: str = ""


class AuthToken(Document, frozen=True, kw_only=True):
    """Where the bearer token for Prometheus is kept."""

    secret_reference: SecretReference | None = None


class Prometheus(Document, frozen=True, kw_only=True):
    """A Prometheus server; without `auth_token` the service account's own token is used."""

    url: str = ""
    auth_token: AuthToken | None = None
    token_file: ResettleOnly[str] = ""
    ca_file: ResettleOnly[str] = ""


class MetricsProvider(Document, frozen=True, kw_only=True):
    """A source of figures about how busy nodes are."""

    source: str = ""
    prometheus: Prometheus | None = None


class MetricsCollector(Document, frozen=True, kw_only=True):
    """The older switch for figures from the metrics API."""

    enabled: bool = False


class PodDeleteOptions(Document, frozen=True, kw_only=True, omit_defaults=True):
    """`DeleteOptions` of the Kubernetes API, as far as a policy may set them."""

    grace_period_seconds: Unsigned | None = None
    propagation_policy: Literal["Orphan", "Background", "Foreground"] | None = None
    """What becomes of objects that a pod owns."""
    orphan_dependents: bool | None = None
    """The older form of `propagationPolicy`."""


class PolicyDocument(Document, frozen=True, kw_only=True):
    """A whole document of `descheduler/v1alpha2` or `resettle/v1`."""

    api_version: str = ""
    kind: str = ""
    node_selector: str | None = None
    max_no_of_pods_to_evict_per_node: Unsigned | None = None
    max_no_of_pods_to_evict_per_namespace: Unsigned | None = None
    max_no_of_pods_to_evict_total: Unsigned | None = None
    max_percent_of_pods_to_evict: ResettleOnly[Share | None] = None
    max_percent_of_nodes_to_evict_from: ResettleOnly[Share | None] = None
    grace_period_seconds: Unsigned | None = None
    delete_options: ResettleOnly[PodDeleteOptions] = PodDeleteOptions()
    eviction_failure_event_notification: bool = False
    metrics_collector: MetricsCollector = MetricsCollector()
    metrics_providers: tuple[MetricsProvider | None, ...] = ()
    soft_taints: ResettleOnly[SoftTaints] = SoftTaints()
    profiles: tuple[ProfileDocument | None, ...] = ()


class Limits(Struct, frozen=True, kw_only=True):
    """How many pods one cycle may evict, over all profiles; None is no limit."""

    total: int | None = None
    node: int | None = None
    namespace: int | None = None
    percent_of_pods: float | None = None
    """Of all pods; beside `total` the smaller number counts."""
    percent_of_nodes: float | None = None
    """Of the nodes in scope: how many of them pods may leave."""


class ProfileConfig(Struct, frozen=True, kw_only=True):
    """What one profile runs: the plugins of each extension point in order, and their arguments."""

    name: str
    args: dict[str, Args]
    enabled: dict[ExtensionPoint, tuple[str, ...]]


class Policy(Struct, frozen=True, kw_only=True):
    """A policy without mistakes, ready to be used."""

    api_version: str
    profiles: tuple[ProfileConfig, ...] = ()
    node_selector: Selector = EVERYTHING
    limits: Limits = Limits()
    delete_options: PodDeleteOptions = PodDeleteOptions()
    """How evicted pods are deleted; `gracePeriodSeconds` of the policy is part of it."""
    eviction_failure_event_notification: bool = False
    metrics_collector: bool = False
    metrics_providers: tuple[MetricsProvider, ...] = ()
    soft_taints: SoftTaints = SoftTaints()
    warnings: tuple[Located, ...] = ()

    @property
    def improved(self) -> bool:
        """Whether the policy asks for resettle's own semantics rather than upstream's."""
        return self.api_version == IMPROVED
