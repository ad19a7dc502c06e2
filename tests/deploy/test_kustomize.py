"""What `deploy/kustomize` ships: harmless pods, roles as they are printed, flags that exist."""

from __future__ import annotations

from copy import deepcopy

import pytest

from resettle import __version__
from resettle.cli.main import build_parser
from resettle.framework import default_registry, load_policy
from tools.shipped_roles import SHIPPED, SHIPPED_CRDS, printed

from .manifests import DEPLOY, KUSTOMIZE, WORKLOADS, Object, documents, pod_of

each_workload = pytest.mark.parametrize("workload", WORKLOADS.values(), ids=WORKLOADS)


@pytest.mark.parametrize(("file", "words"), SHIPPED.items(), ids=SHIPPED)
def test_the_shipped_roles_are_those_that_the_command_prints(
    file: str, words: tuple[str, ...]
) -> None:
    shipped = (DEPLOY / file).read_text(encoding="utf-8")

    assert shipped == printed(*words), "run `make roles`"


@pytest.mark.parametrize(("file", "words"), SHIPPED_CRDS.items(), ids=SHIPPED_CRDS)
def test_the_shipped_definitions_are_those_that_the_command_prints(
    file: str, words: tuple[str, ...]
) -> None:
    shipped = (DEPLOY / file).read_text(encoding="utf-8")

    assert shipped == printed(*words, command="crds"), "run `make roles`"


@each_workload
def test_a_pod_passes_the_strictest_of_pod_security_standards(workload: Object) -> None:
    spec = pod_of(workload)["spec"]
    (container,) = spec["containers"]
    pod, own = spec["securityContext"], container["securityContext"]

    assert pod["runAsNonRoot"] is True
    assert pod["runAsUser"] > 10_000
    assert pod["seccompProfile"] == {"type": "RuntimeDefault"}
    assert own["allowPrivilegeEscalation"] is False
    assert own["privileged"] is False
    assert own["readOnlyRootFilesystem"] is True
    assert own["capabilities"] == {"drop": ["ALL"]}
    assert not {"hostNetwork", "hostPID", "hostIPC"} & spec.keys()
    assert {kind for volume in spec["volumes"] for kind in volume} == {"name", "configMap"}


def test_all_forms_run_the_same_pod_but_for_what_it_is_reported() -> None:
    pods = [deepcopy(pod_of(workload)) for workload in WORKLOADS.values()]
    for pod in pods:
        del pod["spec"]["restartPolicy"], pod["spec"]["containers"][0]["args"]

    assert pods[0] == pods[1] == pods[2]


@each_workload
def test_the_image_is_that_of_this_version(workload: Object) -> None:
    (container,) = pod_of(workload)["spec"]["containers"]

    assert container["image"] == f"resettle:{__version__}"


@pytest.mark.parametrize("form", ["deployment", "cronjob", "job", "dry-run"])
def test_the_command_line_knows_every_flag(form: str) -> None:
    patched = documents(KUSTOMIZE / "dry-run" / "args.yaml")[0]
    workload = patched if form == "dry-run" else WORKLOADS[form]
    args = pod_of(workload)["spec"]["containers"][0]["args"]

    arguments = build_parser().parse_args(["run", *args])

    assert arguments.policy == "/policy-dir/policy.yaml"
    assert arguments.dry_run is (form == "dry-run")
    assert arguments.leader_elect is (form == "deployment")
    assert arguments.descheduling_interval == ("0" if form in ("cronjob", "job") else "5m")


def test_the_lease_that_is_held_is_the_one_that_is_granted() -> None:
    (container,) = pod_of(WORKLOADS["deployment"])["spec"]["containers"]
    args = build_parser().parse_args(["run", *container["args"]])
    objects = documents(KUSTOMIZE / "deployment" / "rbac.yaml")
    (role,) = (obj for obj in objects if obj["kind"] == "Role")

    assert role["rules"][1]["resourceNames"] == [args.leader_elect_resource_name]
    assert args.leader_elect_resource_namespace == "$(POD_NAMESPACE)"
    assert role["metadata"]["namespace"] == WORKLOADS["deployment"]["metadata"]["namespace"]


@pytest.mark.parametrize("form", ["deployment", "cronjob", "job", "dry-run"])
def test_the_pod_runs_as_the_account_that_the_roles_are_bound_to(form: str) -> None:
    workload = WORKLOADS.get(form, WORKLOADS["deployment"])
    account, *roles = documents(KUSTOMIZE / form / "rbac.yaml")
    bound = [subject for obj in roles for subject in obj.get("subjects", ())]

    assert account["metadata"]["name"] == pod_of(workload)["spec"]["serviceAccountName"]
    assert account["metadata"]["namespace"] == workload["metadata"]["namespace"]
    assert {(item["name"], item["namespace"]) for item in bound} == {
        (account["metadata"]["name"], account["metadata"]["namespace"])
    }


def test_the_policy_to_begin_with_has_neither_problems_nor_warnings() -> None:
    file = KUSTOMIZE / "base" / "policy.yaml"

    policy = load_policy(file.read_text(encoding="utf-8"), name="p", plugins=default_registry())

    assert policy.warnings == ()


@pytest.mark.parametrize("form", SHIPPED, ids=SHIPPED)
def test_no_role_grants_what_is_never_asked_for(form: str) -> None:
    rules = [rule for obj in documents(DEPLOY / form) for rule in obj.get("rules", ())]

    assert "secrets" not in {resource for rule in rules for resource in rule["resources"]}
    assert "*" not in str(rules)
    verbs = {verb for rule in rules for verb in rule["verbs"] if "resourceNames" not in rule}
    writes = {"get", "patch"} if "soft-tainter" in form else set()
    writes |= {"get", "patch", "delete"} if "migration-controller" in form else set()
    assert verbs <= {"list", "watch", "create", *writes}
