"""How flags may be spelled, and what is said of unknown ones."""

from __future__ import annotations

import argparse

import pytest

from resettle.cli.flags.common import add_switch
from resettle.cli.parser import Parser


def parser() -> argparse.ArgumentParser:
    top = Parser(prog="tool")
    commands = top.add_subparsers(metavar="COMMAND", required=True)
    work = commands.add_parser("work")
    work.add_argument("--policy-file", "--policy", dest="policy")
    work.add_argument("-v", "--v", type=int, default=0)
    work.add_argument("--rate", type=float)
    work.add_argument("--cluster", nargs="+")
    work.add_argument("--old", action="store_true")
    add_switch(work, "--dry-run", "change nothing")
    commands.add_parser("rest")
    return top


@pytest.mark.parametrize(
    ("words", "key", "value"),
    [
        ("--policy-file x", "policy", "x"),
        ("--policy-file=x", "policy", "x"),
        ("-policy-file x", "policy", "x"),
        ("-policy-file=x", "policy", "x"),
        ("--policy_file=x", "policy", "x"),
        ("--policy x", "policy", "x"),
        ("--policy=a=b", "policy", "a=b"),
        ("--policy=--dry-run", "policy", "--dry-run"),
        ("--policy=", "policy", ""),
        ("--policy -", "policy", "-"),
        ("--policy a --policy b", "policy", "b"),
        ("-v 3", "v", 3),
        ("-v=3", "v", 3),
        ("-v3", "v", 3),
        ("--v=3", "v", 3),
        ("--v 3", "v", 3),
        ("--v=-1", "v", -1),
        ("--rate -1.5e2", "rate", -150.0),
        ("--dry-run", "dry_run", True),
        ("--dry-run=true", "dry_run", True),
        ("--dry-run=0", "dry_run", False),
        ("-dry-run=false", "dry_run", False),
        ("--dry_run", "dry_run", True),
        ("--dry-run --v 2", "dry_run", True),
        ("", "dry_run", False),
        ("--cluster a b --old", "cluster", ["a", "b"]),
        ("--cluster=a", "cluster", ["a"]),
        ("-old", "old", True),
    ],
)
def test_flags_may_be_spelled_as_in_go(words: str, key: str, value: object) -> None:
    assert getattr(parser().parse_args(["work", *words.split()]), key) == value


@pytest.mark.parametrize(
    ("words", "says"),
    [
        pytest.param(
            "work --polcy x",
            "tool work: error: there is no flag --polcy; did you mean --policy?",
            id="misspelt",
        ),
        pytest.param(
            "work --dry",
            "tool work: error: there is no flag --dry; did you mean --dry-run?",
            id="abbreviated",
        ),
        pytest.param(
            "work -x=3",
            "tool work: error: there is no flag -x; --help lists all flags",
            id="like none",
        ),
        pytest.param(
            "work ---v=3",
            "tool work: error: there is no flag ---v; did you mean --v?",
            id="too many dashes",
        ),
        pytest.param(
            "work --polcy=x --dryrun",
            "tool work: error: there is no flag --polcy; did you mean --policy?\n"
            "  there is no flag --dryrun; did you mean --dry-run?",
            id="several at once",
        ),
        pytest.param(
            "work --dry-run false",
            "tool work: error: `false` after --dry-run is not its value; write --dry-run=false",
            id="an answer apart from its switch",
        ),
        pytest.param(
            "work --dry-run=maybe",
            "tool work: error: argument --dry-run: `maybe` is neither true nor false",
            id="neither true nor false",
        ),
        pytest.param(
            "work --policy --dry-run",
            "tool work: error: --policy-file needs a value, and the flag --dry-run follows; "
            "write --policy-file=--dry-run if that is the value",
            id="a flag in place of a value",
        ),
        pytest.param(
            "work --policy",
            "tool work: error: argument --policy-file/--policy: expected one argument",
            id="no value",
        ),
        pytest.param(
            "work more",
            "tool work: error: unexpected argument `more`",
            id="a word too many",
        ),
        pytest.param(
            "wrok",
            "tool: error: there is no command `wrok`; did you mean `work`?",
            id="no such command",
        ),
        pytest.param(
            "--v=3 work",
            "tool: error: there is no flag --v; --help lists all flags",
            id="a flag before its command",
        ),
    ],
)
def test_what_is_not_understood_is_reported_and_ends_with_two(
    words: str, says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        parser().parse_args(words.split())

    errors = capsys.readouterr().err
    assert ended.value.code == 2
    assert errors[errors.index("tool") :].partition("\n")[0].startswith("tool")
    assert errors.endswith(says + "\n")
