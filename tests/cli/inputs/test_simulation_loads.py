"""Soft taints and loads in a simulation: what they show, and every mistake with a fix."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests import ROOT
from tests.cli.harness import LIFETIME, LOPSIDED, NOW, resettle, write

MACHINES = ROOT / "examples" / "load-aware-vms"
QUERY = "avg by (instance) (rate(node_pressure_cpu_waiting_seconds_total[1m]))"
WORDS = ("--cluster", MACHINES / "cluster.json", "--policy", MACHINES / "policy.yaml")


@pytest.mark.parametrize(
    ("loads", "problems"),
    [
        pytest.param(
            "queries:\n  Presure: up\npods:\n  vms/virt-launcher-vm-001: much\n",
            [
                "loads.yaml:2:3: queries.Presure",
                "`Presure` is not a key known here; did you mean `Pressure`?",
                "loads.yaml:4:29: pods.vms/virt-launcher-vm-001",
                "`much` is not a number; write a number from 0 to 100000",
            ],
            id="words of the wrong kind",
        ),
        pytest.param(
            f"queries:\n  Use: {QUERY}\npods:\n  vms/virt-launcher-vm-001: -1\n",
            [
                "loads.yaml:4:29: pods.vms/virt-launcher-vm-001",
                "-1 is not a number of cores; write a number from 0 to 100000",
            ],
            id="less than nothing",
        ),
        pytest.param(
            "queries:\n  Pressure: up\npods:\n  vms/virt-launcher-vm-0011: 2\n  web: 1\n",
            [
                "loads.yaml:2:13: queries.Pressure",
                f"no policy has this query; write it as the policy does: `{QUERY}`",
                "loads.yaml:4:30: pods.vms/virt-launcher-vm-0011",
                "the cluster has no pod `vms/virt-launcher-vm-0011`; did you mean "
                "`vms/virt-launcher-vm-011`?",
                "loads.yaml:5:8: pods.web",
                "the cluster has no pod `web`; write `NAMESPACE/NAME` of one that it has",
            ],
            id="queries and pods that are not there",
        ),
        pytest.param(
            "pods: {}\n",
            [
                "loads.yaml:1:1: queries",
                "no query is named for the demand of the pods; write `Use` or `Pressure`, "
                f"with the value `{QUERY}`",
            ],
            id="no query",
        ),
        pytest.param(
            "[]\n",
            [
                "loads.yaml:1:1:",
                "a file of loads is a mapping; write `queries` and `pods` as its keys",
            ],
            id="no mapping",
        ),
    ],
)
def test_every_mistake_is_reported_with_its_place(
    tmp_path: Path, loads: str, problems: list[str]
) -> None:
    write(tmp_path, {"loads.yaml": loads})
    count = len(problems) // 2
    head = f"error: loads.yaml has {count} problem{'s' if count > 1 else ''}\n"
    expected = "".join(
        f"{at}\n    {says}\n" for at, says in zip(problems[::2], problems[1::2], strict=True)
    )

    done = resettle("simulate", *WORDS, "--loads", "loads.yaml", cwd=tmp_path)

    assert (done.code, done.out, done.err) == (1, "", head + expected)


def test_nodes_are_tainted_by_thresholds_so_there_must_be_some(tmp_path: Path) -> None:
    write(tmp_path, {"policy.yaml": LIFETIME})
    words = ("--cluster", LOPSIDED / "cluster.yaml", "--policy", "policy.yaml", "--soft-taints")

    assert resettle("simulate", *words, cwd=tmp_path) == (
        1,
        "",
        "error: policy.yaml does not enable LowNodeUtilization, whose thresholds decide which "
        "nodes are tainted; enable it under `balance`, or simulate without soft taints\n",
    )


def test_one_policy_is_compared_with_itself_or_with_another() -> None:
    words = ("--scenario", "scenario.yaml", "--soft-taints", "compare")
    done = resettle("simulate", *words, cwd=LOPSIDED)

    assert (done.code, done.out) == (1, "")
    assert done.err.startswith("error: --soft-taints compare runs one policy without taints and")


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        pytest.param((), [False], id="no taints unless asked"),
        pytest.param(("--soft-taints",), [True], id="with"),
        pytest.param(("--soft-taints", "compare"), [False, True], id="compared"),
        pytest.param(("--soft-taints", "--against", "improved.yaml"), [True, True], id="both"),
    ],
)
def test_taints_are_reported_for_programs(words: tuple[str, ...], expected: list[bool]) -> None:
    asked = ("--cluster", "cluster.yaml", "--policy", "policy.yaml", "--now", NOW)
    done = resettle("simulate", *asked, *words, "--cycles", "1", "-o", "json", cwd=LOPSIDED)
    runs = json.loads(done.out)["runs"]

    assert [run["soft_taints"] for run in runs] == expected
    marked = [[taint["name"] for taint in run["cycles"][0]["tainted"]] for run in runs]
    assert marked == [["node-1"] if marks else [] for marks in expected]


def test_a_report_shows_what_is_measured_and_what_is_tainted(tmp_path: Path) -> None:
    words = (*WORDS, "--loads", MACHINES / "loads.yaml", "--cycles", "2", "--report", "r.html")

    plain = resettle("simulate", *words, cwd=tmp_path)
    without = (tmp_path / "r.html").read_text(encoding="utf-8")
    tainted = resettle("simulate", *words, "--soft-taints", cwd=tmp_path)
    report = (tmp_path / "r.html").read_text(encoding="utf-8")

    assert (plain.code, tainted.code) == (0, 0)
    assert "the result of the query for the node" in report
    assert report.count('class="taint"') == 12, "six nodes in two cycles"
    assert "softly tainted" not in without
