"""The permissions that a descheduler needs, derived from its policy, and the RBAC rules for them.

The same list serves `check-access`, the check before a run, and the roles of an installation.
"""

from __future__ import annotations

from collections.abc import Iterable

from msgspec import Struct

from resettle.errors import InputError
from resettle.framework.descheduler import Descheduler
from resettle.framework.plugin import Permission, Plugin
from resettle.kube.leader_election.lease import LeaseSettings
from resettle.model.kinds import ALWAYS_READ, KINDS, Kind
from resettle.model.measurements import KUBERNETES_METRICS, PROMETHEUS

LEASES = "coordination.k8s.io"
EVENTS = "events.k8s.io"
METRICS = "metrics.k8s.io"


class ApiPermission(Struct, frozen=True, kw_only=True, order=True):
    """A verb on a resource, everywhere or in one namespace."""

    verb: str
    resource: str
    """A plural, or a subresource such as `pods/eviction`."""
    group: str = ""
    namespace: str = ""
    name: str = ""

    @property
    def title(self) -> str:
        """The resource as kubectl writes it, such as `poddisruptionbudgets.policy`."""
        title = f"{self.resource}.{self.group}" if self.group else self.resource
        return f"{title}/{self.name}" if self.name else title


TOKEN_REVIEWS = ApiPermission(verb="create", resource="tokenreviews", group="authentication.k8s.io")
ACCESS_REVIEWS = ApiPermission(
    verb="create", resource="subjectaccessreviews", group="authorization.k8s.io"
)
METRICS_AUTHORIZATION = (TOKEN_REVIEWS, ACCESS_REVIEWS)
"""For asking the API server who may fetch metrics."""
USAGE = tuple(
    ApiPermission(verb="list", resource=plural, group=METRICS) for plural in ("nodes", "pods")
)
"""For reading what nodes and pods really use."""

"""What owns pods, by API group."""


def required_permissions(
    descheduler: Descheduler,
    kinds: Iterable[Kind] = (),
    *,
    dry_run: bool = False,
    lease: LeaseSettings | None = None,
) -> tuple[ApiPermission, ...]:
    """Every permission that running this descheduler needs: to read, to move pods, to lead.

    `kinds` are those that plugins declare. A dry run reads and does not lead.
    """
    read = [kind for kind in (*kinds, *KINDS.values()) if kind.name in descheduler.reads]
    moving = () if dry_run else _moving(descheduler)
    more = (*_measuring(descheduler), *_scaling(descheduler))
    return _all_of(read, more, moving, dry_run, lease)


def permissions_for_any_policy(
    plugins: Iterable[Plugin], *, dry_run: bool = False, lease: LeaseSettings | None = None
) -> tuple[ApiPermission, ...]:
    """Every permission that any policy for these plugins can need.

    Except for the Secret with a token for Prometheus, whose name only a policy has.
    """
    known = list(plugins)
    read = [*(kind for plugin in known for kind in plugin.kinds), *KINDS.values()]
    moving = () if dry_run else [right for plugin in known for right in _any_move(plugin)]
    return _all_of(read, USAGE, moving, dry_run, lease)


def soft_tainter_permissions(
    kinds: Iterable[str],
    usage_source: Descheduler | None = None,
    *,
    lease: LeaseSettings | None = None,
) -> tuple[ApiPermission, ...]:
    """Every permission of the soft tainter: to read these kinds, to measure, write and lead.

    `usage_source` says how full nodes are; without it, every source of usage is allowed.
    """
    rights = [right for kind in sorted({"Node", *kinds}) for right in _reading(KINDS[kind])]
    rights += _rights("get patch", "nodes")
    rights += USAGE if usage_source is None else _measuring(usage_source)
    return (*rights, *(_leading(lease) if lease is not None else ()))


def component_permissions(
    kinds: Iterable[Kind], acting: Iterable[Permission], *, lease: LeaseSettings | None = None
) -> tuple[ApiPermission, ...]:
    """Every permission of a component that reads these kinds, does this, and leads."""
    return _all_of(kinds, (), _doing(acting), dry_run=False, lease=lease)


def _rights(
    verbs: str, resource: str, group: str = "", *, namespace: str = ""
) -> list[ApiPermission]:
    return [
        ApiPermission(verb=verb, resource=resource, group=group, namespace=namespace)
        for verb in verbs.split()
    ]


def _all_of(
    read: Iterable[Kind],
    measuring: Iterable[ApiPermission],
    moving: Iterable[ApiPermission],
    dry_run: bool,
    lease: LeaseSettings | None,
) -> tuple[ApiPermission, ...]:
    by_name = {kind.name: kind for kind in (*read, *(KINDS[name] for name in ALWAYS_READ))}
    names = (*ALWAYS_READ, *sorted(by_name.keys() - set(ALWAYS_READ)))
    rights = [right for name in names for right in _reading(by_name[name])]
    rights += measuring
    if not dry_run:
        rights += dict.fromkeys(moving)
        rights.append(ApiPermission(verb="create", resource="events", group=EVENTS))
        rights += _leading(lease) if lease is not None else ()
    return tuple(rights)


def _reading(kind: Kind) -> list[ApiPermission]:
    return _rights("list watch", kind.plural, kind.group)


def _measuring(descheduler: Descheduler) -> Iterable[ApiPermission]:
    """Permissions to read how busy nodes are: the metrics API, or the token for Prometheus."""
    sources = {question.source for question in descheduler.measures}
    if KUBERNETES_METRICS in sources:
        yield from USAGE
    for provider in descheduler.providers:
        named = provider.prometheus.auth_token if provider.prometheus else None
        secret = named.secret_reference if named else None
        if provider.source == PROMETHEUS and PROMETHEUS in sources and secret:
            yield ApiPermission(
                verb="get", resource="secrets", namespace=secret.namespace, name=secret.name
            )


def _scaling(descheduler: Descheduler) -> Iterable[ApiPermission]:
    """Permissions to read how many replicas other kinds of workloads should have."""
    for kind in sorted(descheduler.scales):
        yield ApiPermission(verb="get", resource=f"{kind.plural}/scale", group=kind.group)


def _moving(descheduler: Descheduler) -> Iterable[ApiPermission]:
    """Permissions of the movers of all profiles; a profile that names none evicts."""
    for profile in descheduler.profiles:
        if (mover := profile.mover) is None:
            yield ApiPermission(verb="create", resource="pods/eviction")
        else:
            yield from _doing(mover.plugin.permissions(mover.args))
        for controller in profile.controllers:
            yield from _doing(controller.plugin.controller_permissions(controller.args))


def _any_move(plugin: Plugin) -> Iterable[ApiPermission]:
    """Permissions of a plugin's mover with default arguments; some need arguments of a policy.

    Controllers are left out: what they may write is granted only where a policy enables them.
    """
    if plugin.evict is None:
        return ()
    try:
        return list(_doing(plugin.permissions(plugin.args())))
    except TypeError:
        raise InputError(
            f"what {plugin.name} does depends on its arguments; name a policy with --policy"
        ) from None


def _doing(permissions: Iterable[Permission]) -> Iterable[ApiPermission]:
    for permission in permissions:
        yield ApiPermission(
            verb=permission.verb,
            resource=permission.resource,
            group=permission.group,
            namespace=permission.namespace,
            name=permission.name,
        )


def _leading(lease: LeaseSettings) -> Iterable[ApiPermission]:
    # RBAC cannot restrict `create` by name; the other verbs are granted for one lease only.
    yield ApiPermission(verb="create", resource="leases", group=LEASES, namespace=lease.namespace)
    for verb in ("get", "update"):
        yield ApiPermission(
            verb=verb,
            resource="leases",
            group=LEASES,
            namespace=lease.namespace,
            name=lease.name,
        )


class PolicyRule(Struct, frozen=True, rename="camel", omit_defaults=True):
    """A rule as it stands in a Role or a ClusterRole."""

    api_groups: tuple[str, ...]
    resources: tuple[str, ...]
    verbs: tuple[str, ...]
    resource_names: tuple[str, ...] = ()


def policy_rules(permissions: Iterable[ApiPermission]) -> dict[str, tuple[PolicyRule, ...]]:
    """The rules that grant the permissions, by namespace; empty stands for the whole cluster."""
    verbs: dict[tuple[str, str, str, str], list[str]] = {}
    for right in permissions:
        place = (right.namespace, right.group, right.resource, right.name)
        verbs.setdefault(place, []).append(right.verb)
    resources_by_rule: dict[str, dict[tuple[str, tuple[str, ...], str], list[str]]] = {}
    for (namespace, group, resource, name), named in verbs.items():
        alike = (group, tuple(named), name)
        resources_by_rule.setdefault(namespace, {}).setdefault(alike, []).append(resource)
    return {
        namespace: tuple(
            PolicyRule((group,), tuple(resources), named, (name,) if name else ())
            for (group, named, name), resources in grouped.items()
        )
        for namespace, grouped in resources_by_rule.items()
    }
