"""The soft tainter of the Helm chart, rendered by Helm: permissions, admission policy, policy."""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import Any

import pytest
import yaml

from resettle.cli.commands.controllers.soft_tainter import PORT, taint_settings
from resettle.cli.main import build_parser
from resettle.controllers.soft_taints.reconcile import Mode
from resettle.controllers.soft_taints.runner import TaintSettings
from tests.deploy.manifests import DEPLOY, documents, pod_of
from tests.deploy.values import values
from tests.e2e.installing.terminal import CHART, Object, Terminal, object_of_kind, parse_manifest
from tests.e2e.test_chart import is_of_tainter

NAME = "resettle-soft-tainter"
ON = ("--set", "softTainter.enabled=true")
LEASE = "--leader-elect --leader-elect-resource-namespace resettle"


def render_tainter(terminal: Terminal, *words: str | Path) -> list[Object]:
    """Renders the chart; returns the objects of the soft tainter."""
    return [obj for obj in terminal.render_chart(*ON, *words) if is_of_tainter(obj)]


def container_of(rendered: list[Object]) -> Object:
    (only,) = pod_of(object_of_kind(rendered, "Deployment"))["spec"]["containers"]
    given: Object = only
    return given


def parse_command_line(rendered: list[Object]) -> TaintSettings:
    """The parsed command line of the pod of the soft tainter."""
    words = [*container_of(rendered)["command"][1:], *container_of(rendered)["args"]]
    return taint_settings(build_parser().parse_args(words))


def policy_of(rendered: list[Object]) -> Object:
    """The policy that is mounted into the pod, which is that of the descheduler."""
    volumes = pod_of(object_of_kind(_objects_of_tainter(rendered), "Deployment"))["spec"]["volumes"]
    (volume,) = (volume for volume in volumes if "configMap" in volume)
    config_map = object_of_kind(rendered, "ConfigMap")
    assert volume["configMap"]["name"] == config_map["metadata"]["name"]
    document: Object = yaml.safe_load(config_map["data"]["policy.yaml"])
    return document


def _objects_of_tainter(rendered: list[Object]) -> list[Object]:
    return [obj for obj in rendered if is_of_tainter(obj)]


def _without_labels(obj: Object) -> Object:
    meta = {key: value for key, value in obj["metadata"].items() if key != "labels"}
    return {**obj, "metadata": meta}


def test_by_default_the_soft_tainter_is_not_installed(terminal: Terminal) -> None:
    assert [obj for obj in terminal.render_chart() if is_of_tainter(obj)] == []


# -- permissions and admission policy ------------------------------------------------------------


@pytest.mark.parametrize(
    ("words", "same"),
    [
        pytest.param("", LEASE, id="by default"),
        pytest.param("--set kind=CronJob --set dryRun=false", LEASE, id="beside a CronJob"),
        pytest.param("--set softTainter.dryRun=true", LEASE, id="a dry run, which removes taints"),
        pytest.param(
            "--set softTainter.guard=false", f"{LEASE} --without-guard", id="no admission policy"
        ),
        pytest.param(
            "--set softTainter.cmdOptions.protect-metrics=true",
            f"{LEASE} --protect-metrics",
            id="protected metrics",
        ),
        pytest.param(
            "--set fullnameOverride=other --set namespaceOverride=ops",
            "--name other-soft-tainter --namespace ops --leader-elect "
            "--leader-elect-resource-name other-soft-tainter "
            "--leader-elect-resource-namespace ops",
            id="other names",
        ),
    ],
)
def test_permissions_and_admission_policy_are_those_that_the_command_prints(
    words: str, same: str, terminal: Terminal
) -> None:
    component = ("--component", "soft-tainter")
    printed = parse_manifest(terminal.output_of("resettle", "rbac", *component, *shlex.split(same)))
    rendered = render_tainter(terminal, *shlex.split(words))

    kinds = {obj["kind"] for obj in printed} | {"ValidatingAdmissionPolicy"}
    granted = [_without_labels(obj) for obj in rendered if obj["kind"] in kinds]
    assert sorted(granted, key=str) == sorted(map(_without_labels, printed), key=str)


def test_permissions_and_admission_policy_for_one_policy_are_those_it_needs(
    terminal: Terminal, tmp_path: Path
) -> None:
    """The policy is the one that the chart renders, with the prefix."""
    prefix = ("--set", "softTainter.prefix=example.com")
    file, permissions = tmp_path / "policy.yaml", tmp_path / "permissions.yaml"
    policy_text = object_of_kind(terminal.render_chart(*ON, *prefix), "ConfigMap")["data"][
        "policy.yaml"
    ]
    file.write_text(policy_text)
    command = ("resettle", "rbac", "--component", "soft-tainter", "--policy", file)
    permissions.write_text(terminal.output_of(*command, "-o", "helm"))
    printed = parse_manifest(terminal.output_of(*command, *shlex.split(LEASE)))

    rendered = render_tainter(terminal, *prefix, "-f", permissions)

    kinds = {obj["kind"] for obj in printed}
    granted = [_without_labels(obj) for obj in rendered if obj["kind"] in kinds]
    assert sorted(granted, key=str) == sorted(map(_without_labels, printed), key=str)
    assert "'example.com'" in str(object_of_kind(rendered, "ValidatingAdmissionPolicy"))


def test_the_admission_policy_applies_to_the_account_of_the_pod(terminal: Terminal) -> None:
    rendered = render_tainter(
        terminal, "--set", "fullnameOverride=other", "--set", "namespaceOverride=ops"
    )
    spec = pod_of(object_of_kind(rendered, "Deployment"))["spec"]
    (condition,) = object_of_kind(rendered, "ValidatingAdmissionPolicy")["spec"]["matchConditions"]

    user = f"system:serviceaccount:ops:{spec['serviceAccountName']}"
    assert condition["expression"] == f"request.userInfo.username == '{user}'"
    assert (
        object_of_kind(rendered, "ServiceAccount")["metadata"]["name"] == spec["serviceAccountName"]
    )


def test_the_token_for_prometheus_is_for_both_accounts(terminal: Terminal) -> None:
    rendered = terminal.render_chart("-f", values("soft-tainter"))
    in_monitoring = [obj for obj in rendered if obj["metadata"].get("namespace") == "monitoring"]

    (role,) = (obj for obj in in_monitoring if obj["kind"] == "Role")
    bindings = [obj for obj in in_monitoring if obj["kind"] == "RoleBinding"]
    assert {binding["roleRef"]["name"] for binding in bindings} == {role["metadata"]["name"]}
    accounts = {subject["name"] for binding in bindings for subject in binding["subjects"]}
    assert accounts == {"resettle", NAME}


# -- the pod -------------------------------------------------------------------------------------


def test_the_lease_of_the_command_line_is_granted(terminal: Terminal) -> None:
    rendered = render_tainter(terminal)
    lease = parse_command_line(rendered).lease
    role = object_of_kind(rendered, "Role")

    assert lease is not None
    assert role["rules"][1]["resourceNames"] == [lease.name]
    assert role["metadata"]["namespace"] == lease.namespace


def test_values_of_the_soft_tainter_are_used(terminal: Terminal) -> None:
    rendered = _objects_of_tainter(terminal.render_chart("-f", values("soft-tainter")))
    only = container_of(rendered)

    assert object_of_kind(rendered, "Deployment")["spec"]["replicas"] == 2
    assert parse_command_line(rendered).interval == 30
    assert only["resources"]["requests"] == {"cpu": "20m", "memory": "48Mi"}
    assert {"--v=1", "--protect-metrics=true"} <= set(only["args"])
    spec = pod_of(object_of_kind(rendered, "Deployment"))["spec"]
    assert spec["nodeSelector"] == {"kubernetes.io/os": "linux"}
    assert {volume["name"] for volume in spec["volumes"]} == {"policy", "more"}


def test_its_pod_is_as_restricted_as_that_of_the_kustomize_manifests(terminal: Terminal) -> None:
    (deployment,) = documents(DEPLOY / "soft-tainter" / "deployment.yaml")
    spec = pod_of(deployment)["spec"]
    rendered_spec = pod_of(object_of_kind(render_tainter(terminal), "Deployment"))["spec"]

    assert rendered_spec["securityContext"] == spec["securityContext"]
    for part in ("securityContext", "resources", "command"):
        assert rendered_spec["containers"][0][part] == spec["containers"][0][part]
    for probe in ("livenessProbe", "readinessProbe"):
        wanted = {**spec["containers"][0][probe]}
        wanted["httpGet"] = {**wanted["httpGet"], "port": PORT}
        assert rendered_spec["containers"][0][probe] == wanted


def test_selectors_do_not_match_pods_of_the_other_deployment(terminal: Terminal) -> None:
    rendered = terminal.render_chart(*ON, "--set", "service.enabled=true")
    selectors = {
        is_of_tainter(obj): obj["spec"]["selector"]["matchLabels"]
        for obj in rendered
        if obj["kind"] == "Deployment"
    }
    for obj in rendered:
        if obj["kind"] == "Deployment":
            labels = pod_of(obj)["metadata"]["labels"].items()
            assert selectors[is_of_tainter(obj)].items() <= labels
            assert not selectors[not is_of_tainter(obj)].items() <= labels
        if obj["kind"] == "Service":
            assert obj["spec"]["selector"] == selectors[is_of_tainter(obj)]


def test_prometheus_scrapes_it_as_a_separate_job(terminal: Terminal) -> None:
    rendered = _objects_of_tainter(terminal.render_chart("-f", values("soft-tainter")))
    monitor, service = (
        object_of_kind(rendered, "ServiceMonitor"),
        object_of_kind(rendered, "Service"),
    )

    labels = service["metadata"]["labels"]
    assert monitor["spec"]["selector"]["matchLabels"].items() <= labels.items()
    assert labels[monitor["spec"]["jobLabel"]] == NAME
    (port,) = service["spec"]["ports"]
    assert (port["name"], port["port"]) == (monitor["spec"]["endpoints"][0]["port"], PORT)


# -- a dry run by default, and clean-up ----------------------------------------------------------


@pytest.mark.parametrize(
    ("words", "mode"),
    [
        pytest.param("", Mode.DRY_RUN, id="no values"),
        pytest.param("--set dryRun=false", Mode.TAINT, id="switched off for the release"),
        pytest.param(
            "--set softTainter.dryRun=false", Mode.TAINT, id="switched off for the tainter"
        ),
        pytest.param(
            "--set dryRun=false --set softTainter.dryRun=true",
            Mode.DRY_RUN,
            id="on for the tainter",
        ),
        pytest.param("--set softTainter.removeOnly=true", Mode.REMOVE_ONLY, id="remove only"),
        pytest.param(
            "--set dryRun=false --set softTainter.removeOnly=true",
            Mode.REMOVE_ONLY,
            id="remove only, not dry",
        ),
    ],
)
def test_nothing_is_tainted_by_default(words: str, mode: Mode, terminal: Terminal) -> None:
    assert parse_command_line(render_tainter(terminal, *shlex.split(words))).mode is mode


# -- the prefix ----------------------------------------------------------------------------------


def test_a_prefix_goes_into_the_policy_and_into_the_admission_policy(terminal: Terminal) -> None:
    for words in (["--set", "softTainter.prefix=example.com"], ["-f", values("soft-tainter")]):
        rendered = terminal.render_chart(*ON, *words)
        assert policy_of(rendered)["softTaints"]["prefix"] == "example.com"
        assert _prefixes(rendered)[0] == "example.com"
    assert policy_of(rendered)["softTaints"]["levels"] == 3, "other settings of the policy stay"


def test_a_prefix_of_the_policy_is_allowed_by_the_admission_policy(
    terminal: Terminal, tmp_path: Path
) -> None:
    file = tmp_path / "values.yaml"
    soft_taints = {"prefix": "example.org"}
    document = {"apiVersion": "resettle/v1", "profiles": [], "softTaints": soft_taints}
    file.write_text(yaml.safe_dump({"deschedulerPolicy": document}))

    rendered = terminal.render_chart(*ON, "-f", file)

    assert policy_of(rendered)["softTaints"] == soft_taints
    assert _prefixes(rendered)[0] == "example.org"


def _prefixes(rendered: list[Object]) -> list[str]:
    spec = object_of_kind(rendered, "ValidatingAdmissionPolicy")["spec"]
    (expression,) = (
        variable["expression"] for variable in spec["variables"] if variable["name"] == "prefixes"
    )
    return re.findall(r"'([^']+)'", expression)


@pytest.mark.parametrize(
    ("words", "says"),
    [
        pytest.param(
            "--set softTainter.prefix=a.b --set deschedulerPolicy.softTaints.prefix=c.d "
            "--set deschedulerPolicyAPIVersion=resettle/v1",
            "softTainter.prefix is a.b and softTaints.prefix of the policy is c.d",
            id="two prefixes",
        ),
        pytest.param(
            "--set softTainter.prefix=a.b --set deschedulerPolicy.profiles[0].name=p",
            "softTainter.prefix takes a policy of resettle/v1",
            id="a policy version without prefixes",
        ),
        pytest.param("--set softTainter.prefix=a/b", "softTainter/prefix", id="no domain"),
        pytest.param("--set softTainter.every=1m", "'every' not allowed", id="a misspelt name"),
        pytest.param("--set softTainter.interval=often", "softTainter/interval", id="no time"),
        pytest.param(
            "--kube-version 1.29.0",
            "the admission policy of the soft tainter needs Kubernetes 1.30",
            id="a cluster without ValidatingAdmissionPolicy",
        ),
    ],
)
def test_invalid_values_are_refused(words: str, says: str, terminal: Terminal) -> None:
    done = terminal.run("helm", "template", "resettle", CHART, *ON, *shlex.split(words))

    assert done.code == 1
    assert says in done.err, done.err


def test_names_of_a_long_release_are_shortened_to_valid_ones(terminal: Terminal) -> None:
    rendered: Any = render_tainter(
        terminal, "--set", f"fullnameOverride={'x' * 60}", "--set", "service.enabled=true"
    )

    assert len(object_of_kind(rendered, "Service")["metadata"]["name"]) == 63
