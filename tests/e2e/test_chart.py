"""The Helm chart, linted and rendered by Helm with many values."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Any

import pytest
import yaml

from resettle.cli.main import build_parser
from tests.deploy.manifests import KUSTOMIZE, pod_of
from tests.deploy.values import VALUES, values
from tests.e2e.installing.terminal import CHART, Object, Terminal, object_of_kind, parse_manifest

POLICY = "deschedulerPolicy.profiles[0].name=p"
BARE_FLAG = """--set-json 'cmdOptions={"dry-run": null}'"""


def kinds_of(rendered: list[Object]) -> set[str]:
    return {obj["kind"] for obj in rendered}


def is_of_tainter(obj: Object) -> bool:
    """Whether the object is one of the soft tainter."""
    return bool(obj["metadata"]["labels"]["app.kubernetes.io/name"] == "resettle-soft-tainter")


def parse_command_line(rendered: list[Object]) -> Any:
    """The parsed command line of the pod of the descheduler."""
    (workload,) = (
        obj
        for obj in rendered
        if obj["kind"] in ("Deployment", "CronJob")
        and obj["metadata"]["labels"]["app.kubernetes.io/name"] == "resettle"
    )
    (container,) = pod_of(workload)["spec"]["containers"]
    return build_parser().parse_args(["run", *container["args"]])


@pytest.mark.parametrize("file", VALUES, ids=lambda file: file.stem)
def test_helm_lint_finds_no_problem(file: Path, terminal: Terminal) -> None:
    assert "0 chart(s) failed" in terminal.output_of("helm", "lint", "--strict", CHART, "-f", file)


@pytest.mark.parametrize("file", VALUES, ids=lambda file: file.stem)
def test_the_command_line_knows_every_flag(file: Path, terminal: Terminal) -> None:
    assert parse_command_line(terminal.render_chart("-f", file)).policy == "/policy-dir/policy.yaml"


@pytest.mark.parametrize("file", VALUES, ids=lambda file: file.stem)
def test_every_object_has_the_labels_of_the_release(file: Path, terminal: Terminal) -> None:
    names = {"resettle", "resettle-soft-tainter", "resettle-migration-controller"}

    for obj in terminal.render_chart("-f", file):
        labels = obj["metadata"]["labels"]
        assert labels["app.kubernetes.io/instance"] == "resettle", obj["kind"]
        assert labels["app.kubernetes.io/name"] in names, obj["kind"]


# -- permissions ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("words", "same"),
    [
        pytest.param("--set dryRun=true", "--dry-run", id="a dry run"),
        pytest.param(
            "--set dryRun=false",
            "--leader-elect --leader-elect-resource-name resettle "
            "--leader-elect-resource-namespace resettle",
            id="a Deployment",
        ),
        pytest.param("--set dryRun=false --set kind=CronJob", "", id="a CronJob"),
        pytest.param(
            "--set dryRun=true --set cmdOptions.protect-metrics=true",
            "--dry-run --protect-metrics",
            id="protected metrics",
        ),
        pytest.param(
            "--set dryRun=false --set leaderElection.resourceNamespace=ops "
            "--set leaderElection.resourceName=other",
            "--leader-elect --leader-elect-resource-name other "
            "--leader-elect-resource-namespace ops",
            id="another lease",
        ),
        pytest.param(
            "--set dryRun=false --set serviceAccount.name=other --set leaderElection.enabled=false",
            "--service-account other",
            id="another account",
        ),
    ],
)
def test_the_roles_are_those_that_the_command_prints(
    words: str, same: str, terminal: Terminal
) -> None:
    printed = parse_manifest(terminal.output_of("resettle", "rbac", *shlex.split(same)))
    rendered = terminal.render_chart(*shlex.split(words))

    roles = [_without_labels(obj) for obj in rendered if obj["kind"] in kinds_of(printed)]
    assert sorted(roles, key=str) == sorted(map(_without_labels, printed), key=str)


def _without_labels(obj: Object) -> Object:
    meta = {key: value for key, value in obj["metadata"].items() if key != "labels"}
    return {**obj, "metadata": meta}


def test_rules_for_one_policy_replace_the_default_rules(terminal: Terminal, tmp_path: Path) -> None:
    policy = KUSTOMIZE / "base" / "policy.yaml"
    permissions = tmp_path / "permissions.yaml"
    permissions.write_text(terminal.output_of("resettle", "rbac", "--policy", policy, "-o", "helm"))

    rendered = terminal.render_chart("-f", permissions, "--set", "dryRun=false")

    printed = parse_manifest(terminal.output_of("resettle", "rbac", "--policy", policy))
    assert (
        object_of_kind(rendered, "ClusterRole")["rules"]
        == object_of_kind(printed, "ClusterRole")["rules"]
    )


def test_the_one_secret_that_the_policy_names_may_be_read(terminal: Terminal) -> None:
    rendered = terminal.render_chart("-f", values("measured"))
    policy_text = object_of_kind(rendered, "ConfigMap")["data"]["policy.yaml"]
    printed = parse_manifest(
        terminal.output_of("resettle", "rbac", "--policy", "-", stdin=policy_text)
    )

    (role,) = (
        obj
        for obj in rendered
        if obj["metadata"].get("namespace") == "monitoring" and "rules" in obj
    )
    (binding,) = (
        obj for obj in rendered if obj["metadata"] == role["metadata"] and obj is not role
    )
    assert [set(rule["resources"]) for rule in role["rules"]] == [{"secrets"}]
    assert role["rules"] == object_of_kind(printed, "Role")["rules"]
    assert binding["roleRef"]["name"] == role["metadata"]["name"]
    assert binding["subjects"] == object_of_kind(printed, "RoleBinding")["subjects"]


# -- a dry run by default ------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("words", "dry"),
    [
        pytest.param("", True, id="no values"),
        pytest.param("--set kind=CronJob", True, id="a CronJob, no values"),
        pytest.param("--set dryRun=false", False, id="switched off"),
        pytest.param(f"--set {POLICY}", False, id="an own policy"),
        pytest.param(f"--set {POLICY} --set dryRun=true", True, id="an own policy, dry"),
        pytest.param("--set cmdOptions.dry-run=true", True, id="by flag"),
        pytest.param(f"{BARE_FLAG} --set {POLICY}", True, id="by a bare flag"),
        pytest.param(
            "--set cmdOptions.dry-run=false --set dryRun=true", False, id="a flag that contradicts"
        ),
    ],
)
def test_nothing_is_evicted_by_default(words: str, dry: bool, terminal: Terminal) -> None:
    rendered = terminal.render_chart(*shlex.split(words))

    assert parse_command_line(rendered).dry_run is dry
    role = object_of_kind(rendered, "ClusterRole")
    granted = {resource for rule in role["rules"] for resource in rule["resources"]}
    assert ("pods/eviction" in granted) is not dry
    assert ("Role" in kinds_of(rendered)) is (not dry and "Deployment" in kinds_of(rendered))


def test_the_default_policy_is_the_one_of_the_chart(terminal: Terminal) -> None:
    policy_text = object_of_kind(terminal.render_chart(), "ConfigMap")["data"]["policy.yaml"]

    assert yaml.safe_load(policy_text) == yaml.safe_load(
        (CHART / "files" / "policy.yaml").read_text()
    )


def test_a_whole_policy_document_may_be_pasted(terminal: Terminal, tmp_path: Path) -> None:
    document = {"apiVersion": "resettle/v1", "kind": "DeschedulerPolicy", "profiles": []}
    file = tmp_path / "values.yaml"
    file.write_text(yaml.safe_dump({"deschedulerPolicy": document}))

    policy_text = object_of_kind(terminal.render_chart("-f", file), "ConfigMap")["data"][
        "policy.yaml"
    ]

    assert yaml.safe_load(policy_text) == document


def test_a_policy_without_a_version_is_one_of_upstream(terminal: Terminal) -> None:
    policy_text = object_of_kind(terminal.render_chart("--set", POLICY), "ConfigMap")["data"][
        "policy.yaml"
    ]

    assert yaml.safe_load(policy_text)["apiVersion"] == "descheduler/v1alpha2"


# -- values of the chart of upstream -------------------------------------------------------------


def test_values_of_upstream_render_what_upstream_renders(terminal: Terminal) -> None:
    rendered = terminal.render_chart("-f", values("upstream"))
    given = yaml.safe_load(values("upstream").read_text())

    cron = object_of_kind(rendered, "CronJob")["spec"]
    (container,) = cron["jobTemplate"]["spec"]["template"]["spec"]["containers"]
    assert cron["schedule"] == given["schedule"]
    assert cron["concurrencyPolicy"] == "Forbid"
    assert container["command"] == ["/bin/descheduler"]
    assert container["args"] == ["--policy-config-file=/policy-dir/policy.yaml", "--v=3"]
    assert container["resources"] == given["resources"]
    assert container["livenessProbe"] == given["livenessProbe"]
    assert "startingDeadlineSeconds" not in cron
    document = yaml.safe_load(object_of_kind(rendered, "ConfigMap")["data"]["policy.yaml"])
    assert document.pop("apiVersion") == "descheduler/v1alpha2"
    assert document == {"kind": "DeschedulerPolicy", **given["deschedulerPolicy"]}


def test_zero_is_a_value(terminal: Terminal) -> None:
    cron = object_of_kind(terminal.render_chart("-f", values("cronjob")), "CronJob")["spec"]

    assert cron["successfulJobsHistoryLimit"] == 0
    assert cron["jobTemplate"]["spec"]["activeDeadlineSeconds"] == 300


def test_a_pod_without_a_lease_is_deleted_before_the_next_is_created(terminal: Terminal) -> None:
    lone = object_of_kind(terminal.render_chart("-f", values("lone")), "Deployment")

    assert lone["spec"]["strategy"] == {"type": "Recreate"}


# -- mistakes ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("words", "says"),
    [
        pytest.param(
            "--set replicas=2 --set leaderElection.enabled=false",
            "all of them would evict; set leaderElection.enabled",
            id="several replicas without a lease",
        ),
        pytest.param(
            "--set podDisruptionBudget.enabled=true",
            "podDisruptionBudget takes one of minAvailable and maxUnavailable",
            id="an empty budget",
        ),
        pytest.param("--set kind=DaemonSet", "value must be one of", id="an unknown kind"),
        pytest.param("--set dryrun=true", "'dryrun' not allowed", id="a misspelt name"),
    ],
)
def test_invalid_values_are_refused(words: str, says: str, terminal: Terminal) -> None:
    done = terminal.run("helm", "template", "resettle", CHART, *shlex.split(words))

    assert done.code == 1
    assert says in done.err
