"""`resettle migrate`, asked in this process."""

from __future__ import annotations

import io
import sys
from pathlib import Path
from typing import Protocol

import pytest

from resettle.cli.main import run
from tests.cli.harness import Done


class Ask(Protocol):
    """Asks about files, and gives the answer."""

    def __call__(self, *words: str, within: Path | None = None, stdin: str = "") -> Done:
        """The exit code and what was said."""


@pytest.fixture
def ask(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Ask:
    """The command, in a folder."""

    def asked(*words: str, within: Path | None = None, stdin: str = "") -> Done:
        monkeypatch.chdir(within or tmp_path)
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(stdin.encode())))
        code = run(["migrate", *words])
        out, err = capsys.readouterr()
        return Done(code, out, err)

    return asked
