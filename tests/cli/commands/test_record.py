"""`run --record`, and every way to ask afterwards."""

from __future__ import annotations

import gc
import json
import re
import shutil
import signal
import subprocess
from contextlib import chdir, redirect_stderr, redirect_stdout
from datetime import timedelta
from io import StringIO
from pathlib import Path
from typing import Any

import msgspec
import pytest

from resettle.cli.main import run
from resettle.framework import MoveResult
from resettle.model.changes import Change, Changes
from resettle.model.snapshot import Snapshot
from resettle.record.segments import GzipLines, GzipWriter, segments_in
from resettle.record.writer import RecordWriter
from resettle.testing import ApiServer, cluster, node, pod
from tests.cli.harness import (
    LIFETIME,
    LOPSIDED,
    RESETTLE,
    Done,
    accept_interrupts,
    lopsided_objects,
    resettle,
    surroundings,
    write,
)
from tests.framework.fakes import by_name
from tests.record.harness import OLD_PODS, PLENTY, lived

POLICY = LOPSIDED / "policy.yaml"


def lines(text: str) -> list[list[str]]:
    """The rows of a table, its head left out."""
    return [re.split(r" {2,}", line) for line in text.splitlines()[1:]]


# -- a run ---------------------------------------------------------------------------------------


def test_what_a_run_planned_is_planned_again(tmp_path: Path) -> None:
    with ApiServer(lopsided_objects()) as api_server:
        config = api_server.kubeconfig(tmp_path / "kubeconfig")
        words = ("--policy", POLICY, "--kubeconfig", config, "--record", "record")
        done = resettle("run", *words, "--dry-run", cwd=tmp_path)
        assert (done.code, done.out) == (0, "")
        assert done.err.endswith("INFO cycles are recorded record=record\n")
        at = json.loads(resettle("record", "show", "record", "-o", "json", cwd=tmp_path).out)["at"]
        live = resettle(
            "plan", "--policy", POLICY, "--kubeconfig", config, "--now", at, cwd=tmp_path
        )

    assert resettle("plan", "--record", "record", cwd=tmp_path) == (
        0,
        live.out,
        f"note: cycle 1 of {at[:19]}Z: 8 shown\n",
    )


def test_asked_to_stop_it_stops_and_what_it_wrote_is_whole(tmp_path: Path) -> None:
    write(tmp_path, {"policy.yaml": LIFETIME})
    full = node("n1").holding(pod("a", age="3h"))
    with ApiServer([full.node, node("n2").node, *full.pods]) as api_server:
        config = api_server.kubeconfig(tmp_path / "kubeconfig")
        words = ["run", "--policy", "policy.yaml", "--kubeconfig", config, "--record", "record"]
        command = [*RESETTLE, *map(str, words), "--descheduling-interval", "1h"]
        with subprocess.Popen(
            command,
            cwd=tmp_path,
            env=surroundings(),
            stderr=subprocess.PIPE,
            text=True,
            preexec_fn=accept_interrupts,
        ) as running:
            assert running.stderr is not None
            assert any("cycles are recorded" in line for line in running.stderr)
            running.send_signal(signal.SIGINT)
            running.stderr.read()
        assert running.returncode == 0
    done = resettle("record", "list", "record", cwd=tmp_path)

    assert (done.code, done.err) == (0, "")
    ((cycle, _, nodes, pods, refused, _, outcome),) = lines(done.out)
    assert (cycle, nodes, pods, refused, outcome) == ("1", "2", "1", "0", "1 evicted")


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("--record", ""), "--record is empty; name a folder"),
        (
            ("--record", "r", "--record-max-size", "9"),
            "--record-max-size: `9` is too small; write 1Mi or more",
        ),
        (
            ("--record", "r", "--record-max-size", "lots"),
            "--record-max-size: `lots` is not a quantity; "
            "write a number such as `250m`, `1.5` or `2Gi`",
        ),
        (
            ("--record", "r", "--record-max-age", "2d"),
            "--record-max-age: `2d` is not a duration; write one such as 336h",
        ),
        (
            ("--record", "r", "--record-max-age", "0"),
            "--record-max-age: `0` is not a duration; write one such as 336h",
        ),
    ],
)
def test_bounds_that_make_no_sense_are_errors(
    words: tuple[str, ...], says: str, tmp_path: Path
) -> None:
    assert resettle("run", "--policy", "p", *words, cwd=tmp_path) == (1, "", f"error: {says}\n")


# -- asking --------------------------------------------------------------------------------------


def ask(*words: str | Path, cwd: Path) -> Done:
    """The command in this process: there is much to ask."""
    out, err = StringIO(), StringIO()
    with chdir(cwd), redirect_stdout(out), redirect_stderr(err):
        try:
            code = run([str(word) for word in words])
        except SystemExit as end:
            code = int(end.code or 0)
        finally:
            gc.unfreeze()
            gc.enable()
    return Done(code, out.getvalue(), err.getvalue())


@pytest.fixture(scope="module")
def past(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three cycles that may move one pod each.

    `a` is declined and `b` goes in its place, `a` goes after all, `c` goes; `d` is too young.
    """
    folder = tmp_path_factory.mktemp("past")
    ages = {"a": "5h", "b": "4h", "c": "3h", "d": "1m"}
    full = node("n1").holding(*(pod(name, age=age) for name, age in ages.items()))
    first = cluster(full, node("n2")).snapshot()
    then = without(first, "b")
    archive = RecordWriter(folder / "record", PLENTY)
    for snapshot, endings in (
        (first, {"a": MoveResult.BUDGET}),
        (then, dict[str, MoveResult]()),
        (without(then, "a"), dict[str, MoveResult]()),
    ):
        archive.write(snapshot, lived(ONE_EACH, snapshot, by_name(endings)))
    archive.close()
    return folder


ONE_EACH = {**OLD_PODS, "maxNoOfPodsToEvictTotal": 1}


def without(snapshot: Snapshot, name: str) -> Snapshot:
    """The cluster five minutes later, when a pod is gone."""
    at = snapshot.taken_at + timedelta(minutes=5)
    return snapshot.next(Changes(at=at, pods=Change(gone=frozenset({f"default/{name}"}))))


def test_cycles_are_listed(past: Path) -> None:
    done = ask("record", "list", "record", cwd=past)

    assert (done.code, done.err) == (0, "")
    assert lines(done.out) == [
        [
            *("1", "2026-01-31T12:00:00Z", "2", "4", "2", "0.2 s"),
            "1 evicted, 1 refused-by-budget; planned 3 times",
        ],
        ["2", "2026-01-31T12:05:00Z", "2", "3", "1", "0.2 s", "1 evicted; planned 2 times"],
        ["3", "2026-01-31T12:10:00Z", "2", "2", "0", "0.2 s", "1 evicted; planned 2 times"],
    ]
    some = ("--since", "2026-01-31T12:01:00Z", "--until", "2026-01-31T12:09:00Z", "-o", "json")
    (row,) = json.loads(ask("record", "list", "record", *some, cwd=past).out)
    assert (row["cycle"], row["outcomes"], row["rounds"]) == (2, {"evicted": 1}, 2)
    none = ask("record", "list", "record", "--since", "2026-02-01T00:00:00Z", cwd=past)
    assert none == (0, "no cycle is recorded for that time\n", "")


@pytest.mark.parametrize(
    ("pod", "rows"),
    [
        pytest.param(
            "a",
            [
                ["1", "refused-by-budget", "is 5h old, longer than 1h; no"],
                ["2", "evicted", "is 5h 5m old, longer than 1h"],
            ],
            id="declined, then gone",
        ),
        pytest.param(
            "c",
            [
                [
                    "1–2",
                    "refused (limit-total)",
                    "is 3h 5m old, longer than 1h; the limit",
                ],
                ["3", "evicted", "is 3h 10m old, longer than 1h"],
            ],
            id="refused for two cycles, then gone",
        ),
    ],
)
def test_a_pod_is_found(pod: str, rows: list[list[str]], past: Path) -> None:
    done = ask("record", "find", "record", "--pod", f"default/{pod}", cwd=past)

    assert (done.code, done.err) == (0, "")
    for found, (cycle, outcome, why) in zip(lines(done.out), rows, strict=True):
        assert (found[0], found[-3], found[-2]) == (cycle, outcome, "PodLifeTime")
        assert found[-1].startswith(why)


def test_only_moves_are_found_if_so_asked(past: Path) -> None:
    find = ("record", "find", "record", "--moved", "-o", "json", "--pod")

    (found,) = json.loads(ask(*find, "default/c", cwd=past).out)
    assert found["cycle"] == 3
    assert json.loads(ask(*find, "default/d", cwd=past).out) == []


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("default/d",), "none of 3 cycles proposed default/d; 3 of them saw it"),
        (("default/z",), "none of 3 cycles proposed default/z; 0 of them saw it"),
        (("default/d", "--moved"), "none of 3 cycles requested the eviction of default/d"),
    ],
)
def test_a_pod_that_no_cycle_proposed_is_reported_so(
    words: tuple[str, ...], says: str, past: Path
) -> None:
    done = ask("record", "find", "record", "--pod", *words, cwd=past)

    assert done == (0, f"{says}\n", "")


def test_a_cycle_is_shown_with_what_became_of_its_moves(past: Path) -> None:
    done = ask("record", "show", "record", "--cycle", "1", cwd=past)

    assert done == (
        0,
        """\
cycle 1 of 2026-01-31T12:00:00Z: 1 evicted, 1 refused-by-budget of 4 pods on 2 nodes

ROUND  POD        NODE  PLUGIN       OUTCOME                 WHY
1      default/a  n1    PodLifeTime  refused-by-budget (no)  is 5h old, longer than 1h
2      default/b  n1    PodLifeTime  evicted                 is 4h old, longer than 1h

2 proposals refused; took 0.2 s; resettle 0.1.0
""",
        "",
    )
    shown = json.loads(ask("record", "show", "record", "-o", "json", cwd=past).out)
    assert shown["cycle"] == 3
    assert json.loads(shown["policy"]) == ONE_EACH
    assert [(it["name"], it["outcome"]) for it in shown["moves"]] == [("c", "evicted")]


@pytest.mark.parametrize(
    ("pod", "words", "note", "says"),
    [
        pytest.param(
            "a",
            (),
            "cycle 2 of 2026-01-31T12:05:00Z: "
            "eviction of default/a requested by PodLifeTime: evicted",
            "default/a would move off n1",
            id="the last cycle that moved it",
        ),
        pytest.param(
            "d",
            (),
            "cycle 3 of 2026-01-31T12:10:00Z: no eviction of default/d was requested",
            "default/d stays on n1",
            id="the last that knew it, if none moved it",
        ),
        pytest.param(
            "b",
            (),
            "this is the plan of round 2; the cycle planned 3 times",
            "default/b would move off n1",
            id="the round that moved it",
        ),
        pytest.param(
            "a",
            ("--cycle", "1"),
            "this is the plan of round 3; the cycle planned 3 times",
            "was asked to leave and stays: no",
            id="the last round if it was declined",
        ),
        pytest.param(
            "c",
            ("--at", "2026-01-31T12:09:00Z"),
            "cycle 2 of 2026-01-31T12:05:00Z: no eviction of default/c was requested",
            "the limit of 1 for this cycle is reached",
            id="as of a time",
        ),
    ],
)
def test_a_pod_of_the_past_is_explained(
    pod: str, words: tuple[str, ...], note: str, says: str, past: Path
) -> None:
    done = ask("explain", "pod", f"default/{pod}", "--record", "record", *words, cwd=past)

    assert done.code == 0
    assert note in done.err
    assert says in done.out


def test_nodes_and_cycles_of_the_past_are_explained(past: Path) -> None:
    node = ask("explain", "node", "n1", "--record", "record", "--cycle", "1", cwd=past)
    cycle = ask("explain", "cycle", "--record", "record", "--cycle", "1", cwd=past)

    assert node.code == cycle.code == 0
    assert "default/a" in node.out
    assert "PodLifeTime" in cycle.out


@pytest.mark.parametrize(("number", "moves"), [("1", ["a"]), ("2", ["b"]), ("3", [])])
def test_each_round_has_its_plan(number: str, moves: list[str], past: Path) -> None:
    words = ("--cycle", "1", "--round", number, "-o", "json")
    done = ask("plan", "--record", "record", *words, cwd=past)

    assert [it["name"] for it in json.loads(done.out)["moves"]] == moves


def test_another_policy_can_be_tried_on_the_past(past: Path, tmp_path: Path) -> None:
    write(tmp_path, {"policy.json": json.dumps(OLD_PODS)})
    words = ("--policy", tmp_path / "policy.json", "--cycle", "1", "-o", "json")
    done = ask("plan", "--record", "record", *words, cwd=past)

    assert [it["name"] for it in json.loads(done.out)["moves"]] == ["a", "b", "c"]
    assert f"using policy {tmp_path}/policy.json instead of the recorded one" in done.err


def test_a_policy_that_reads_more_than_was_read_is_turned_away(past: Path) -> None:
    words = ("--policy", LOPSIDED / "improved.yaml")
    done = ask("plan", "--record", "record", *words, cwd=past)

    assert done.code == 1
    assert "reads CSINode, Namespace, PersistentVolume, PersistentVolumeClaim, which" in done.err
    assert "a record holds only what the recorded policy read" in done.err


def test_the_past_can_be_simulated_on(past: Path, tmp_path: Path) -> None:
    write(tmp_path, {"policy.json": json.dumps(OLD_PODS)})
    words = ("--cycle", "1", "--against", tmp_path / "policy.json", "-o", "json")
    done = ask("simulate", "--record", "record", *words, cwd=past)

    assert done.code == 0
    told = json.loads(done.out)["runs"]
    assert [it["policy"] for it in told] == ["cycle 1", f"{tmp_path}/policy.json"]
    assert "the scheduler is simulated without" in done.err


# -- what cannot be answered -----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("plan", "--record", "record", "--cycle", "9"), "no cycle 9; it has 1 to 3"),
        (("plan", "--record", "record", "--at", "noon"), "--at: `noon` is not a time"),
        (
            ("plan", "--record", "record", "--at", "2020-01-01T00:00:00Z"),
            "the record begins later, with cycle 1 of 2026-01-31T12:00:00Z",
        ),
        (
            ("plan", "--record", "record", "--cycle", "1", "--round", "4"),
            "--round: cycle 1 of 2026-01-31T12:00:00Z has only 3 rounds",
        ),
        (
            ("explain", "pod", "default/z", "--record", "record"),
            "no cycle of the record has a pod `default/z`",
        ),
        (("record", "list", "nowhere"), "there is no folder `nowhere`"),
        (("record", "list", "."), "`.` holds no record"),
        (("record", "list", "record", "--since", ""), "--since is empty"),
    ],
)
def test_what_is_not_there_is_an_error(words: tuple[str, ...], says: str, past: Path) -> None:
    done = ask(*words, cwd=past)

    assert (done.code, done.out) == (1, "")
    assert says in done.err.splitlines()[-1]


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("plan",), "the following arguments are required: --policy"),
        (("plan", "--policy", "p", "--cycle", "1"), "--cycle is for --record DIR"),
        (("plan", "--policy", "p", "--round", "1"), "--round is for --record DIR"),
        (("simulate", "--policy", "p", "--at", "x"), "--at is for --record DIR"),
        (("plan", "--record", "record", "--now", "x"), "--now cannot be used with --record"),
        (("plan", "--record", "record", "--cluster", "x"), "not allowed with argument --record"),
        (("plan", "--record", "record", "--cycle", "0"), "`0` is not a number of 1 or more"),
        (("record", "find", "record"), "the following arguments are required: --pod"),
    ],
)
def test_flags_that_do_not_go_together_are_reported(
    words: tuple[str, ...], says: str, past: Path
) -> None:
    done = ask(*words, cwd=past)

    assert (done.code, done.out) == (2, "")
    assert says in done.err


def rewritten(past: Path, folder: Path, **changes: Any) -> None:
    """A copy of the record with something else in every entry."""
    shutil.copytree(past / "record", folder / "record")
    for segment in segments_in(folder / "record"):
        entries = [msgspec.json.decode(line) for line in GzipLines(segment.cycles)]
        segment.cycles.unlink()
        file = GzipWriter(segment.cycles)
        file.add(msgspec.json.encode({**entry, **changes}) + b"\n" for entry in entries)
        file.close()


def test_another_version_is_named_and_what_it_did_can_be_read(past: Path, tmp_path: Path) -> None:
    rewritten(past, tmp_path, resettle="0.0.1")
    says = "cycle 3 of 2026-01-31T12:10:00Z was recorded by resettle 0.0.1; this is 0.1.0"

    for words in (("plan",), ("explain", "pod", "default/c"), ("simulate",)):
        done = ask(*words, "--record", "record", cwd=tmp_path)
        assert (done.code, done.out) == (1, "")
        assert says in done.err
    found = ask("record", "find", "record", "--pod", "default/a", cwd=tmp_path)
    assert found.code == 1
    assert [row[0] for row in lines(found.out)] == ["1", "2"], "its moves are told all the same"
    assert "was recorded by resettle 0.0.1" in found.err
    assert ask("record", "list", "record", cwd=tmp_path).code == 0


def test_a_plugin_that_is_not_installed_any_more_is_named(past: Path, tmp_path: Path) -> None:
    policy = json.dumps(ONE_EACH).replace("PodLifeTime", "PodFortune")
    rewritten(past, tmp_path, policy=policy)

    done = ask("plan", "--record", "record", cwd=tmp_path)
    assert (done.code, done.out) == (1, "")
    assert "install the plugins that were installed at that time" in done.err
    assert "no plugin is named `PodFortune`" in done.err


def test_a_plan_that_comes_out_otherwise_is_not_shown(past: Path, tmp_path: Path) -> None:
    rewritten(past, tmp_path, policy=json.dumps(OLD_PODS))

    done = ask("plan", "--record", "record", "--cycle", "1", cwd=tmp_path)
    assert (done.code, done.out) == (1, "")
    assert "gives another plan now: round 1 had 1 moves then and has 3 now" in done.err
