"""Where kubectl is not installed, its tests are left out, and the summary says so."""

from __future__ import annotations

import shutil

import pytest

KUBECTL = shutil.which("kubectl")
collect_ignore = [] if KUBECTL else ["test_pocket_kubectl.py"]


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    if not KUBECTL:
        terminalreporter.write_line(
            "kubectl is not installed: the pocket server was not tried with it"
        )
