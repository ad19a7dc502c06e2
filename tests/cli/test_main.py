"""The front door: a command is read alone, and is the same as among all others."""

from __future__ import annotations

import re

import pytest

from resettle.cli.main import COMMANDS, build_parser


@pytest.mark.parametrize("command", COMMANDS)
def test_a_command_read_alone_says_what_it_says_among_others(
    command: str, capsys: pytest.CaptureFixture[str]
) -> None:
    outputs = []
    for top in (build_parser(), build_parser(command)):
        with pytest.raises(SystemExit) as end:
            top.parse_args([command, "--help"])
        outputs.append((end.value.code, capsys.readouterr().out))

    assert outputs[0] == outputs[1]
    assert outputs[0][1].startswith(f"usage: resettle {command} ")


@pytest.mark.parametrize("meant", [None, "--help", "plann"])
def test_all_commands_are_shown_when_none_is_meant(meant: str | None) -> None:
    shown = build_parser(meant).format_help()

    names = [line.split()[0] for line in shown.splitlines() if re.match(r" {4}\S", line)]
    assert names == list(COMMANDS)
