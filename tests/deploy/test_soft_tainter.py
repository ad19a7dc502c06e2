"""What `deploy/soft-tainter` ships: a harmless pod, flags that exist, a guard for its account."""

from __future__ import annotations

import yaml

from resettle import __version__
from resettle.cli.commands.controllers.soft_tainter import PORT, taint_settings
from resettle.cli.main import build_parser
from resettle.policy.document import PREFIXES

from .manifests import DEPLOY, Object, documents, pod_of

FOLDER = DEPLOY / "soft-tainter"
(DEPLOYMENT,) = documents(FOLDER / "deployment.yaml")
GUARD, BINDING, *ROLES = documents(FOLDER / "rbac.yaml")
POD: Object = pod_of(DEPLOYMENT)["spec"]
(CONTAINER,) = POD["containers"]


def test_its_pod_is_as_harmless_as_that_of_the_descheduler() -> None:
    (descheduler,) = documents(DEPLOY / "kustomize" / "process" / "deployment.yaml")
    theirs = pod_of(descheduler)["spec"]

    assert POD["securityContext"] == theirs["securityContext"]
    assert CONTAINER["securityContext"] == theirs["containers"][0]["securityContext"]
    assert POD["volumes"] == theirs["volumes"], "the same policy"
    assert CONTAINER["image"] == f"resettle:{__version__}"


def test_the_two_never_count_each_other_s_pods() -> None:
    (descheduler,) = documents(DEPLOY / "kustomize" / "process" / "deployment.yaml")
    wanted = descheduler["spec"]["selector"]["matchLabels"]
    labels = pod_of(DEPLOYMENT)["metadata"]["labels"]

    assert DEPLOYMENT["spec"]["selector"]["matchLabels"] == labels
    assert not wanted.items() <= labels.items()


def test_the_command_line_knows_every_flag_and_the_lease_is_granted() -> None:
    words = [*CONTAINER["command"][1:], *CONTAINER["args"]]
    args = [word.replace("$(POD_NAMESPACE)", "resettle") for word in words]
    settings = taint_settings(build_parser().parse_args(args))
    (role,) = (obj for obj in ROLES if obj["kind"] == "Role")

    assert settings.lease is not None
    assert role["rules"][1]["resourceNames"] == [settings.lease.name]
    assert role["metadata"]["namespace"] == settings.lease.namespace


def test_the_probes_ask_where_health_is_served() -> None:
    (port,) = CONTAINER["ports"]

    assert port["containerPort"] == PORT
    assert {CONTAINER[f"{kind}Probe"]["httpGet"]["port"] for kind in ("liveness", "readiness")} == {
        port["name"]
    }


def test_the_guard_is_about_the_account_of_the_pod_and_of_the_roles() -> None:
    (account,) = (obj["metadata"] for obj in ROLES if obj["kind"] == "ServiceAccount")
    (condition,) = GUARD["spec"]["matchConditions"]

    user = f"system:serviceaccount:{account['namespace']}:{account['name']}"
    assert condition["expression"] == f"request.userInfo.username == '{user}'"
    assert POD["serviceAccountName"] == account["name"]
    assert DEPLOYMENT["metadata"]["namespace"] == account["namespace"]


def test_the_guard_knows_the_prefixes_and_denies_when_in_doubt() -> None:
    (prefixes,) = (
        variable for variable in GUARD["spec"]["variables"] if variable["name"] == "prefixes"
    )

    assert yaml.safe_load(prefixes["expression"]) == sorted(PREFIXES.values())
    assert GUARD["spec"]["failurePolicy"] == "Fail"
    assert BINDING["spec"]["policyName"] == GUARD["metadata"]["name"]
    assert BINDING["spec"]["validationActions"] == ["Deny"]


def test_every_file_is_part_of_what_is_applied() -> None:
    (whole,) = documents(FOLDER / "kustomization.yaml")
    files = {file.name for file in FOLDER.glob("*.yaml")} - {"kustomization.yaml"}

    assert set(whole["resources"]) == files
