"""`resettle rbac`: a manifest on standard output, without any request."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from resettle.cli.commands.check_access import STEERINGS
from resettle.model.migration_job import Steering
from resettle.testing import ApiServer, DeniedPermission
from tests import ROOT
from tests.cli.commands.test_check_access import check
from tests.cli.harness import HEAD, LIFETIME, resettle

PRINTED = """\
apiVersion: v1
kind: ServiceAccount
metadata:
  name: resettle
  namespace: resettle
  labels: {app.kubernetes.io/name: resettle}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata:
  name: resettle
  labels: {app.kubernetes.io/name: resettle}
rules:
- apiGroups: ['']
  resources: [nodes, pods]
  verbs: [list, watch]
- apiGroups: [policy]
  resources: [poddisruptionbudgets]
  verbs: [list, watch]
- apiGroups: ['']
  resources: [pods/eviction]
  verbs: [create]
- apiGroups: [events.k8s.io]
  resources: [events]
  verbs: [create]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata:
  name: resettle
  labels: {app.kubernetes.io/name: resettle}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: resettle}
subjects:
- {kind: ServiceAccount, name: resettle, namespace: resettle}
"""


def printed(folder: Path, *words: str) -> list[dict[str, Any]]:
    """The objects that the command prints for a small policy."""
    (folder / "policy.yaml").write_text(LIFETIME)
    done = resettle("rbac", "--policy", "policy.yaml", *words, cwd=folder)
    assert (done.code, done.err) == (0, "")
    return list(yaml.safe_load_all(done.out))


def test_the_manifest_is_printed_as_its_page_shows_it(tmp_path: Path) -> None:
    done = resettle("rbac", "--policy", "-", cwd=tmp_path, stdin=LIFETIME.encode())

    assert done == (0, PRINTED, "")
    assert PRINTED in (ROOT / "docs" / "operate" / "access.md").read_text(encoding="utf-8")


def test_a_program_gets_the_same_objects_as_one_list(tmp_path: Path) -> None:
    (tmp_path / "policy.yaml").write_text(LIFETIME)
    done = resettle("rbac", "--policy", "policy.yaml", "-o", "json", cwd=tmp_path)

    assert json.loads(done.out) == {
        "apiVersion": "v1",
        "kind": "List",
        "items": printed(tmp_path),
    }


def test_values_for_the_chart_hold_the_rules_of_the_cluster_role(tmp_path: Path) -> None:
    _, role, _ = printed(tmp_path)

    assert printed(tmp_path, "-o", "helm", "--leader-elect") == [{"rbac": {"rules": role["rules"]}}]


def test_a_lease_is_granted_where_it_is_and_nowhere_else(tmp_path: Path) -> None:
    lease = ("--leader-elect-resource-name", "turn", "--leader-elect-resource-namespace", "ops")

    *_, role, binding = printed(tmp_path, "--leader-elect", *lease)

    assert (role["kind"], binding["kind"]) == ("Role", "RoleBinding")
    assert role["metadata"]["namespace"] == binding["metadata"]["namespace"] == "ops"
    assert role["rules"][1]["resourceNames"] == ["turn"]
    assert len(printed(tmp_path, *lease)) == 3


def test_a_dry_run_is_granted_nothing_but_reading(tmp_path: Path) -> None:
    _, role, _ = printed(tmp_path, "--dry-run")

    assert {verb for rule in role["rules"] for verb in rule["verbs"]} == {"list", "watch"}


def test_what_is_printed_is_what_check_access_asks_for(tmp_path: Path) -> None:
    """An account that lacks everything is shown the rules that the manifest has."""
    everything = tuple(
        DeniedPermission(verb=verb, resource=resource)
        for verb, resource in [
            *(("list", "*"), ("watch", "*")),
            *(("create", "pods/eviction"), ("create", "events")),
        ]
    )

    lacking = check(tmp_path, "-o", "json", bans=everything)

    (missing,) = json.loads(lacking.out)["missing"]
    _, role, _ = printed(tmp_path)
    assert missing == {"namespace": "", "rules": role["rules"]}


def test_without_a_policy_any_policy_will_do(tmp_path: Path) -> None:
    done = resettle("rbac", cwd=tmp_path)

    _, role, _ = yaml.safe_load_all(done.out)
    granted = {resource for rule in role["rules"] for resource in rule["resources"]}
    assert granted > {"csinodes", "priorityclasses", "pods/eviction"}


# -- the soft tainter and its guard --------------------------------------------------------------

TAINTING = """\
apiVersion: resettle/v1
kind: DeschedulerPolicy
softTaints: {prefix: example.com}
profiles:
  - name: relieve
    pluginConfig:
      - name: LowNodeUtilization
        args: {thresholds: {cpu: 20}, targetThresholds: {cpu: 50}}
    plugins: {balance: {enabled: [LowNodeUtilization]}}
"""
USUAL = "nodeutilization.descheduler.kubernetes.io', 'nodeutilization.descheduler.openshift.io"


def tainters(folder: Path, *words: str) -> list[dict[str, Any]]:
    """The objects that the command prints for the soft tainter."""
    (folder / "policy.yaml").write_text(TAINTING)
    done = resettle("rbac", "--component", "soft-tainter", *words, cwd=folder)
    assert (done.code, done.err) == (0, "")
    return list(yaml.safe_load_all(done.out))


def expression(guard: dict[str, Any], part: str, name: str) -> str:
    (written,) = (item["expression"] for item in guard["spec"][part] if item["name"] == name)
    return str(written)


@pytest.mark.parametrize(
    ("words", "prefixes"),
    [
        pytest.param([], f"['{USUAL}']", id="for any policy"),
        pytest.param(["--policy", "policy.yaml"], f"['example.com', '{USUAL}']", id="for this one"),
    ],
)
def test_the_guard_knows_the_prefix_of_the_policy(
    words: list[str], prefixes: str, tmp_path: Path
) -> None:
    guard, binding, *_ = tainters(tmp_path, *words)

    assert expression(guard, "variables", "prefixes") == prefixes
    assert guard["spec"]["failurePolicy"] == "Fail"
    assert "paramKind" not in guard["spec"], "a parameter that is missing would deny everybody"
    assert binding["spec"] == {
        "policyName": guard["metadata"]["name"],
        "validationActions": ["Deny"],
    }


def test_the_guard_is_about_the_account_that_is_granted_the_roles(tmp_path: Path) -> None:
    names = ("--name", "marks", "--namespace", "ops", "--service-account", "painter")
    guard, binding, account, role, granted = tainters(tmp_path, *names)

    asked = expression(guard, "matchConditions", "soft-tainter")
    assert asked == "request.userInfo.username == 'system:serviceaccount:ops:painter'"
    assert account["metadata"]["name"] == granted["subjects"][0]["name"] == "painter"
    assert {obj["metadata"]["name"] for obj in (guard, binding, role, granted)} == {"marks"}


def test_the_soft_tainter_never_has_the_names_of_the_descheduler(tmp_path: Path) -> None:
    """Applied after the other they would replace its roles."""
    assert {obj["metadata"]["name"] for obj in tainters(tmp_path)} == {"resettle-soft-tainter"}


def test_where_there_is_no_such_admission_the_guard_can_be_left_out(tmp_path: Path) -> None:
    kinds = [obj["kind"] for obj in tainters(tmp_path, "--without-guard")]

    assert kinds == ["ServiceAccount", "ClusterRole", "ClusterRoleBinding"]
    assert len(tainters(tmp_path)) == len(kinds) + 2


def test_values_for_the_chart_are_those_of_its_tainter(tmp_path: Path) -> None:
    given = ("--policy", "policy.yaml")
    role = tainters(tmp_path, *given)[3]

    (values,) = tainters(tmp_path, *given, "-o", "helm")
    assert values == {"softTainter": {"rules": role["rules"]}}


def test_a_program_gets_the_guard_too(tmp_path: Path) -> None:
    (listed,) = tainters(tmp_path, "-o", "json")

    assert listed["items"] == tainters(tmp_path)


def test_no_cluster_is_read(tmp_path: Path) -> None:
    with ApiServer() as server:
        config = server.kubeconfig(tmp_path / "config")
        resettle("rbac", cwd=tmp_path, env={"KUBECONFIG": str(config)})

        assert server.requests == []


@pytest.mark.parametrize(
    ("words", "says"),
    [
        pytest.param(
            ["--policy", "gone.yaml"],
            "error: there is no file `gone.yaml`; check the path\n",
            id="no policy",
        ),
        pytest.param(
            ["--policy", "bad.yaml"],
            "error: bad.yaml has 1 problem\n",
            id="a policy with a mistake",
        ),
        pytest.param(
            ["--name", "No Name"],
            "error: --name is `No Name`: no object can be called so; use a-z, 0-9 and `-`\n",
            id="no name",
        ),
        pytest.param(
            ["--leader-elect", "--leader-elect-resource-name", ""],
            "error: leader election cannot work so: --leader-elect-resource-name is empty;",
            id="a lease without a name",
        ),
    ],
)
def test_a_usage_error_is_reported_and_nothing_printed(
    words: list[str], says: str, tmp_path: Path
) -> None:
    (tmp_path / "bad.yaml").write_text(HEAD + "profile: []\n")

    done = resettle("rbac", *words, cwd=tmp_path)

    assert (done.code, done.out) == (1, "")
    assert done.err.startswith(says), done.err


# -- the migration controller ----------------------------------------------------------------------


def test_policies_of_the_migration_controller_come_first(tmp_path: Path) -> None:
    done = resettle(
        "rbac", "--component", "migration-controller", "--steering", "Gate", cwd=tmp_path
    )
    objects = list(yaml.safe_load_all(done.out))
    admission = [item["apiVersion"].startswith("admissionregistration") for item in objects]

    assert done.code == 0
    assert admission == sorted(admission, reverse=True)
    assert "MutatingAdmissionPolicy" in {item["kind"] for item in objects}


def test_without_a_guard_there_are_roles_alone(tmp_path: Path) -> None:
    done = resettle("rbac", "--component", "migration-controller", "--without-guard", cwd=tmp_path)

    assert {item["kind"] for item in yaml.safe_load_all(done.out)} == {
        *("ServiceAccount", "ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding")
    }


def test_rules_of_the_migration_controller_as_values_of_the_chart(tmp_path: Path) -> None:
    done = resettle("rbac", "--component", "migration-controller", "-o", "helm", cwd=tmp_path)

    assert list(yaml.safe_load(done.out)) == ["migrationController"]


def test_ways_of_steering_are_those_of_jobs() -> None:
    assert tuple(Steering) == STEERINGS
