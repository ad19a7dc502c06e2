"""How the command behaves at a terminal and in a pipe: colour, Ctrl-C, an early end, quick help."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

import resettle as package
from tests.cli.harness import (
    HEAD,
    LOPSIDED,
    NOW,
    RESETTLE,
    accept_interrupts,
    at_a_terminal,
    resettle,
    surroundings,
    transcript,
)

WORDS = ("plan", "--policy", str(LOPSIDED / "policy.yaml"), "--now", NOW, "--cluster")
CLUSTER = LOPSIDED / "cluster.yaml"
ESCAPE = re.compile(r"\x1b\[\d+m")


def test_a_terminal_gets_colour_that_says_nothing_new(tmp_path: Path) -> None:
    seen = at_a_terminal(*WORDS, str(CLUSTER), env={}, cwd=tmp_path)

    assert "\x1b[1m8 pods would move\x1b[0m" in seen
    assert ESCAPE.sub("", seen) == transcript("lopsided.txt")


@pytest.mark.parametrize(
    ("env", "coloured"),
    [
        pytest.param({"NO_COLOR": "1"}, False, id="NO_COLOR is honoured"),
        pytest.param({"NO_COLOR": "anything"}, False, id="whatever it says"),
        pytest.param({"NO_COLOR": ""}, True, id="unless it is empty"),
        pytest.param({"TERM": "dumb"}, False, id="a dumb terminal gets none"),
    ],
)
def test_colour_can_be_turned_off(env: dict[str, str], coloured: bool, tmp_path: Path) -> None:
    assert (
        bool(ESCAPE.search(at_a_terminal(*WORDS, str(CLUSTER), env=env, cwd=tmp_path))) is coloured
    )


def test_there_is_no_colour_without_a_terminal(tmp_path: Path) -> None:
    assert "\x1b" not in resettle(*WORDS, CLUSTER, cwd=tmp_path).out


def test_ctrl_c_ends_it_with_a_word_and_no_traceback(tmp_path: Path) -> None:
    # The warning shows that the policy has been read, so what comes next is waiting for stdin.
    policy = f"{HEAD}profiles:\n  - plugins: {{sort: {{enabled: [AgeSort]}}}}\n"
    policy += "    pluginConfig: [{name: AgeSort}]\n"
    (tmp_path / "policy.yaml").write_text(policy)
    with subprocess.Popen(
        [*RESETTLE, "plan", "--policy", "policy.yaml", "--cluster", "-"],
        cwd=tmp_path,
        env=surroundings(),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=accept_interrupts,
    ) as running:
        assert running.stderr
        assert running.stderr.readline().startswith("warning: policy.yaml:4:")
        running.send_signal(signal.SIGINT)
        out, err = running.communicate()

    assert (running.returncode, out) == (130, "")
    assert err.splitlines()[-1] == "interrupted; nothing was changed"
    assert "Traceback" not in err


@pytest.mark.parametrize("output", ["table", "json", "yaml"])
def test_a_reader_that_leaves_early_is_no_error(output: str, tmp_path: Path) -> None:
    """As in `resettle plan … | head -1`."""
    with subprocess.Popen(
        [*RESETTLE, *WORDS, "-", "-o", output],
        cwd=tmp_path,
        env=surroundings(),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as running:
        assert running.stdin
        assert running.stdout
        assert running.stderr
        running.stdout.close()
        running.stdin.write(CLUSTER.read_bytes())
        running.stdin.close()
        err = running.stderr.read()

    assert (running.returncode, err) == (0, b"")


def test_head_shows_the_first_line_and_nothing_else(tmp_path: Path) -> None:
    piped = f"{' '.join((*RESETTLE, *WORDS, str(CLUSTER)))} | head -1"
    done = subprocess.run(
        piped, shell=True, cwd=tmp_path, env=surroundings(), capture_output=True, check=False
    )

    assert done.stdout.decode() == "8 pods would move of 34 pods on 6 nodes, off 2 nodes.\n"
    assert done.stderr == b""


@pytest.mark.parametrize(
    "words", [pytest.param(["--help"], id="resettle"), pytest.param(["plan", "--help"], id="plan")]
)
def test_help_answers_without_importing_anything_third_party(
    words: list[str], tmp_path: Path
) -> None:
    program = f"""
import sys
before = set(sys.modules)
from resettle.cli.main import run
try:
    run({words!r})
except SystemExit as end:
    new = {{name.partition(".")[0] for name in set(sys.modules) - before}}
    print(end.code, sorted(new - sys.stdlib_module_names), file=sys.stderr)
"""
    done = subprocess.run(
        [sys.executable, "-c", program],
        cwd=tmp_path,
        env=surroundings(),
        capture_output=True,
        check=False,
    )

    assert done.stderr.decode() == "0 ['resettle']\n"
    assert done.stdout.startswith(b"usage: resettle")


def test_the_version_is_that_of_the_package(tmp_path: Path) -> None:
    assert resettle("--version", cwd=tmp_path) == (0, f"resettle {package.__version__}\n", "")
