"""What a run costs is what the kernel says, and what came of it is what the programs say."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from bench.measure import Cost, Failed, evictions, moves, phases, run_child, run_ours, run_upstream
from bench.run import policy_text
from bench.serving import Serving

PROFILE = """\
note: something was said before
PHASE               WALL ms     CPU ms
start                  98.7       98.4
read and decode       897.9      897.8
LowNodeUtilization     62.4       62.4
whole process        1559.3     1609.8
peak memory 193 MiB
"""
PLAN = """\
{
  "moves": [
    {"uid": "1",
      "plugin": "RemoveDuplicates"},
    {"uid": "2",
      "plugin": "RemoveDuplicates"},
    {"uid": "3",
      "plugin": "LowNodeUtilization"}
  ],
  "plugins": [
    {"plugin": "RemoveDuplicates"}
  ]
}
"""
EVICTED = '"Evicted pod in dry run mode" pod="{}" reason="" strategy="{}" node="n" profile="p"\n'
# Lists as descheduler does, and writes a log as descheduler does.
STAND_IN = """\
#!{python}
import signal, sys, urllib.request
address = open(sys.argv[1].partition("=")[2]).read().partition('server: "')[2].partition('"')[0]
path = "/apis/scheduling.k8s.io/v1/priorityclasses?resourceVersion=0"
urllib.request.urlopen(address + path, timeout=30).read()
sys.stderr.write({log!r})
sys.stderr.flush()
{after}
"""


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Serving]:
    with Serving(tmp_path_factory.mktemp("served"), "--nodes=2", "--pods=6") as serving:
        yield serving


def child(code: str, folder: Path, timeout: float = 60) -> tuple[Cost, int]:
    command = [sys.executable, "-S", "-c", code]
    return run_child(command, out=folder / "out", err=folder / "err", timeout=timeout)


def test_a_child_is_charged_for_its_memory(tmp_path: Path) -> None:
    cost, _ = child("held = b'x' * (400 << 20)", tmp_path)

    assert cost.peak == pytest.approx(410, abs=10)


def test_a_child_is_charged_for_its_time(tmp_path: Path) -> None:
    idle, _ = child("", tmp_path)
    busy, _ = child("sum(range(10_000_000))", tmp_path)

    assert busy.cpu > idle.cpu
    assert busy.wall > 0


def test_how_a_child_ended_is_reported(tmp_path: Path) -> None:
    _, code = child("import sys; print('bye', file=sys.stderr); sys.exit(3)", tmp_path)

    assert (code, (tmp_path / "err").read_text()) == (3, "bye\n")


def test_a_child_that_takes_too_long_is_ended(tmp_path: Path) -> None:
    cost, code = child("import signal; signal.pause()", tmp_path, timeout=0.1)

    assert (cost.remark, code) == ("ended after 0 s", -15)


def test_phases_are_read_from_the_profile() -> None:
    assert phases(PROFILE) == {"start": 98.4, "read and decode": 897.8, "LowNodeUtilization": 62.4}


def test_moves_are_counted_by_plugin_and_plugins_are_not(tmp_path: Path) -> None:
    (tmp_path / "plan.json").write_text(PLAN)

    assert moves(tmp_path / "plan.json") == {"RemoveDuplicates": 2, "LowNodeUtilization": 1}


def test_a_pod_that_upstream_evicts_twice_counts_once(tmp_path: Path) -> None:
    pairs = [("a/x", "First"), ("a/y", "First"), ("a/x", "Second"), ("b/x", "Second")]
    (tmp_path / "log").write_text("".join(EVICTED.format(*pair) for pair in pairs) + "the end\n")

    assert evictions(tmp_path / "log") == {"First": 2, "Second": 1}


def test_a_plan_is_measured_over_a_served_cluster(tmp_path: Path) -> None:
    policy = tmp_path / "policy.yaml"
    policy.write_text(policy_text("on"))
    with Serving(tmp_path, "--nodes=10", "--pods=12") as served:
        cost = run_ours(served, policy, tmp_path, timeout=60)

    assert served.objects["Pod"] == 120
    assert (served.final["evictions"], served.final["requests"]["list Pod"]) == (0, 1)
    assert cost.evicted > 0
    assert {"fetch", "decode", "LowNodeUtilization"} <= set(cost.phases)


def test_a_plan_that_fails_is_no_figure(tmp_path: Path, served: Serving) -> None:
    policy = tmp_path / "policy.yaml"
    policy.write_text("kind: DeschedulerPolicy\n")

    with pytest.raises(Failed, match="apiVersion"):
        run_ours(served, policy, tmp_path, timeout=60)


@pytest.mark.parametrize(
    ("log", "after", "evicted", "remark"),
    [
        pytest.param(EVICTED.format("a/x", "First"), "", 1, "", id="one cycle to its end"),
        pytest.param(
            EVICTED.format("a/x", "First") + "failed to run descheduler loop\n",
            "signal.pause()",
            1,
            "could not restore its copy within 5 s after the cycle",
            id="a cycle that would start over is the last",
        ),
    ],
)
def test_upstream_waits_for_its_last_list_and_runs_one_cycle(
    tmp_path: Path,
    served: Serving,
    monkeypatch: pytest.MonkeyPatch,
    log: str,
    after: str,
    evicted: int,
    remark: str,
) -> None:
    monkeypatch.setattr("bench.measure.IDLE_SECONDS", 0.1)
    stand_in = tmp_path / "stand-in"
    stand_in.write_text(STAND_IN.format(python=sys.executable, log=log, after=after))
    stand_in.chmod(0o755)

    cost = run_upstream(stand_in, served, tmp_path / "policy.yaml", tmp_path, timeout=60)

    assert (cost.evicted, cost.remark) == (evicted, remark)


def test_upstream_failing_gives_no_figure(tmp_path: Path, served: Serving) -> None:
    stand_in = tmp_path / "stand-in"
    stand_in.write_text("#!/bin/sh\necho no such flag >&2\nexit 1\n")
    stand_in.chmod(0o755)

    with pytest.raises(Failed, match="no such flag"):
        run_upstream(stand_in, served, tmp_path / "policy.yaml", tmp_path, timeout=60)
