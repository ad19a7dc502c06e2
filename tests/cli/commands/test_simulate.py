"""`resettle simulate` from end to end: what is asked, and what is answered."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from resettle.testing import ApiServer, node, pod
from tests.cli.harness import (
    BUDGET,
    LIFETIME,
    LOPSIDED,
    NOW,
    WITH_USAGE,
    listing,
    lopsided_objects,
    resettle,
    transcript,
    write,
    write_small_cluster,
)
from tests.kube.auth.builders import document, written
from tests.kube.watch.builders import paths_of

CLUSTER = ("--cluster", "cluster.yaml", "--now", NOW)
POLICY = ("--policy", "policy.yaml")


@pytest.mark.parametrize(
    ("words", "kept"),
    [
        pytest.param((*CLUSTER, *POLICY), "simulate.txt", id="one policy"),
        pytest.param(
            (*CLUSTER, *POLICY, "--cycles", "2", "-o", "json"), "simulate.json", id="json"
        ),
        pytest.param(("--scenario", "scenario.yaml"), "scenario.txt", id="a scenario"),
    ],
)
def test_a_simulation_of_the_bundled_cluster_reads_as_it_always_did(
    words: tuple[str, ...], kept: str
) -> None:
    assert resettle("simulate", *words, cwd=LOPSIDED) == (0, transcript(kept), "")


@pytest.mark.parametrize("kept", ["simulate.txt", "scenario.txt"])
def test_no_line_for_people_is_wider_than_the_terminal(kept: str) -> None:
    assert [line for line in transcript(kept).splitlines() if len(line) > 80] == []


def test_long_names_are_shortened_until_they_fit(tmp_path: Path) -> None:
    names = [f"pool-with-a-long-name-{i}.region-1.compute.cluster.example" for i in (1, 2)]
    pods = [pod(f"a-deployment-with-a-long-name-5d4f8c7b9-{i:05d}", cpu="1") for i in range(3)]
    full, empty = node(names[0]).holding(*pods), node(names[1])
    write(
        tmp_path,
        {"c.json": listing([full.node, *full.pods, empty.node, BUDGET]), "p.yaml": LIFETIME},
    )

    words = ("--cluster", "c.json", "--policy", "p.yaml", "--now", NOW, "--cycles", "1")
    done = resettle("simulate", *words, cwd=tmp_path)

    assert max(map(len, done.out.splitlines())) <= 80
    assert "\n  PodLifeTime\n    default/a-" in done.out


def test_a_wide_terminal_shows_two_bars_and_whole_lines() -> None:
    words = ("simulate", *CLUSTER, *POLICY, "--cycles", "1")
    done = resettle(*words, cwd=LOPSIDED, env={"COLUMNS": "160"})

    assert "  shop/cart-1        node-1 → node-2  LowNodeUtilization\n" in done.out
    assert re.search(r"CPU REQUESTED +MEMORY REQUESTED +PODS\n", done.out)


def test_programs_and_people_are_given_the_same() -> None:
    answer = json.loads(transcript("simulate.json"))
    text = transcript("simulate.txt")
    (run,) = answer["runs"]

    for cycle in run["cycles"]:
        left = {landing["from"] for landing in cycle["landings"]}
        assert f"{len(cycle['landings'])} pods moved off {len(left)} node" in text
        for landing in cycle["landings"]:
            assert re.search(f"{landing['name']} +{landing['from']} → {landing['to']}", text)
    assert [len(cycle["landings"]) for cycle in run["cycles"]] == [8, 3]
    assert run["totals"]["returned"] == 1


# -- how long -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("words", "cycles", "early"),
    [
        pytest.param((), 5, True, id="until nothing moves"),
        pytest.param(("--cycles", "6"), 6, False, id="as long as asked"),
        pytest.param(("--interval", "1m"), 10, False, id="not before pods come of age"),
        pytest.param(("--interval", "1h"), 5, True, id="never fewer than two quiet cycles"),
    ],
)
def test_it_runs_until_the_cluster_has_settled_unless_cycles_are_given(
    words: tuple[str, ...], cycles: int, early: bool
) -> None:
    done = resettle("simulate", *CLUSTER, *POLICY, *words, "-o", "json", cwd=LOPSIDED)

    (run,) = json.loads(done.out)["runs"]
    assert (len(run["cycles"]), run["stopped_early"]) == (cycles, early)


# -- from where -----------------------------------------------------------------------------------


def test_a_live_cluster_is_only_listed_with_all_that_the_scheduler_asks_for(
    tmp_path: Path,
) -> None:
    words = ("simulate", *POLICY, "--now", NOW, "--cycles", "2", "-o", "json")
    with ApiServer(lopsided_objects()) as server:
        written(tmp_path, document({"server": server.url}))
        done = resettle(*words, "--kubeconfig", tmp_path / "config", cwd=LOPSIDED)
        asked = {path.rpartition("/")[2] for path in paths_of(server)}

    assert done == (0, transcript("simulate.json"), "")
    assert {"pods", "nodes", "persistentvolumeclaims", "csinodes"} <= asked


def test_flags_win_over_the_scenario(tmp_path: Path) -> None:
    held = node("n1").holding(pod("web-1"))
    files: dict[str, str | bytes] = {
        "here/c.json": listing([held.node, *held.pods, node("n2").node, BUDGET]),
        "here/p.yaml": LIFETIME,
        "here/s.yaml": f"cluster: c.json\npolicy: p.yaml\ncycles: 5\ninterval: 1h\nnow: {NOW}\n",
    }
    write(tmp_path, files)
    words = ("simulate", "--scenario", "here/s.yaml", "-o", "json")

    plain = json.loads(resettle(*words, cwd=tmp_path).out)
    flagged = json.loads(resettle(*words, "--cycles", "2", "--interval", "90s", cwd=tmp_path).out)

    assert (len(plain["runs"][0]["cycles"]), plain["interval_seconds"]) == (5, 3600)
    assert (len(flagged["runs"][0]["cycles"]), flagged["interval_seconds"]) == (2, 90)
    assert plain["runs"][0]["policy"] == "here/p.yaml"


def test_the_report_is_written_beside_what_is_printed(tmp_path: Path) -> None:
    report = tmp_path / "report.html"

    done = resettle("simulate", *CLUSTER, *POLICY, "--report", report, cwd=LOPSIDED)

    assert done == (0, transcript("simulate.txt"), f"note: the report is in {report}\n")
    assert report.read_text(encoding="utf-8").startswith("<!doctype html>")


# -- asked wrongly --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("words", "says"),
    [
        pytest.param(
            ("--cycles", "0"),
            "argument --cycles: `0` is not a number of cycles; write 1 or more",
            id="no cycles",
        ),
        pytest.param(
            ("--cycles", "many"),
            "argument --cycles: `many` is not a number of cycles; write 1 or more",
            id="not a number",
        ),
        pytest.param(
            ("--interval", "5"),
            "argument --interval: `5` is not an interval; write one such as 5m or 90s",
            id="no unit",
        ),
        pytest.param(
            ("--interval", "0s"),
            "argument --interval: `0s` is not an interval; write one such as 5m or 90s",
            id="no time at all",
        ),
    ],
)
def test_a_flag_that_makes_no_sense_ends_with_two(words: tuple[str, ...], says: str) -> None:
    done = resettle("simulate", *CLUSTER, *POLICY, *words, cwd=LOPSIDED)

    assert (done.code, done.out) == (2, "")
    assert done.err.splitlines()[-1] == f"resettle simulate: error: {says}"


@pytest.mark.parametrize(
    ("words", "says"),
    [
        pytest.param(CLUSTER, "no policy is named; add --policy FILE", id="no policy"),
        pytest.param(
            (*CLUSTER, "--policy", "p.yaml", "--against", "p.yaml"),
            "--policy and --against both name p.yaml; name two different ones",
            id="the same policy twice",
        ),
        pytest.param(
            (*CLUSTER, "--policy", "-", "--against", "-"),
            "stdin can be only one of these files; write the others to disk",
            id="stdin twice",
        ),
        pytest.param(
            (*CLUSTER, "--policy", "p.yaml", "--report", "no/such/folder.html"),
            "`no/such/folder.html` cannot be written: No such file or directory; name another file",
            id="nowhere to write the report",
        ),
        pytest.param(
            ("--scenario", "gone.yaml"),
            "there is no file `gone.yaml`; check the path",
            id="no such scenario",
        ),
        pytest.param(
            ("--scenario", "empty.yaml"),
            "no policy is named; add --policy FILE, or `policy` to empty.yaml",
            id="a scenario without a policy",
        ),
    ],
)
def test_what_cannot_be_done_is_an_error_with_a_way_out(
    words: tuple[str, ...], says: str, tmp_path: Path
) -> None:
    cluster = (LOPSIDED / "cluster.yaml").read_bytes()
    write(tmp_path, {"p.yaml": LIFETIME, "empty.yaml": "cycles: 3\n", "cluster.yaml": cluster})

    done = resettle("simulate", *words, cwd=tmp_path)

    assert (done.code, done.out, done.err) == (1, "", f"error: {says}\n")


def test_a_plugin_that_fails_is_named_once_and_the_rest_still_reported(tmp_path: Path) -> None:
    words = (*write_small_cluster(tmp_path, WITH_USAGE), "--cycles", "3")

    done = resettle("simulate", *words, cwd=tmp_path)

    assert done.code == 1
    assert done.err.count("error: p.yaml: LowNodeUtilization in profile main: ") == 1
    assert done.out.splitlines()[2] == "cycle 1, 12:00:00  1 pod moved off 1 node"
