"""`resettle check-access` against the test API server: the table, the rules, and how it ends."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml

from resettle.testing import ApiServer, DeniedPermission
from tests import ROOT
from tests.cli.harness import LIFETIME, Done, resettle

NEEDED = """\
ALLOWED  VERB    RESOURCE                     NAMESPACE
yes      list    nodes                        all
yes      watch   nodes                        all
yes      list    pods                         all
yes      watch   pods                         all
yes      list    poddisruptionbudgets.policy  all
yes      watch   poddisruptionbudgets.policy  all
yes      create  pods/eviction                all
yes      create  events.events.k8s.io         all
"""
MISSING = """
# 2 of 8 are missing
# for a ClusterRole:
rules:
- apiGroups: ["policy"]
  resources: ["poddisruptionbudgets"]
  verbs: ["watch"]
- apiGroups: [""]
  resources: ["pods/eviction"]
  verbs: ["create"]
"""
BANS = (
    DeniedPermission(verb="watch", resource="poddisruptionbudgets"),
    DeniedPermission(verb="create", resource="pods/eviction"),
)


def check(
    folder: Path, *words: str, bans: tuple[DeniedPermission, ...] = (), policy: str = "--policy"
) -> Done:
    (folder / "policy.yaml").write_text(LIFETIME)
    with ApiServer(denied=bans) as server:
        config = server.kubeconfig(folder / "config")
        given = ("check-access", policy, "policy.yaml", "--kubeconfig", config)
        return resettle(*given, *words, cwd=folder)


@pytest.mark.parametrize("flag", ["--policy", "--policy-config-file"])
def test_all_that_is_needed_is_listed(flag: str, tmp_path: Path) -> None:
    assert check(tmp_path, policy=flag) == (0, NEEDED, "")


def test_what_is_missing_is_reported_with_the_rules_that_grant_it(tmp_path: Path) -> None:
    done = check(tmp_path, bans=BANS)

    table = NEEDED.replace("yes      watch   poddis", "NO       watch   poddis")
    table = table.replace("yes      create  pods/", "NO       create  pods/")
    assert done == (1, table + MISSING, "")
    assert table + MISSING in (ROOT / "docs" / "operate" / "access.md").read_text(encoding="utf-8")


def test_rights_to_a_lease_are_asked_for_in_its_namespace(tmp_path: Path) -> None:
    words = ("--leader-elect", "--leader-elect-resource-namespace", "ops")
    done = check(tmp_path, *words, bans=(DeniedPermission(resource="leases", namespace="ops"),))

    table, _, fragment = done.out.partition("\n\n")
    assert [line.split() for line in table.splitlines()[-3:]] == [
        ["NO", "create", "leases.coordination.k8s.io", "ops"],
        ["NO", "get", "leases.coordination.k8s.io/descheduler", "ops"],
        ["NO", "update", "leases.coordination.k8s.io/descheduler", "ops"],
    ]
    assert "# for a Role in the namespace ops:" in fragment
    assert yaml.safe_load(fragment) == {
        "rules": [
            {"apiGroups": ["coordination.k8s.io"], "resources": ["leases"], "verbs": ["create"]},
            {
                "apiGroups": ["coordination.k8s.io"],
                "resources": ["leases"],
                "resourceNames": ["descheduler"],
                "verbs": ["get", "update"],
            },
        ]
    }


def test_protected_metrics_take_the_right_to_ask_about_others(tmp_path: Path) -> None:
    done = check(
        tmp_path, "--protect-metrics", bans=(DeniedPermission(resource="subjectaccessreviews"),)
    )

    assert done.code == 1
    assert "yes      create  tokenreviews.authentication.k8s.io " in done.out
    missing = yaml.safe_load(done.out.partition("\n\n")[2])["rules"]
    assert missing == [
        {
            "apiGroups": ["authorization.k8s.io"],
            "resources": ["subjectaccessreviews"],
            "verbs": ["create"],
        }
    ]


def test_a_dry_run_needs_to_read_only(tmp_path: Path) -> None:
    done = check(
        tmp_path, "--dry-run", bans=(DeniedPermission(verb="create", resource="pods/eviction"),)
    )

    assert (done.code, "create" in done.out) == (0, False)


@pytest.mark.parametrize(
    "bans", [pytest.param((), id="all there"), pytest.param(BANS, id="not all")]
)
def test_a_program_gets_the_same_as_a_person(
    bans: tuple[DeniedPermission, ...], tmp_path: Path
) -> None:
    done = check(tmp_path, "-o", "json", bans=bans)

    answer = json.loads(done.out)
    assert (done.code, answer["allowed"]) == (len(bans) and 1, not bans)
    refused = [right for right in answer["rights"] if not right["allowed"]]
    assert [(right["verb"], right["resource"]) for right in refused] == [
        (ban.verb, ban.resource) for ban in bans
    ]
    rules = [rule for place in answer["missing"] for rule in place["rules"]]
    assert [rule["resources"] for rule in rules] == [[ban.resource] for ban in bans]


@pytest.mark.parametrize(
    ("policy", "says"),
    [
        pytest.param(
            "gone.yaml", "error: there is no file `gone.yaml`; check the path\n", id="gone"
        ),
        pytest.param(".", "error: `.` is a directory; name a file in it\n", id="a directory"),
    ],
)
def test_a_policy_that_cannot_be_read_is_one_line(policy: str, says: str, tmp_path: Path) -> None:
    assert resettle("check-access", "--policy", policy, cwd=tmp_path) == (1, "", says)


def test_a_policy_is_asked_for(tmp_path: Path) -> None:
    done = resettle("check-access", cwd=tmp_path)

    assert (done.code, done.out) == (2, "")
    assert "--policy" in done.err.splitlines()[-1]
