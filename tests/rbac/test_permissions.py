"""What a policy needs to be allowed, and the rules that grant it."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from msgspec import Struct

from resettle.errors import Forbidden, InputError
from resettle.framework import Kind, Permission, Plugin, default_registry, load_policy
from resettle.framework.descheduler import Descheduler, build_descheduler
from resettle.framework.profile import Instance, Profile
from resettle.kube.auth.access import Access
from resettle.kube.leader_election.lease import LeaseSettings
from resettle.kube.transport.client import Client
from resettle.policy.args import Args, ExtensionPoint
from resettle.rbac.permissions import (
    ApiPermission,
    PolicyRule,
    permissions_for_any_policy,
    policy_rules,
    required_permissions,
)
from resettle.rbac.reviews import require_permissions, review_permissions
from resettle.testing import ApiServer, DeniedPermission

READ_ALWAYS = ["nodes", "pods", "poddisruptionbudgets.policy"]
READ_FOR_FIT = [
    *["csinodes.storage.k8s.io", "namespaces", "nodes", "persistentvolumeclaims"],
    *["persistentvolumes", "poddisruptionbudgets.policy", "pods"],
]


class Widget(Struct, frozen=True):
    """Whatever a plugin reads."""


WIDGET = Kind("Widget", Widget, "/apis/example.com/v1/widgets")
NOWHERE = Kind("Widget", Widget)


def lifetime(api_version: str) -> Descheduler:
    text = (
        f"{{apiVersion: {api_version}, kind: DeschedulerPolicy, profiles: [{{name: p, "
        "pluginConfig: [{name: PodLifeTime, args: {maxPodLifeTimeSeconds: 9}}], "
        "plugins: {deschedule: {enabled: [PodLifeTime]}}}]}"
    )
    return build_descheduler(
        load_policy(text, name="p", plugins=default_registry()), default_registry()
    )


def reading_widgets(kind: Kind) -> Descheduler:
    def nothing(args: Any, snapshot: Any, draft: Any) -> None:
        """Proposes no pod."""

    plugin = Plugin(
        name="W", kinds=(kind,), reads=lambda args: frozenset({"Widget"}), deschedule=nothing
    )
    instance = Instance(plugin, Args(), ExtensionPoint.DESCHEDULE)
    return Descheduler(profiles=(Profile(name="p", deschedule=(instance,)),))


def limited(*kinds: str) -> Descheduler:
    """A policy that reads workloads, and the scale of these kinds."""
    text = (
        "{apiVersion: descheduler/v1alpha2, kind: DeschedulerPolicy, profiles: [{name: p, "
        f"pluginConfig: [{{name: MigrationLimits, args: {{scaleKinds: [{', '.join(kinds)}]}}}}], "
        "plugins: {filter: {enabled: [MigrationLimits]}}}]}"
    )
    return build_descheduler(
        load_policy(text, name="p", plugins=default_registry()), default_registry()
    )


def test_limits_on_workloads_read_them_and_the_scale_of_exactly_the_kinds_named() -> None:
    rights = required_permissions(
        limited("argoproj.io/v1alpha1/Rollout", "apps.kruise.io/v1alpha1/CloneSet")
    )

    assert titles(rights, "get") == [
        "clonesets/scale.apps.kruise.io",
        "rollouts/scale.argoproj.io",
    ]
    assert set(titles(rights, "watch")) - set(READ_ALWAYS) == {
        *("deployments.apps", "replicasets.apps", "statefulsets.apps", "jobs.batch"),
        "replicationcontrollers",
    }


def titles(rights: tuple[ApiPermission, ...], verb: str) -> list[str]:
    return [right.title for right in rights if right.verb == verb]


@pytest.mark.parametrize(
    ("api_version", "read"),
    [
        pytest.param("descheduler/v1alpha2", READ_ALWAYS, id="a policy of the descheduler"),
        pytest.param("resettle/v1", READ_FOR_FIT, id="a policy that judges fit"),
    ],
)
def test_what_the_plugins_read_is_listed_and_watched(api_version: str, read: list[str]) -> None:
    rights = required_permissions(lifetime(api_version))

    assert sorted(titles(rights, "list")) == sorted(titles(rights, "watch")) == sorted(read)


@pytest.mark.parametrize(
    ("options", "acts"),
    [
        pytest.param({}, ["create pods/eviction", "create events.events.k8s.io"], id="a run"),
        pytest.param({"dry_run": True}, [], id="a dry run"),
        pytest.param(
            {"lease": LeaseSettings(name="mine", namespace="ops")},
            [
                "create pods/eviction",
                "create events.events.k8s.io",
                "create leases.coordination.k8s.io",
                "get leases.coordination.k8s.io/mine",
                "update leases.coordination.k8s.io/mine",
            ],
            id="a run that leads",
        ),
        pytest.param({"dry_run": True, "lease": LeaseSettings()}, [], id="a dry run does not lead"),
    ],
)
def test_acting_needs_more_than_reading(options: dict[str, Any], acts: list[str]) -> None:
    rights = required_permissions(lifetime("descheduler/v1alpha2"), **options)

    others = [right for right in rights if right.verb not in ("list", "watch")]
    assert [f"{right.verb} {right.title}" for right in others] == acts
    leases = {right.namespace for right in others if right.resource == "leases"}
    assert leases <= {"ops"}


def test_a_kind_that_a_plugin_brings_is_read_where_it_says() -> None:
    rights = required_permissions(reading_widgets(WIDGET), [WIDGET])

    assert "widgets.example.com" in titles(rights, "watch")


def test_a_kind_without_a_place_is_an_error_that_names_it() -> None:
    with pytest.raises(InputError, match="the plugin that reads Widget declares no path"):
        required_permissions(reading_widgets(NOWHERE), [NOWHERE])


def test_rules_are_gathered_by_place_and_verbs() -> None:
    lease = LeaseSettings(name="mine", namespace="ops")

    assert policy_rules(required_permissions(lifetime("descheduler/v1alpha2"), lease=lease)) == {
        "": (
            PolicyRule(("",), ("nodes", "pods"), ("list", "watch")),
            PolicyRule(("policy",), ("poddisruptionbudgets",), ("list", "watch")),
            PolicyRule(("",), ("pods/eviction",), ("create",)),
            PolicyRule(("events.k8s.io",), ("events",), ("create",)),
        ),
        "ops": (
            PolicyRule(("coordination.k8s.io",), ("leases",), ("create",)),
            PolicyRule(("coordination.k8s.io",), ("leases",), ("get", "update"), ("mine",)),
        ),
    }


def test_nothing_missing_needs_no_rules() -> None:
    assert policy_rules(()) == {}


# -- movers and controllers of plugins -----------------------------------------------------------

TIDY = Plugin(
    name="Tidy",
    kinds=(WIDGET,),
    controller=lambda args, handle: None,  # type: ignore[arg-type, return-value]  # never made
    controller_reads=lambda args: frozenset({"Widget", "Namespace"}),
    controller_permissions=lambda args: (
        Permission("delete", "pods"),
        Permission("create", "pods", namespace="home"),
        Permission("update", "widgets/status", "example.com", name="mine"),
    ),
)


def tidying() -> Descheduler:
    instance = Instance(TIDY, Args(), ExtensionPoint.CONTROLLER)
    return Descheduler(profiles=(Profile(name="p", controllers=(instance,)),))


def test_a_controller_needs_what_its_plugin_declares() -> None:
    rights = required_permissions(tidying(), [WIDGET])

    assert {"widgets.example.com", "namespaces"} <= set(titles(rights, "watch"))
    assert policy_rules([right for right in rights if right.verb not in ("list", "watch")]) == {
        "": (
            PolicyRule(("",), ("pods/eviction",), ("create",)),
            PolicyRule(("",), ("pods",), ("delete",)),
            PolicyRule(("example.com",), ("widgets/status",), ("update",), ("mine",)),
            PolicyRule(("events.k8s.io",), ("events",), ("create",)),
        ),
        "home": (PolicyRule(("",), ("pods",), ("create",)),),
    }


def test_a_dry_run_needs_nothing_for_controllers_but_reading() -> None:
    rights = required_permissions(tidying(), [WIDGET], dry_run=True)

    assert {right.verb for right in rights} == {"list", "watch"}


@pytest.mark.parametrize(
    ("ban", "says"),
    [
        pytest.param(DeniedPermission(verb="delete", resource="pods"), "delete pods", id="one"),
        pytest.param(
            DeniedPermission(verb="create", resource="pods", namespace="home"),
            "create pods in namespace home",
            id="one in a namespace",
        ),
    ],
)
def test_a_missing_permission_of_a_controller_is_found(ban: DeniedPermission, says: str) -> None:
    async def run_scenario() -> None:
        async with ApiServer(denied=[ban]) as server, Client(Access(server=server.url)) as client:
            await require_permissions(client, required_permissions(tidying(), [WIDGET]))

    with pytest.raises(Forbidden, match=says):
        asyncio.run(run_scenario())


# -- asking for them -----------------------------------------------------------------------------


def ensured(*bans: DeniedPermission) -> None:
    """Asks a server with these bans for all that a run needs."""

    async def run_scenario() -> None:
        async with ApiServer(denied=bans) as server, Client(Access(server=server.url)) as client:
            await require_permissions(
                client, required_permissions(lifetime("descheduler/v1alpha2"))
            )

    asyncio.run(run_scenario())


@pytest.mark.parametrize(
    ("bans", "says"),
    [
        pytest.param(
            [DeniedPermission(verb="create", resource="pods/eviction")],
            'may not create pods/eviction; add to its ClusterRole: apiGroups: [""], '
            'resources: ["pods/eviction"], verbs: ["create"]',
            id="one",
        ),
        pytest.param(
            [DeniedPermission(verb="watch")],
            'may not watch nodes; add to its ClusterRole: apiGroups: [""], resources: ["nodes"], '
            'verbs: ["watch"]; 2 more missing, which `resettle check-access` lists',
            id="several",
        ),
    ],
)
def test_missing_permissions_are_reported_before_anything_starts(
    bans: list[DeniedPermission], says: str
) -> None:
    with pytest.raises(Forbidden) as caught:
        ensured(*bans)

    assert str(caught.value) == says


def test_each_right_is_asked_for_and_answered_in_order() -> None:
    rights = required_permissions(lifetime("resettle/v1"), lease=LeaseSettings())

    async def run_scenario() -> None:
        async with ApiServer() as server, Client(Access(server=server.url)) as client:
            await require_permissions(client, rights)
            reviews = await review_permissions(client, rights)
        assert [review.permission for review in reviews if review.allowed] == list(rights)

    asyncio.run(run_scenario())


# -- the migration controller ----------------------------------------------------------------------


def test_a_permission_of_a_plugin_can_be_limited_to_a_namespace_and_a_name() -> None:
    mover = Plugin(
        name="M",
        evict=lambda args, requests: pytest.fail("no pod is moved here"),
        permissions=lambda args: (
            Permission("create", "pods", namespace="home"),
            Permission("get", "secrets", namespace="home", name="s"),
        ),
    )

    rights = permissions_for_any_policy([mover])

    assert ApiPermission(verb="create", resource="pods", namespace="home") in rights
    assert ApiPermission(verb="get", resource="secrets", namespace="home", name="s") in rights
