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
from tests.e2e.installing.terminal import CHART, Object, Terminal, objects, of_kind

POLICY = "deschedulerPolicy.profiles[0].name=p"
BARE_FLAG = """--set-json 'cmdOptions={"dry-run": null}'"""


def kinds(found: list[Object]) -> set[str]:
    return {it["kind"] for it in found}


def of_the_tainter(it: Object) -> bool:
    """Whether the object is there for the soft tainter alone."""
    return bool(it["metadata"]["labels"]["app.kubernetes.io/name"] == "resettle-soft-tainter")


def told(found: list[Object]) -> Any:
    """The command line of the descheduler's pod, as it is understood."""
    (workload,) = (
        it for it in found if it["kind"] in ("Deployment", "CronJob") and not of_the_tainter(it)
    )
    (container,) = pod_of(workload)["spec"]["containers"]
    return build_parser().parse_args(["run", *container["args"]])


@pytest.mark.parametrize("file", VALUES, ids=lambda it: it.stem)
def test_helm_finds_nothing_wrong(file: Path, terminal: Terminal) -> None:
    assert "0 chart(s) failed" in terminal.does("helm", "lint", "--strict", CHART, "-f", file)


@pytest.mark.parametrize("file", VALUES, ids=lambda it: it.stem)
def test_the_command_line_knows_every_flag(file: Path, terminal: Terminal) -> None:
    assert told(terminal.rendered("-f", file)).policy == "/policy-dir/policy.yaml"


@pytest.mark.parametrize("file", VALUES, ids=lambda it: it.stem)
def test_every_object_carries_the_labels_by_which_it_is_found(
    file: Path, terminal: Terminal
) -> None:
    names = {"resettle", "resettle-soft-tainter"}

    for it in terminal.rendered("-f", file):
        labels = it["metadata"]["labels"]
        assert labels["app.kubernetes.io/instance"] == "resettle", it["kind"]
        assert labels["app.kubernetes.io/name"] in names, it["kind"]


# -- what it may do ------------------------------------------------------------------------------


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
            "--set leaderElection.resourceName=turn",
            "--leader-elect --leader-elect-resource-name turn "
            "--leader-elect-resource-namespace ops",
            id="another lease",
        ),
        pytest.param(
            "--set dryRun=false --set serviceAccount.name=broom --set leaderElection.enabled=false",
            "--service-account broom",
            id="another account",
        ),
    ],
)
def test_the_roles_are_those_that_the_command_prints(
    words: str, same: str, terminal: Terminal
) -> None:
    printed = objects(terminal.does("resettle", "rbac", *shlex.split(same)))
    made = terminal.rendered(*shlex.split(words))

    roles = [_bare(it) for it in made if it["kind"] in kinds(printed)]
    assert sorted(roles, key=str) == sorted(map(_bare, printed), key=str)


def _bare(it: Object) -> Object:
    meta = {key: value for key, value in it["metadata"].items() if key != "labels"}
    return {**it, "metadata": meta}


def test_rules_for_one_policy_replace_those_for_any(terminal: Terminal, tmp_path: Path) -> None:
    policy = KUSTOMIZE / "base" / "policy.yaml"
    rights = tmp_path / "rights.yaml"
    rights.write_text(terminal.does("resettle", "rbac", "--policy", policy, "-o", "helm"))

    made = terminal.rendered("-f", rights, "--set", "dryRun=false")

    printed = objects(terminal.does("resettle", "rbac", "--policy", policy))
    assert of_kind(made, "ClusterRole")["rules"] == of_kind(printed, "ClusterRole")["rules"]


def test_the_one_secret_that_the_policy_names_may_be_read(terminal: Terminal) -> None:
    made = terminal.rendered("-f", values("measured"))
    mapped = of_kind(made, "ConfigMap")["data"]["policy.yaml"]
    printed = objects(terminal.does("resettle", "rbac", "--policy", "-", stdin=mapped))

    (role,) = (
        it for it in made if it["metadata"].get("namespace") == "monitoring" and "rules" in it
    )
    (binding,) = (it for it in made if it["metadata"] == role["metadata"] and it is not role)
    assert [set(rule["resources"]) for rule in role["rules"]] == [{"secrets"}]
    assert role["rules"] == of_kind(printed, "Role")["rules"]
    assert binding["roleRef"]["name"] == role["metadata"]["name"]
    assert binding["subjects"] == of_kind(printed, "RoleBinding")["subjects"]


# -- dry until somebody means it -----------------------------------------------------------------


@pytest.mark.parametrize(
    ("words", "dry"),
    [
        pytest.param("", True, id="nothing said"),
        pytest.param("--set kind=CronJob", True, id="a CronJob, nothing said"),
        pytest.param("--set dryRun=false", False, id="meant"),
        pytest.param(f"--set {POLICY}", False, id="a policy of one's own"),
        pytest.param(f"--set {POLICY} --set dryRun=true", True, id="a policy to look at"),
        pytest.param("--set cmdOptions.dry-run=true", True, id="by flag"),
        pytest.param(f"{BARE_FLAG} --set {POLICY}", True, id="by a bare flag"),
        pytest.param(
            "--set cmdOptions.dry-run=false --set dryRun=true", False, id="a flag to the contrary"
        ),
    ],
)
def test_nothing_is_evicted_until_somebody_means_it(
    words: str, dry: bool, terminal: Terminal
) -> None:
    made = terminal.rendered(*shlex.split(words))

    assert told(made).dry_run is dry
    role = of_kind(made, "ClusterRole")
    granted = {resource for rule in role["rules"] for resource in rule["resources"]}
    assert ("pods/eviction" in granted) is not dry
    assert ("Role" in kinds(made)) is (not dry and "Deployment" in kinds(made))


def test_the_policy_to_begin_with_is_the_one_of_the_chart(terminal: Terminal) -> None:
    mapped = of_kind(terminal.rendered(), "ConfigMap")["data"]["policy.yaml"]

    assert yaml.safe_load(mapped) == yaml.safe_load((CHART / "files" / "policy.yaml").read_text())


def test_a_whole_policy_document_may_be_pasted(terminal: Terminal, tmp_path: Path) -> None:
    document = {"apiVersion": "resettle/v1", "kind": "DeschedulerPolicy", "profiles": []}
    file = tmp_path / "values.yaml"
    file.write_text(yaml.safe_dump({"deschedulerPolicy": document}))

    mapped = of_kind(terminal.rendered("-f", file), "ConfigMap")["data"]["policy.yaml"]

    assert yaml.safe_load(mapped) == document


def test_a_policy_without_a_version_is_one_of_the_descheduler(terminal: Terminal) -> None:
    mapped = of_kind(terminal.rendered("--set", POLICY), "ConfigMap")["data"]["policy.yaml"]

    assert yaml.safe_load(mapped)["apiVersion"] == "descheduler/v1alpha2"


# -- values of the other chart -------------------------------------------------------------------


def test_values_of_the_peer_make_what_the_peer_makes(terminal: Terminal) -> None:
    made = terminal.rendered("-f", values("upstream"))
    given = yaml.safe_load(values("upstream").read_text())

    cron = of_kind(made, "CronJob")["spec"]
    (container,) = cron["jobTemplate"]["spec"]["template"]["spec"]["containers"]
    assert cron["schedule"] == given["schedule"]
    assert cron["concurrencyPolicy"] == "Forbid"
    assert container["command"] == ["/bin/descheduler"]
    assert container["args"] == ["--policy-config-file=/policy-dir/policy.yaml", "--v=3"]
    assert container["resources"] == given["resources"]
    assert container["livenessProbe"] == given["livenessProbe"]
    assert "startingDeadlineSeconds" not in cron
    mapped = yaml.safe_load(of_kind(made, "ConfigMap")["data"]["policy.yaml"])
    assert mapped.pop("apiVersion") == "descheduler/v1alpha2"
    assert mapped == {"kind": "DeschedulerPolicy", **given["deschedulerPolicy"]}


def test_zero_is_a_value(terminal: Terminal) -> None:
    cron = of_kind(terminal.rendered("-f", values("cronjob")), "CronJob")["spec"]

    assert cron["successfulJobsHistoryLimit"] == 0
    assert cron["jobTemplate"]["spec"]["activeDeadlineSeconds"] == 300


def test_a_pod_without_a_lease_goes_before_the_next_one_comes(terminal: Terminal) -> None:
    lone = of_kind(terminal.rendered("-f", values("lone")), "Deployment")

    assert lone["spec"]["strategy"] == {"type": "Recreate"}


# -- mistakes ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("words", "says"),
    [
        pytest.param(
            "--set replicas=2 --set leaderElection.enabled=false",
            "all of them would evict; set leaderElection.enabled",
            id="several that all act",
        ),
        pytest.param(
            "--set podDisruptionBudget.enabled=true",
            "podDisruptionBudget takes one of minAvailable and maxUnavailable",
            id="a budget of nothing",
        ),
        pytest.param("--set kind=DaemonSet", "value must be one of", id="a form that is none"),
        pytest.param("--set dryrun=true", "'dryrun' not allowed", id="a misspelt name"),
    ],
)
def test_values_that_cannot_be_meant_are_refused(words: str, says: str, terminal: Terminal) -> None:
    done = terminal.tries("helm", "template", "resettle", CHART, *shlex.split(words))

    assert done.code == 1
    assert says in done.err
