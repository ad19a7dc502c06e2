"""`resettle snapshot`: what it writes, what it says, and what other commands make of it."""

from __future__ import annotations

import gzip
import json
import os
import re
import subprocess
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from resettle.model.kinds import KINDS
from resettle.testing import ApiServer
from tests.cli.harness import (
    LIFETIME,
    LOPSIDED,
    NOW,
    RESETTLE,
    lopsided_objects,
    resettle,
    surroundings,
    transcript,
)

POLICY = LOPSIDED / "policy.yaml"
PLAN = ("--policy", POLICY, "--now", NOW)
COUNTS = "6 nodes, 34 pods, 7 namespaces, 2 poddisruptionbudgets"


@pytest.fixture(scope="module")
def api_server() -> Iterator[ApiServer]:
    with ApiServer(lopsided_objects()) as api_server:
        yield api_server


@pytest.fixture
def config(api_server: ApiServer, tmp_path: Path) -> Path:
    return api_server.kubeconfig(tmp_path / "config")


def written(file: Path) -> dict[str, Any]:
    document: dict[str, Any] = json.loads(gzip.decompress(file.read_bytes()))
    return document


def stamp(file: Path) -> str:
    at: str = written(file)["metadata"]["annotations"]["resettle/taken-at"]
    return at


# -- there and back ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("words", "file"),
    [
        pytest.param((), "cluster.json.gz", id="by default"),
        pytest.param(("-o", "there.json.gz"), "there.json.gz", id="under a name"),
        pytest.param(("--output", "there.json"), "there.json", id="whatever the name"),
        pytest.param(("--policy", str(POLICY)), "cluster.json.gz", id="for one policy"),
    ],
)
def test_the_plan_from_a_capture_is_the_plan_from_the_cluster(
    words: tuple[str, ...], file: str, config: Path, tmp_path: Path
) -> None:
    done = resettle("snapshot", "--kubeconfig", config, *words, cwd=tmp_path)
    size = (tmp_path / file).stat().st_size
    plan = resettle("plan", "--cluster", file, *PLAN, "-o", "json", cwd=tmp_path)

    counts = COUNTS if "--policy" not in words else COUNTS.replace(" 7 namespaces,", "")
    assert done == (0, "", f"{file}: {counts}; {size:,} bytes\n")
    assert plan == (0, transcript("lopsided.json"), "")


def test_a_capture_goes_through_a_pipe(config: Path, tmp_path: Path) -> None:
    command = " ".join(RESETTLE)
    piped = subprocess.run(
        f"{command} snapshot --kubeconfig {config} -o - "
        f"| {command} plan --cluster - {' '.join(map(str, PLAN))} -o json",
        shell=True,
        cwd=tmp_path,
        env=surroundings(),
        capture_output=True,
        check=False,
    )

    assert piped.stdout.decode() == transcript("lopsided.json")
    assert piped.stderr.decode().startswith(f"standard output: {COUNTS}; ")
    assert os.listdir(tmp_path) == ["config"]


@pytest.mark.parametrize(
    "words",
    [
        pytest.param(("explain", "cycle", *PLAN), id="explain"),
        pytest.param(("simulate", *PLAN), id="simulate"),
    ],
)
@pytest.mark.parametrize("hashing", [(), ("--hash-names",)], ids=["plain", "hashed"])
def test_other_commands_read_a_capture_as_well(
    words: tuple[str, ...], hashing: tuple[str, ...], config: Path, tmp_path: Path
) -> None:
    resettle("snapshot", "--kubeconfig", config, *hashing, cwd=tmp_path)
    done = resettle(*words, "--cluster", "cluster.json.gz", cwd=tmp_path)
    same = resettle(*words, "--cluster", LOPSIDED / "cluster.yaml", cwd=tmp_path)

    assert (done.code, done.err) == (0, "")
    assert "34 pods on 6 nodes" in done.out.splitlines()[0]
    assert hashing or done.out == same.out
    assert not hashing or "shop" not in done.out


@pytest.mark.parametrize(
    ("words", "asked"),
    [
        pytest.param(
            (),
            {*(kind.path for kind in KINDS.values()), "/apis/metrics.k8s.io/v1beta1/nodes"},
            id="all that is known, and the metrics API if it is there",
        ),
        pytest.param(
            ("--policy", str(POLICY)),
            {KINDS[kind].path for kind in ("Node", "Pod", "PodDisruptionBudget")},
            id="what a policy reads",
        ),
    ],
)
def test_only_what_is_needed_is_listed(
    words: tuple[str, ...], asked: set[str], tmp_path: Path
) -> None:
    with ApiServer(lopsided_objects()) as api_server:
        config = api_server.kubeconfig(tmp_path / "config")
        resettle("snapshot", "--kubeconfig", config, *words, cwd=tmp_path)

    assert {(it.verb, it.path) for it in api_server.requests} == {("list", path) for path in asked}


# -- the time ------------------------------------------------------------------------------------


THEN = "2020-01-01T00:00:00Z"
"""Before any of the pods was made."""


@pytest.fixture
def capture(config: Path, tmp_path: Path) -> Path:
    """A capture that says it was taken then."""
    resettle("snapshot", "--kubeconfig", config, cwd=tmp_path)
    (tmp_path / "lifetime.yaml").write_text(LIFETIME)
    file = tmp_path / "cluster.json.gz"
    text = gzip.decompress(file.read_bytes()).replace(stamp(file).encode(), THEN.encode())
    (tmp_path / "then.json.gz").write_bytes(gzip.compress(text))
    return tmp_path / "then.json.gz"


@pytest.mark.parametrize("command", [("plan",), ("explain", "cycle"), ("simulate",)], ids=" ".join)
def test_a_capture_is_planned_for_the_time_it_was_taken(
    command: tuple[str, ...], capture: Path, tmp_path: Path
) -> None:
    asked = (*command, "--cluster", str(capture), "--policy", "lifetime.yaml")
    unsaid = resettle(*asked, cwd=tmp_path)

    assert unsaid == resettle(*asked, "--now", THEN, cwd=tmp_path)
    assert "Nothing would move" in unsaid.out or "nothing moved" in unsaid.out
    named = resettle(*asked, "--now", NOW, cwd=tmp_path)
    assert re.search(r"\d+ pods (would move|moved)", named.out)


def test_a_capture_says_when_it_was_taken(config: Path, tmp_path: Path) -> None:
    before = datetime.now(UTC).replace(microsecond=0)
    resettle("snapshot", "--kubeconfig", config, cwd=tmp_path)

    taken = datetime.fromisoformat(stamp(tmp_path / "cluster.json.gz"))
    assert before <= taken <= datetime.now(UTC)


def test_captures_that_disagree_are_planned_for_the_present(capture: Path, tmp_path: Path) -> None:
    empty = {"kind": "List", "metadata": {"annotations": {"resettle/taken-at": NOW}}, "items": []}
    (tmp_path / "other.json").write_text(json.dumps(empty))
    began = f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%S}"
    words = ("--cluster", capture, "other.json", "--policy", "lifetime.yaml", "-o", "json")
    done = resettle("plan", *words, cwd=tmp_path)
    named = resettle("plan", *words, "--now", NOW, cwd=tmp_path)

    assert done.err == (
        "note: the captures were taken at 2020-01-01T00:00:00Z and 2026-01-31T12:00:00Z, "
        "so the plan is for the present; set another time with --now\n"
    )
    assert json.loads(done.out)["snapshot"]["taken_at"][:19] >= began
    assert named.err == ""


# -- hashed --------------------------------------------------------------------------------------


def test_a_salt_gives_the_same_digests_again_and_none_gives_others(
    config: Path, tmp_path: Path
) -> None:
    hashing = ("snapshot", "--kubeconfig", config, "--hash-names")
    for name, words in {
        "a": ("--salt", "s"),
        "b": ("--salt", "s"),
        "c": ("--salt", "t"),
        "d": (),
        "e": (),
    }.items():
        resettle(*hashing, *words, "-o", name, cwd=tmp_path)
    a, b, *others = (written(tmp_path / name)["items"] for name in "abcde")

    assert a == b
    assert all(one != other for one, other in zip((a, *others), (*others, a), strict=True))


def test_a_digest_shows_which_pod_is_meant(config: Path, tmp_path: Path) -> None:
    salted = ("--salt", "s")
    resettle("snapshot", "--kubeconfig", config, "--hash-names", *salted, cwd=tmp_path)
    told = resettle("snapshot", *salted, "--digest", "shop", "cart-1", "default", cwd=tmp_path)
    (shop, cart, same) = (line.split("  ") for line in told.out.splitlines())
    asked = ("explain", "pod", f"{shop[0]}/{cart[0]}", "--cluster", "cluster.json.gz", *PLAN)
    done = resettle(*asked, cwd=tmp_path)

    assert (told.code, told.err) == (0, "")
    assert (shop[1], cart[1], same) == ("shop", "cart-1", ["default", "default"])
    assert done.code == 0
    assert done.out.startswith(f"{shop[0]}/{cart[0]} would move off ")
