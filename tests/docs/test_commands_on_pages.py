"""Every page is followed as a newcomer would: its commands are typed, and print what it shows."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from shutil import which

import pytest

from tests.docs.harness import follow, like, sitting_down
from tests.docs.page import ROOT, Page, Shown, pages

ELSEWHERE = {
    "docs/policy/load-aware.md": "tests/docs/test_load_aware_page.py",
    "docs/policy/rebalancing-vms.md": "tests/docs/test_rebalancing_vms_page.py",
    "docs/operate/install.md": "tests/e2e/test_install_page.py",
    "docs/extend/write-a-plugin.md": "tests/examples/test_tutorial.py",
    "docs/extend/test-controllers.md": "tests/docs/test_testing_controllers_page.py",
    "examples/moving-day/README.md": "tests/examples/test_out_of_tree.py",
    "examples/please-leave/README.md": "tests/examples/test_out_of_tree_mover.py",
    "examples/tidy-finished/README.md": "tests/examples/test_out_of_tree_controller.py",
}
"""Pages that take more than a shell, and who follows them instead."""

NEEDS: Counter[tuple[str, str]] = Counter(
    {
        ("README.md", "Python 3.11 or newer, and kubectl for the third line"): 1,
        (
            "docs/start/getting-started.md",
            "a clone of this repository, Python 3.11 or newer, and make",
        ): 1,
        ("docs/operate/monitoring.md", "a run at work on this machine"): 1,
        (
            "docs/operate/monitoring.md",
            "kubectl, and a cluster with Grafana and the Prometheus Operator",
        ): 1,
        ("docs/operate/movers.md", "kubectl, and a run that has just evicted pods"): 1,
        ("docs/start/plans.md", "kubectl"): 1,
        ("docs/policy/rebalancing-vms.md", "kubectl, and a clone of this repository"): 1,
        ("docs/operate/run.md", "kubectl, and a run at work on this machine"): 1,
        ("docs/policy/soft-taints.md", "kubectl, and a clone of this repository"): 2,
        ("docs/extend/testing.md", "kubectl, and such a server with its kubeconfig in `config`"): 1,
        ("docs/operate/troubleshooting.md", "kubectl"): 1,
        ("docs/reference/plugins/MigrationLimits.md", "kubectl"): 1,
    }
)
"""What is not run here, by page and by what it takes. Let it grow only for a good reason."""

AT_HAND = frozenset({"kubectl"} if which("kubectl") else ())
"""What is needed and may be there; `tests/e2e` has it in any case."""


def is_made(page: Page) -> bool:
    """Whether what the page shows is put there by running it; `test_plugin_pages` does so again."""
    return page.path.parent.name == "plugins"


FOLLOWED = [
    page for page in pages() if page.name not in ELSEWHERE and not is_made(page) and page.commands
]


@pytest.mark.parametrize("page", [pytest.param(page, id=page.name) for page in FOLLOWED])
def test_a_page_can_be_followed(page: Page, tmp_path: Path) -> None:
    with sitting_down(tmp_path) as reader:
        follow(page, reader, AT_HAND)


def test_what_is_not_run_is_known() -> None:
    marked = Counter(
        (page.name, block.needs)
        for page in pages()
        for block in page.blocks
        if block.needs and block.commands
    )

    assert marked == NEEDS


PROGRAMS = ("kubectl", "helm", "docker", "curl", "make", "pip", "git")


@pytest.mark.parametrize("page", [pytest.param(page, id=page.name) for page in FOLLOWED])
def test_what_takes_more_than_a_shell_says_so(page: Page) -> None:
    asked = {
        word
        for block in page.blocks
        if not block.needs
        for shown in block.commands
        for word in shown.command.split()
    }

    assert asked.isdisjoint(PROGRAMS)


def test_pages_that_are_followed_elsewhere_are_followed_there() -> None:
    for page, test in ELSEWHERE.items():
        assert Page(page).commands
        assert Path(page).name in (ROOT / test).read_text(encoding="utf-8")


# -- the reader --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("shown", "printed", "so"),
    [
        pytest.param("a\nb\n", "a\nb\n", True, id="the same"),
        pytest.param("a\nb\n", "a\nc\n", False, id="another line"),
        pytest.param("a\n", "a\nb\n", False, id="a line more"),
        pytest.param("a\n…\n", "a\nb\nc\n", True, id="any lines"),
        pytest.param("a\n…\n", "a\n", True, id="none is any"),
        pytest.param("…\nc\n", "a\nb\nc\n", True, id="any lines first"),
        pytest.param("a … c\n", "a b c\n", True, id="any words"),
        pytest.param("a … c\n", "a\nc\n", False, id="but not another line"),
        pytest.param(
            "at 2026-01-31T12:00:00Z\n", "at 2027-02-01T01:02:03.5Z\n", True, id="another time"
        ),
    ],
)
def test_what_is_shown_is_compared(shown: str, printed: str, so: bool) -> None:
    assert like(shown, printed) is so


def test_a_command_that_prints_something_else_is_found(tmp_path: Path) -> None:
    with sitting_down(tmp_path) as reader:
        reader.type(Shown("echo one", "one\n"))
        with pytest.raises(AssertionError, match="is shown as"):
            reader.type(Shown("echo one", "two\n"))
        with pytest.raises(AssertionError, match="false"):
            reader.type(Shown("false", ""))


def test_a_key_is_pressed_once_all_above_it_is_there(tmp_path: Path) -> None:
    waits = "python -c 'import time; print(1); time.sleep(600)' || echo stopped"

    with sitting_down(tmp_path) as reader:
        reader.type(Shown(f"trap : INT; {waits}", "1\n^C\n…\nstopped\n"))
