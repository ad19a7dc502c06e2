"""`resettle migrate` asked about all kinds of things, some of them wrongly."""

from __future__ import annotations

import json
from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest

from resettle.cli.migrate.flags_and_roles import UPSTREAM_RULES, is_granted
from resettle.cli.migrate.helm_values import KNOWN
from resettle.rbac.permissions import ApiPermission
from tests import ROOT
from tests.cli.harness import LIFETIME, write
from tests.cli.migrate.harness import Ask, ask

__all__ = ["ask"]

POD = """\
apiVersion: v1
kind: Pod
metadata: {name: it}
spec:
  containers:
    - image: images.example/descheduler:v0.36.0
      args:
"""


TEMPLATE = (
    "a.yaml:2:9:\n"
    "    this is not YAML: while parsing a flow node, did not find expected node content; "
    "compare this line with the one before it\n"
    "    this looks like a template; render it first: `helm template …`"
)


def findings_by_kind(ask: Ask, text: str, **more: str) -> dict[str, list[dict[str, Any]]]:
    """What is said of a text, by sort."""
    document = json.loads(ask("-", "-o", "json", stdin=dedent(text), **more).out)  # type: ignore[arg-type]
    sorts: dict[str, list[dict[str, Any]]] = {}
    for finding in document["findings"]:
        sorts.setdefault(finding["sort"], []).append(finding)
    return sorts


# -- flags -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("flag", "sort", "about", "says"),
    [
        ("--v=3", "stays", "--policy-config-file=p --v=3", "the same flags here"),
        ("--vmodule=a=1", "idle", "--vmodule", "verbosity is for the whole log; use --v"),
        (
            "--node-selector=a=b",
            "change",
            "--node-selector",
            "an earlier descheduler had this flag",
        ),
        ("--polcy=x", "change", "--polcy", "neither resettle nor descheduler has this flag"),
        ("false", "change", "false", "`false` is not a flag"),
        ("--v=much", "change", "flags", "argument -v/--v: invalid int value: 'much'"),
        ("--descheduling-interval=5", "change", "flags", "--descheduling-interval: `5` is not"),
    ],
)
def test_each_flag_gets_the_finding_of_its_kind(
    flag: str, sort: str, about: str, says: str, ask: Ask
) -> None:
    text = POD + f"        - --policy-config-file\n        - p\n        - {json.dumps(flag)}\n"

    sorts = findings_by_kind(ask, text)

    findings = [finding for finding in sorts[sort] if finding["about"] == about]
    assert [finding["says"].startswith(says) for finding in findings] == [True], sorts
    assert findings[0]["line"] == (10 if sort in ("idle", "change") and about != "flags" else 8)


def test_a_program_that_the_image_does_not_have_is_reported(ask: Ask) -> None:
    text = POD.replace("      args:\n", '      command: [sh, -c, "descheduler --v=3"]\n')

    (change,) = [
        finding
        for finding in findings_by_kind(ask, text)["change"]
        if finding["about"] == "command"
    ]

    assert change["says"] == "Pod it is started as `sh`, which the image does not have"


def test_an_image_of_resettle_is_left_alone(ask: Ask) -> None:
    text = POD.replace("descheduler:v0.36.0", "resettle:0.1.0")
    text += "        - --policy-config-file=p\n"

    sorts = findings_by_kind(ask, text)

    assert "swap" not in sorts
    assert sorts["stays"][0]["says"] == "is resettle already"


# -- values ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "sort", "about", "says"),
    [
        pytest.param(
            "kind: Deployment\ncmdOptions: {v: 3}\nreplica: 2\n",
            "mistake",
            "replica",
            "the chart has no such value and ignores it silently",
            id="a misspelt value",
        ),
        pytest.param(
            "cmdOptions: {v: 3}\nleaderElection: {enabled: true, lease: 5s}\n",
            "mistake",
            "leaderElection.lease",
            "the chart has no such value and ignores it silently",
            id="a misspelt part of a value",
        ),
        pytest.param(
            "cmdOptions: {v: 3}\nreplicas: 2\n",
            "idle",
            "replicas",
            "without effect for a CronJob, the default of the chart",
            id="a value of the other kind",
        ),
        pytest.param(
            "cmdOptions: {v: 3}\n",
            "stays",
            "deschedulerPolicy",
            "not set, so the default policy of the chart is used",
            id="no policy",
        ),
        pytest.param(
            "cmdOptions: {logtostderr: true}\n",
            "change",
            "--logtostderr",
            "an earlier descheduler had this flag",
            id="an old flag",
        ),
        pytest.param(
            "deschedulerPolicy: {strategies: {RemoveDuplicates: {enabled: true}}}\n",
            "mistake",
            "deschedulerPolicy.strategies",
            "charts from v0.30 on write `descheduler/v1alpha2`, so descheduler ignores them",
            id="strategies that a newer chart loses",
        ),
        pytest.param(
            "deschedulerPolicyAPIVersion: descheduler/v1alpha2\n"
            "deschedulerPolicy: {strategies: {RemoveDuplicates: {enabled: true}}}\n",
            "mistake",
            "deschedulerPolicy.strategies",
            "descheduler ignores them and runs the default profile of the chart",
            id="strategies under the wrong apiVersion",
        ),
    ],
)
def test_values_are_judged(text: str, sort: str, about: str, says: str, ask: Ask) -> None:
    findings = [
        finding for finding in findings_by_kind(ask, text)[sort] if finding["about"] == about
    ]

    assert [finding["says"].startswith(says) for finding in findings] == [True]


def test_strategies_are_as_they_should_be_under_their_own_apiversion(ask: Ask) -> None:
    sorts = findings_by_kind(
        ask,
        """\
        deschedulerPolicyAPIVersion: descheduler/v1alpha1
        deschedulerPolicy: {strategies: {RemoveDuplicates: {enabled: true}}}
        """,
    )

    assert "mistake" not in sorts


def test_what_helm_prints_above_values_is_no_mistake(ask: Ask) -> None:
    assert "mistake" not in findings_by_kind(ask, "USER-SUPPLIED VALUES:\ncmdOptions: {v: 3}\n")


def test_our_chart_knows_every_value_of_upstreams() -> None:
    schema = json.loads((ROOT / "deploy/helm/resettle/values.schema.json").read_text())

    assert schema["properties"].keys() >= KNOWN


# -- policies --------------------------------------------------------------------------------------


def test_what_upstream_refuses_has_to_change(ask: Ask) -> None:
    sorts = findings_by_kind(ask, LIFETIME.replace("[PodLifeTime]", "[PodLifetime]") + "foo: 1\n")

    (change,) = sorts["change"]
    (mistake,) = sorts["mistake"]
    assert change["says"] == "no plugin is named `PodLifetime`"
    assert (mistake["about"], mistake["line"]) == ("foo", 11)
    assert "better" not in sorts


def test_a_policy_without_apiversion_is_known_by_its_profiles(ask: Ask) -> None:
    text = LIFETIME.replace("apiVersion: descheduler/v1alpha2\n", "")

    sorts = findings_by_kind(ask, text)

    assert [finding["about"] for finding in sorts["mistake"]] == ["apiVersion"]
    assert sorts["stays"][-1]["says"].endswith("no profile, so it does nothing")


def test_a_second_document_in_a_config_map_is_a_mistake(ask: Ask) -> None:
    inner = (LIFETIME + "---\n" + LIFETIME).replace("\n", "\n    ")
    text = f"kind: ConfigMap\napiVersion: v1\ndata:\n  policy.yaml: |\n    {inner}\n"

    (mistake,) = findings_by_kind(ask, text)["mistake"]

    assert mistake["says"].startswith("a second document starts here")
    assert mistake["line"] == 16


def test_the_roles_of_upstream_suffice_for_its_policies(ask: Ask) -> None:
    lease = ApiPermission(
        verb="update", resource="leases", group="coordination.k8s.io", name="descheduler"
    )

    assert "change" not in findings_by_kind(ask, LIFETIME)
    assert is_granted(lease, UPSTREAM_RULES)
    assert not is_granted(ApiPermission(verb="delete", resource="pods"), UPSTREAM_RULES)


# -- files -----------------------------------------------------------------------------------------


def test_several_files_are_read_together(ask: Ask, tmp_path: Path) -> None:
    write(tmp_path, {"p.yaml": LIFETIME, "v.yaml": "cmdOptions: {v: 5}\n"})

    done = ask("p.yaml", "v.yaml")

    assert done.code == 0
    assert done.out.startswith("v.yaml: Helm values\np.yaml: policy\n")


@pytest.mark.parametrize(
    ("files", "words", "says"),
    [
        pytest.param(
            {}, ["none.yaml"], "there is no file `none.yaml`; check the path", id="no such file"
        ),
        pytest.param(
            {"a.yaml": "kind: Service\napiVersion: v1\n---\nkind: ConfigMap\napiVersion: v1\n"},
            ["a.yaml"],
            "nothing in a.yaml belongs to descheduler (it holds: ConfigMap, Service); "
            "name its policy or ConfigMap, the manifest that runs it, or the values of its chart",
            id="nothing of upstream",
        ),
        pytest.param(
            {"a.yaml": "- 1\n"},
            ["a.yaml"],
            "a.yaml is not a policy, a manifest or Helm values",
            id="a list",
        ),
        pytest.param(
            {"a.yaml": "kind: Deployment\nspec: {{- toYaml .x }}\n"},
            ["a.yaml"],
            TEMPLATE,
            id="a template",
        ),
        pytest.param({}, ["-", "-"], "stdin is one file; name it once", id="stdin twice"),
        pytest.param(
            {"p.yaml": LIFETIME},
            ["p.yaml", "--write", "p.yaml"],
            "--write would replace p.yaml; name another file",
            id="over itself",
        ),
        pytest.param(
            {"p.yaml": LIFETIME, "q.yaml": LIFETIME},
            ["p.yaml", "q.yaml", "--write", "r.yaml"],
            "--write takes one policy that can be used, and there are 2 (p.yaml: policy, "
            "q.yaml: policy); name its file alone",
            id="two to write",
        ),
        pytest.param(
            {"p.yaml": LIFETIME.replace("PodLifeTime", "PodLife")},
            ["p.yaml", "--write", "r.yaml"],
            "--write takes one policy that can be used, and there are 0; fix its problems first",
            id="none to write",
        ),
    ],
)
def test_bad_input_is_one_clear_error(
    files: dict[str, str], words: list[str], says: str, ask: Ask, tmp_path: Path
) -> None:
    write(tmp_path, files)

    done = ask(*words)

    assert (done.code, done.out) == (1, "")
    assert done.err == f"error: {says}\n"
    assert not (tmp_path / "r.yaml").exists()
