"""`resettle demo`: the whole run, in a pipe and at a terminal, interrupted, and on a page."""

from __future__ import annotations

import fcntl
import os
import re
import select
import signal
import subprocess
from pathlib import Path

import pytest

from tests.cli.harness import (
    HEAD,
    LIFETIME,
    RESETTLE,
    Done,
    accept_interrupts,
    at_a_terminal,
    resettle,
    surroundings,
    transcript,
)

ESCAPE = re.compile(r"\x1b\[\d+m")
BAR = re.compile(r"^(?:zone-\w)? +(\w-\d) .*?(\d+)%(?: → (\d+)%)?", re.M)


@pytest.fixture(scope="module")
def piped(tmp_path_factory: pytest.TempPathFactory) -> Done:
    """The text as a pipe gets it, in 80 columns."""
    return resettle("demo", cwd=tmp_path_factory.mktemp("demo"))


def test_the_text_is_the_same_every_time(piped: Done) -> None:
    assert piped == (0, transcript("demo.txt"), "")


def test_each_act_has_bars_a_plan_evictions_and_bars_again(piped: Done) -> None:
    acts = re.split(r"^\d of \d  ", piped.out, flags=re.M)[1:]

    assert [act.splitlines()[0] for act in acts] == [
        "A node joins",
        "A zone comes back",
        "A node runs hot",
        "A taint appears",
    ]
    for act in acts:
        assert act.count("CPU REQUESTED") == 2
        assert re.search(r"plan: \d+ pods? would move", act)
        assert re.search(r"\d+ pods? evicted", act)


@pytest.mark.parametrize(
    ("act", "node", "at_most"),
    [
        pytest.param("A zone comes back", "c-1", 55, id="the fullest node of the crowded zones"),
        pytest.param("A node runs hot", "b-2", 55, id="the hot node"),
        pytest.param("A taint appears", "a-2", 10, id="the tainted node"),
    ],
)
def test_an_act_ends_better_than_it_began(piped: Done, act: str, node: str, at_most: int) -> None:
    text = piped.out.partition(act)[2].partition(" of 4  ")[0]
    figures = [(int(was), int(now or was)) for name, was, now in BAR.findall(text) if name == node]

    (before, _), (was, after) = figures[0], figures[-1]
    assert before == was
    assert after <= at_most < before


def test_a_declined_eviction_is_shown_and_made_up_for(piped: Done) -> None:
    [(name, _)] = re.findall(r"429 for (\S+):\s+The disruption\s+budget (\w+)", piped.out)
    afterwards = piped.out.partition("429 for")[2].partition("would move")[2]

    assert "is deleted by hand" in piped.out
    assert re.search(rf"{re.escape(name)} +a-2 → ", afterwards)
    assert "evictions refused     1 by a disruption budget" in piped.out
    assert "waiting for a node    0" in piped.out


@pytest.mark.parametrize("columns", [80, 120, 200])
def test_lines_fit_the_terminal(columns: int, tmp_path: Path) -> None:
    done = resettle("demo", cwd=tmp_path, env={"COLUMNS": str(columns)})

    assert max(map(len, done.out.splitlines())) <= columns
    assert done.err == ""


@pytest.mark.parametrize(
    ("env", "coloured"),
    [
        pytest.param({}, True, id="colour"),
        pytest.param({"NO_COLOR": "1"}, False, id="NO_COLOR is honoured"),
        pytest.param({"TERM": "dumb"}, False, id="a dumb terminal gets none"),
    ],
)
def test_a_terminal_is_given_the_same(env: dict[str, str], coloured: bool, tmp_path: Path) -> None:
    seen = at_a_terminal("demo", "--fast", env=env, cwd=tmp_path)

    assert ("\x1b[" in seen) is coloured
    assert ESCAPE.sub("", seen) == transcript("demo.txt")


def test_ctrl_c_ends_it_cleanly(tmp_path: Path) -> None:
    # A pipe that holds less than the text, so that it cannot end before it is interrupted.
    ours, theirs = os.pipe()
    fcntl.fcntl(theirs, fcntl.F_SETPIPE_SZ, 4096)
    command = [*RESETTLE, "demo"]
    pipes = {"stdout": theirs, "stderr": subprocess.PIPE}
    with subprocess.Popen(  # type: ignore[call-overload]
        command, cwd=tmp_path, env=surroundings(), preexec_fn=accept_interrupts, **pipes
    ) as running:
        os.close(theirs)
        select.select([ours], [], [], 30)
        running.send_signal(signal.SIGINT)
        while os.read(ours, 1 << 16):
            pass
        _, errors = running.communicate(timeout=30)
    os.close(ours)

    assert running.returncode == 130
    assert errors.decode() == "interrupted; nothing was changed\n"


def test_the_report_shows_what_has_happened(tmp_path: Path) -> None:
    done = resettle("demo", "--report", "demo.html", cwd=tmp_path)
    page = (tmp_path / "demo.html").read_text(encoding="utf-8")

    assert done == (0, transcript("demo.txt"), "note: the report is in demo.html\n")
    assert "<h1>A demonstration of resettle</h1>" in page
    assert "This has happened" in page
    for act in ("A node joins", "A zone comes back", "A node runs hot", "A taint appears"):
        assert act in page
    assert not re.search(r"(?:src|href)=\"?(?:https?:)?//", page)


def test_a_report_that_cannot_be_written_is_an_error_before_the_run(tmp_path: Path) -> None:
    done = resettle("demo", "--report", "no/such/place.html", cwd=tmp_path)

    assert (done.code, done.out) == (1, "")
    assert done.err.startswith("error: `no/such/place.html` cannot be written")


def test_the_demo_can_run_another_policy(tmp_path: Path) -> None:
    (tmp_path / "policy.yaml").write_text(LIFETIME.replace("3600", "600"))

    done = resettle("demo", "--policy", "policy.yaml", cwd=tmp_path)

    assert done.code == 0
    assert "PodLifeTime" in done.out
    assert "LowNodeUtilization" not in done.out


@pytest.mark.parametrize(
    ("policy", "says"),
    [
        pytest.param(None, "policy.yaml", id="that is not there"),
        pytest.param(f"{HEAD}profiles: [{{nam: x}}]\n", "nam", id="with a mistake"),
    ],
)
def test_a_policy_that_cannot_be_used(policy: str | None, says: str, tmp_path: Path) -> None:
    if policy is not None:
        (tmp_path / "policy.yaml").write_text(policy)

    done = resettle("demo", "--policy", "policy.yaml", cwd=tmp_path)

    assert (done.code, done.out) == (1, "")
    assert done.err.startswith("error: ")
    assert says in done.err
