"""The manifest of a service account: what it grants is what was asked for, under any name."""

from __future__ import annotations

from typing import Any

import pytest

from resettle.errors import InputError
from resettle.framework import Plugin, default_registry
from resettle.framework.plugin import Permission
from resettle.kube.leader_election.lease import LeaseSettings
from resettle.policy.args import Args
from resettle.rbac.manifests import ManifestNames, manifest
from resettle.rbac.permissions import ApiPermission, permissions_for_any_policy

READ_NODES = ApiPermission(verb="list", resource="nodes")
LEAD = ApiPermission(
    verb="update", resource="leases", group="coordination.k8s.io", namespace="ops", name="l"
)


def kinds(objects: list[dict[str, Any]]) -> list[str]:
    return [item["kind"] for item in objects]


def test_rights_everywhere_and_in_a_namespace_have_roles_of_their_own() -> None:
    made = manifest([READ_NODES, LEAD], ManifestNames())

    assert kinds(made) == [
        *("ServiceAccount", "ClusterRole", "ClusterRoleBinding"),
        *("Role", "RoleBinding"),
    ]
    _, everywhere, _, there, _ = made
    assert everywhere["rules"] == [{"apiGroups": [""], "resources": ["nodes"], "verbs": ["list"]}]
    assert there["metadata"]["namespace"] == "ops"
    assert there["rules"][0]["resourceNames"] == ["l"]


def test_each_binding_is_of_the_role_before_it_and_the_account() -> None:
    names = ManifestNames(name="tidy", namespace="home", account="broom")
    account, *roles = manifest([READ_NODES, LEAD], names)

    assert (account["metadata"]["name"], account["metadata"]["namespace"]) == ("broom", "home")
    for role, binding in zip(roles[::2], roles[1::2], strict=True):
        assert binding["roleRef"]["kind"] == role["kind"]
        assert binding["roleRef"]["name"] == role["metadata"]["name"] == "tidy"
        assert binding["metadata"] == role["metadata"]
        assert binding["subjects"] == [
            {"kind": "ServiceAccount", "name": "broom", "namespace": "home"}
        ]


def test_nothing_to_grant_is_an_account_alone() -> None:
    assert kinds(manifest([], ManifestNames())) == ["ServiceAccount"]


@pytest.mark.parametrize(
    ("names", "says"),
    [
        pytest.param({"name": "A"}, "--name is `A`: no", id="capitals"),
        pytest.param({"name": ""}, "--name is ``: no", id="no name"),
        pytest.param({"name": "a\n"}, "--name is", id="a line end"),
        pytest.param({"namespace": "a.b"}, "--namespace is `a.b`: no", id="a namespace with a dot"),
        pytest.param({"namespace": "a" * 64}, "--namespace is `a", id="a namespace too long"),
        pytest.param({"name": "a." * 130 + "a"}, "--name is `a.a", id="a name too long"),
        pytest.param(
            {"name": "a/b", "account": "-"}, "--name is `a/b`, --service-account is `-`", id="two"
        ),
    ],
)
def test_invalid_names_are_reported(names: dict[str, str], says: str) -> None:
    with pytest.raises(InputError) as caught:
        ManifestNames(**names).validate()

    assert str(caught.value).startswith(says)


def test_names_that_objects_can_have_are_taken() -> None:
    names = ManifestNames(name="a.b-c", namespace="kube-system", account="9")

    assert names.validate() is names


# -- any policy ----------------------------------------------------------------------------------


def test_the_role_for_any_policy_may_read_all_kinds_and_use_every_mover() -> None:
    mover = Plugin(
        name="M",
        evict=lambda args, requests: pytest.fail("no pod is moved here"),
        permissions=lambda args: (Permission("patch", "widgets", "example.com"),),
    )
    plugins = [*default_registry().values(), mover]

    rights = permissions_for_any_policy(plugins, lease=LeaseSettings())

    read = {right.resource for right in rights if right.verb == "watch"}
    acted = [f"{item.verb} {item.title}" for item in rights if item.verb not in ("list", "watch")]
    assert read == {
        *("nodes", "pods", "namespaces", "persistentvolumeclaims", "persistentvolumes"),
        *("csinodes", "poddisruptionbudgets", "priorityclasses"),
        *("deployments", "replicasets", "statefulsets", "jobs", "replicationcontrollers"),
        "podmigrationjobs",
    }
    assert acted == [
        *("create pods/eviction", "create podmigrationjobs.resettle.dev"),
        *("patch widgets.example.com", "create events.events.k8s.io"),
        "create leases.coordination.k8s.io",
        *(f"{verb} leases.coordination.k8s.io/descheduler" for verb in ("get", "update")),
    ]


def test_a_dry_run_of_any_policy_only_reads() -> None:
    rights = permissions_for_any_policy(
        default_registry().values(), dry_run=True, lease=LeaseSettings()
    )

    assert {right.verb for right in rights} == {"list", "watch"}


class MoverArgs(Args, frozen=True, kw_only=True):
    """Arguments that a policy has to give."""

    what: str


def test_a_mover_that_needs_arguments_asks_for_a_policy() -> None:
    mover = Plugin(
        name="M",
        args=MoverArgs,
        evict=lambda args, requests: pytest.fail("no pod is moved here"),
        permissions=lambda args: (Permission("patch", args.what),),
    )

    with pytest.raises(InputError, match="what M does depends on its arguments; name a policy"):
        permissions_for_any_policy([mover])
