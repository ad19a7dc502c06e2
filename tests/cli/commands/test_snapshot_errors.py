"""`resettle snapshot` that ends early, is asked wrongly, or is watched by a person."""

from __future__ import annotations

import os
import pty
import signal
import subprocess
from pathlib import Path
from time import monotonic, sleep
from typing import Any

import pytest

from resettle.testing import ApiServer, Fault, pod
from tests.cli.harness import (
    LIFETIME,
    RESETTLE,
    accept_interrupts,
    chunk,
    lopsided_objects,
    resettle,
    surroundings,
)

PATIENCE_SECONDS = 30


# -- early ends ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("fault", "message"),
    [
        pytest.param(
            Fault(verbs=("list",), path="/api/v1/pods", status=403), "may not list pods", id="a no"
        ),
        pytest.param(
            Fault(verbs=("list",), path="/apis/policy/*", hang_up=True, times=9),
            "cannot be reached",
            id="a silence",
        ),
    ],
)
def test_an_error_leaves_the_old_capture_and_nothing_else(
    fault: Fault, message: str, tmp_path: Path
) -> None:
    (tmp_path / "cluster.json.gz").write_bytes(b"old")
    with ApiServer(lopsided_objects(), faults=[fault]) as server:
        config = server.kubeconfig(tmp_path / "config")
        done = resettle("snapshot", "--kubeconfig", config, cwd=tmp_path)

    assert (done.code, done.out) == (1, "")
    assert done.err.startswith("error: ")
    assert message in done.err
    assert sorted(os.listdir(tmp_path)) == ["cluster.json.gz", "config"]
    assert (tmp_path / "cluster.json.gz").read_bytes() == b"old"


def test_an_interrupt_leaves_the_old_capture_and_nothing_else(tmp_path: Path) -> None:
    (tmp_path / "cluster.json.gz").write_bytes(b"old")
    late = Fault(verbs=("list",), path="/api/v1/pods", delay_seconds=PATIENCE_SECONDS)
    with ApiServer(lopsided_objects(), faults=[late]) as server:
        config = str(server.kubeconfig(tmp_path / "config"))
        with subprocess.Popen(
            [*RESETTLE, "snapshot", "--kubeconfig", config],
            cwd=tmp_path,
            env=surroundings(),
            stderr=subprocess.PIPE,
            preexec_fn=accept_interrupts,
        ) as running:
            until = monotonic() + PATIENCE_SECONDS
            while not any(request.path == "/api/v1/pods" for request in server.requests):
                assert monotonic() < until, "the pods were never asked for"
                sleep(0.01)
            running.send_signal(signal.SIGINT)
            _, err = running.communicate(timeout=PATIENCE_SECONDS)

    assert (running.returncode, err) == (130, b"interrupted; nothing was changed\n")
    assert sorted(os.listdir(tmp_path)) == ["cluster.json.gz", "config"]
    assert (tmp_path / "cluster.json.gz").read_bytes() == b"old"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        pytest.param(
            ("--salt", "s"), "--salt is for --hash-names; add that, or leave it out", id="a salt"
        ),
        pytest.param(
            ("--hash-names", "--salt", ""),
            "--salt is empty; write a text, or leave it out",
            id="an empty salt",
        ),
        pytest.param(
            ("--digest", "shop"),
            "--digest needs the --salt that the names were hashed with",
            id="a digest without salt",
        ),
    ],
)
def test_flags_that_do_not_go_together_are_reported(
    words: tuple[str, ...], message: str, tmp_path: Path
) -> None:
    done = resettle("snapshot", *words, cwd=tmp_path)

    assert (done.code, done.out) == (2, "")
    assert done.err.splitlines()[-1] == f"resettle snapshot: error: {message}"


def test_a_policy_with_a_mistake_is_reported_before_the_cluster_is_asked(tmp_path: Path) -> None:
    (tmp_path / "p.yaml").write_text(LIFETIME.replace("[PodLifeTime]", "[PodLifetime]"))
    with ApiServer() as server:
        config = server.kubeconfig(tmp_path / "config")
        done = resettle("snapshot", "--kubeconfig", config, "--policy", "p.yaml", cwd=tmp_path)

    assert (done.code, server.requests) == (1, [])
    assert done.err.startswith("error: p.yaml has 1 problem\n")


# -- at a terminal -------------------------------------------------------------------------------


def seen(words: list[str], stream: str, cwd: Path) -> tuple[int, str]:
    """The exit code, and what a person sees of one stream."""
    ours, theirs = pty.openpty()
    streams: dict[str, Any] = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    command = [*RESETTLE, "snapshot", *words]
    with subprocess.Popen(
        command, cwd=cwd, env=surroundings(), **{**streams, stream: theirs}
    ) as running:
        os.close(theirs)
        text = b"".join(iter(lambda: chunk(ours), b""))
    os.close(ours)
    return running.returncode, text.decode()


def test_a_person_sees_how_far_it_is_and_then_the_summary_alone(tmp_path: Path) -> None:
    with ApiServer([pod(f"web-{i}") for i in range(600)]) as server:
        config = server.kubeconfig(tmp_path / "config")
        code, text = seen(["--kubeconfig", str(config)], "stderr", tmp_path)

    *steps, summary = text.removesuffix("\r\n").split("\r")
    assert code == 0
    assert [step.strip() for step in steps][:4] == ["", "0 nodes", "500 pods", "600 pods"]
    assert steps[-1].strip() == ""
    assert summary.startswith("cluster.json.gz: 600 pods, ")


def test_a_terminal_is_not_filled_with_bytes(tmp_path: Path) -> None:
    with ApiServer() as server:
        config = server.kubeconfig(tmp_path / "config")
        code, text = seen(["--kubeconfig", str(config), "-o", "-"], "stdout", tmp_path)

    assert (code, text, server.requests) == (1, "", [])
