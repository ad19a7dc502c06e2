"""The soft tainter of the Helm chart, rendered by Helm: its rights, its guard, its policy."""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import Any

import pytest
import yaml

from resettle.cli.commands.soft_tainter import PORT, taint_settings
from resettle.cli.main import build_parser
from resettle.controllers.soft_taints.reconcile import Mode
from resettle.controllers.soft_taints.runner import TaintSettings
from tests.deploy.manifests import DEPLOY, documents, pod_of
from tests.deploy.values import values
from tests.e2e.installing.terminal import CHART, Object, Terminal, objects, of_kind
from tests.e2e.test_chart import of_the_tainter

NAME = "resettle-soft-tainter"
ON = ("--set", "softTainter.enabled=true")
LEASE = "--leader-elect --leader-elect-resource-namespace resettle"


def rendered(terminal: Terminal, *words: str | Path) -> list[Object]:
    """What the chart makes for the soft tainter alone."""
    return [it for it in terminal.rendered(*ON, *words) if of_the_tainter(it)]


def container(found: list[Object]) -> Object:
    (only,) = pod_of(of_kind(found, "Deployment"))["spec"]["containers"]
    given: Object = only
    return given


def told(found: list[Object]) -> TaintSettings:
    """The command line of its pod, as it is understood."""
    words = [*container(found)["command"][1:], *container(found)["args"]]
    return taint_settings(build_parser().parse_args(words))


def policy_of(found: list[Object]) -> Object:
    """The policy that its pod is given, which is the one of the descheduler."""
    volumes = pod_of(of_kind(_own(found), "Deployment"))["spec"]["volumes"]
    (volume,) = (it for it in volumes if "configMap" in it)
    mapped = of_kind(found, "ConfigMap")
    assert volume["configMap"]["name"] == mapped["metadata"]["name"]
    document: Object = yaml.safe_load(mapped["data"]["policy.yaml"])
    return document


def _own(found: list[Object]) -> list[Object]:
    return [it for it in found if of_the_tainter(it)]


def _bare(it: Object) -> Object:
    meta = {key: value for key, value in it["metadata"].items() if key != "labels"}
    return {**it, "metadata": meta}


def test_unless_it_is_asked_for_nothing_of_it_is_there(terminal: Terminal) -> None:
    assert [it for it in terminal.rendered() if of_the_tainter(it)] == []


# -- rights and guard ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("words", "same"),
    [
        pytest.param("", LEASE, id="as it is"),
        pytest.param("--set kind=CronJob --set dryRun=false", LEASE, id="beside a CronJob"),
        pytest.param("--set softTainter.dryRun=true", LEASE, id="a dry run removes taints"),
        pytest.param("--set softTainter.guard=false", f"{LEASE} --without-guard", id="no guard"),
        pytest.param(
            "--set softTainter.cmdOptions.protect-metrics=true",
            f"{LEASE} --protect-metrics",
            id="protected metrics",
        ),
        pytest.param(
            "--set fullnameOverride=tidy --set namespaceOverride=home",
            "--name tidy-soft-tainter --namespace home --leader-elect "
            "--leader-elect-resource-name tidy-soft-tainter "
            "--leader-elect-resource-namespace home",
            id="other names",
        ),
    ],
)
def test_rights_and_guard_are_those_that_the_command_prints(
    words: str, same: str, terminal: Terminal
) -> None:
    component = ("--component", "soft-tainter")
    printed = objects(terminal.does("resettle", "rbac", *component, *shlex.split(same)))
    made = rendered(terminal, *shlex.split(words))

    kinds = {it["kind"] for it in printed} | {"ValidatingAdmissionPolicy"}
    granted = [_bare(it) for it in made if it["kind"] in kinds]
    assert sorted(granted, key=str) == sorted(map(_bare, printed), key=str)


def test_rights_and_guard_for_one_policy_are_those_that_it_takes(
    terminal: Terminal, tmp_path: Path
) -> None:
    """The policy is the one that the chart makes, prefix and all."""
    prefix = ("--set", "softTainter.prefix=example.com")
    file, rights = tmp_path / "policy.yaml", tmp_path / "rights.yaml"
    mapped = of_kind(terminal.rendered(*ON, *prefix), "ConfigMap")["data"]["policy.yaml"]
    file.write_text(mapped)
    asked = ("resettle", "rbac", "--component", "soft-tainter", "--policy", file)
    rights.write_text(terminal.does(*asked, "-o", "helm"))
    printed = objects(terminal.does(*asked, *shlex.split(LEASE)))

    made = rendered(terminal, *prefix, "-f", rights)

    kinds = {it["kind"] for it in printed}
    granted = [_bare(it) for it in made if it["kind"] in kinds]
    assert sorted(granted, key=str) == sorted(map(_bare, printed), key=str)
    assert "'example.com'" in str(of_kind(made, "ValidatingAdmissionPolicy"))


def test_the_guard_is_about_the_account_of_the_pod(terminal: Terminal) -> None:
    made = rendered(terminal, "--set", "fullnameOverride=tidy", "--set", "namespaceOverride=home")
    spec = pod_of(of_kind(made, "Deployment"))["spec"]
    (condition,) = of_kind(made, "ValidatingAdmissionPolicy")["spec"]["matchConditions"]

    user = f"system:serviceaccount:home:{spec['serviceAccountName']}"
    assert condition["expression"] == f"request.userInfo.username == '{user}'"
    assert of_kind(made, "ServiceAccount")["metadata"]["name"] == spec["serviceAccountName"]


def test_the_token_for_prometheus_is_for_both_accounts(terminal: Terminal) -> None:
    made = terminal.rendered("-f", values("soft-tainter"))
    there = [it for it in made if it["metadata"].get("namespace") == "monitoring"]

    (role,) = (it for it in there if it["kind"] == "Role")
    bindings = [it for it in there if it["kind"] == "RoleBinding"]
    assert {it["roleRef"]["name"] for it in bindings} == {role["metadata"]["name"]}
    accounts = {subject["name"] for it in bindings for subject in it["subjects"]}
    assert accounts == {"resettle", NAME}


# -- the pod -------------------------------------------------------------------------------------


def test_the_command_line_holds_a_lease_that_is_granted(terminal: Terminal) -> None:
    made = rendered(terminal)
    lease = told(made).lease
    role = of_kind(made, "Role")

    assert lease is not None
    assert role["rules"][1]["resourceNames"] == [lease.name]
    assert role["metadata"]["namespace"] == lease.namespace


def test_what_is_said_of_it_is_done(terminal: Terminal) -> None:
    made = _own(terminal.rendered("-f", values("soft-tainter")))
    only = container(made)

    assert of_kind(made, "Deployment")["spec"]["replicas"] == 2
    assert told(made).interval == 30
    assert only["resources"]["requests"] == {"cpu": "20m", "memory": "48Mi"}
    assert {"--v=1", "--protect-metrics=true"} <= set(only["args"])
    spec = pod_of(of_kind(made, "Deployment"))["spec"]
    assert spec["nodeSelector"] == {"kubernetes.io/os": "linux"}
    assert {it["name"] for it in spec["volumes"]} == {"policy", "more"}


def test_it_is_as_harmless_as_the_one_of_the_other_manifests(terminal: Terminal) -> None:
    (theirs,) = documents(DEPLOY / "soft-tainter" / "deployment.yaml")
    spec = pod_of(theirs)["spec"]
    made = pod_of(of_kind(rendered(terminal), "Deployment"))["spec"]

    assert made["securityContext"] == spec["securityContext"]
    for part in ("securityContext", "resources", "command"):
        assert made["containers"][0][part] == spec["containers"][0][part]
    for probe in ("livenessProbe", "readinessProbe"):
        wanted = {**spec["containers"][0][probe]}
        wanted["httpGet"] = {**wanted["httpGet"], "port": PORT}
        assert made["containers"][0][probe] == wanted


def test_neither_counts_the_pods_of_the_other(terminal: Terminal) -> None:
    made = terminal.rendered(*ON, "--set", "service.enabled=true")
    selectors = {
        of_the_tainter(it): it["spec"]["selector"]["matchLabels"]
        for it in made
        if it["kind"] == "Deployment"
    }
    for it in made:
        if it["kind"] == "Deployment":
            labels = pod_of(it)["metadata"]["labels"].items()
            assert selectors[of_the_tainter(it)].items() <= labels
            assert not selectors[not of_the_tainter(it)].items() <= labels
        if it["kind"] == "Service":
            assert it["spec"]["selector"] == selectors[of_the_tainter(it)]


def test_prometheus_is_told_of_it_as_of_a_job_of_its_own(terminal: Terminal) -> None:
    made = _own(terminal.rendered("-f", values("soft-tainter")))
    monitor, service = of_kind(made, "ServiceMonitor"), of_kind(made, "Service")

    labels = service["metadata"]["labels"]
    assert monitor["spec"]["selector"]["matchLabels"].items() <= labels.items()
    assert labels[monitor["spec"]["jobLabel"]] == NAME
    (port,) = service["spec"]["ports"]
    assert (port["name"], port["port"]) == (monitor["spec"]["endpoints"][0]["port"], PORT)


# -- dry until somebody means it, and cleaning up ------------------------------------------------


@pytest.mark.parametrize(
    ("words", "mode"),
    [
        pytest.param("", Mode.DRY_RUN, id="nothing said"),
        pytest.param("--set dryRun=false", Mode.TAINT, id="the release is meant"),
        pytest.param("--set softTainter.dryRun=false", Mode.TAINT, id="it is meant by itself"),
        pytest.param(
            "--set dryRun=false --set softTainter.dryRun=true", Mode.DRY_RUN, id="to look at"
        ),
        pytest.param("--set softTainter.removeOnly=true", Mode.REMOVE_ONLY, id="to be cleaned up"),
        pytest.param(
            "--set dryRun=false --set softTainter.removeOnly=true",
            Mode.REMOVE_ONLY,
            id="to be cleaned up, live",
        ),
    ],
)
def test_nothing_is_tainted_until_somebody_means_it(
    words: str, mode: Mode, terminal: Terminal
) -> None:
    assert told(rendered(terminal, *shlex.split(words))).mode is mode


# -- the prefix ----------------------------------------------------------------------------------


def test_a_prefix_goes_into_the_policy_and_into_the_guard(terminal: Terminal) -> None:
    for words in (["--set", "softTainter.prefix=example.com"], ["-f", values("soft-tainter")]):
        made = terminal.rendered(*ON, *words)
        assert policy_of(made)["softTaints"]["prefix"] == "example.com"
        assert _prefixes(made)[0] == "example.com"
    assert policy_of(made)["softTaints"]["levels"] == 3, "what the policy says of marks stays"


def test_a_prefix_of_the_policy_is_known_to_the_guard(terminal: Terminal, tmp_path: Path) -> None:
    file = tmp_path / "values.yaml"
    marks = {"prefix": "example.org"}
    document = {"apiVersion": "resettle/v1", "profiles": [], "softTaints": marks}
    file.write_text(yaml.safe_dump({"deschedulerPolicy": document}))

    made = terminal.rendered(*ON, "-f", file)

    assert policy_of(made)["softTaints"] == marks
    assert _prefixes(made)[0] == "example.org"


def _prefixes(made: list[Object]) -> list[str]:
    spec = of_kind(made, "ValidatingAdmissionPolicy")["spec"]
    (found,) = (it["expression"] for it in spec["variables"] if it["name"] == "prefixes")
    return re.findall(r"'([^']+)'", found)


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
            id="a policy that has no word for it",
        ),
        pytest.param("--set softTainter.prefix=a/b", "softTainter/prefix", id="no domain"),
        pytest.param("--set softTainter.every=1m", "'every' not allowed", id="a misspelt name"),
        pytest.param("--set softTainter.interval=often", "softTainter/interval", id="no time"),
        pytest.param(
            "--kube-version 1.29.0",
            "the admission policy of the soft tainter needs Kubernetes 1.30",
            id="a cluster that has no such admission",
        ),
    ],
)
def test_what_cannot_be_meant_is_refused(words: str, says: str, terminal: Terminal) -> None:
    done = terminal.tries("helm", "template", "resettle", CHART, *ON, *shlex.split(words))

    assert done.code == 1
    assert says in done.err, done.err


def test_a_long_name_still_makes_names_that_are_allowed(terminal: Terminal) -> None:
    made: Any = rendered(
        terminal, "--set", f"fullnameOverride={'x' * 60}", "--set", "service.enabled=true"
    )

    assert len(of_kind(made, "Service")["metadata"]["name"]) == 63
