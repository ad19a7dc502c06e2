"""The page about `resettle snapshot`, and its help."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from resettle.cli.main import build_parser
from tests.cli.harness import surroundings
from tests.docs.page import doc


def test_every_flag_is_explained_on_the_page() -> None:
    (commands,) = (action for action in build_parser()._actions if isinstance(action.choices, dict))
    assert isinstance(commands.choices, dict)
    flags = commands.choices["snapshot"]._actions

    explained = doc("operate/snapshots.md").first_column("What goes in")
    assert {flag.option_strings[0] for flag in flags} - {"-h"} == {
        key for key in explained if key.startswith("-") and key != "-"
    }


def test_help_answers_without_importing_anything_third_party(tmp_path: Path) -> None:
    program = """
import sys
before = set(sys.modules)
from resettle.cli.main import run
try:
    run(["snapshot", "--help"])
except SystemExit:
    new = {name.partition(".")[0] for name in set(sys.modules) - before}
    print(sorted(new - sys.stdlib_module_names), file=sys.stderr)
"""
    done = subprocess.run(
        [sys.executable, "-c", program],
        cwd=tmp_path,
        env=surroundings(),
        capture_output=True,
        check=False,
    )

    assert done.stderr == b"['resettle']\n"
    assert done.stdout.startswith(b"usage: resettle snapshot")
