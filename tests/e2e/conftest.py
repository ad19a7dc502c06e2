"""One control plane for all suites here, and a room of its own in it for each test.

These suites are collected only when asked for, by path or by `make e2e`: they need programs that a
plain `pytest` must do without.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.cluster.workspace import Room
from tests.e2e.installing.terminal import Terminal
from tests.e2e.processes.run import Account
from tests.e2e.soft_taints.account import TainterAccount
from tools.control_plane.api import Api
from tools.control_plane.build import built
from tools.control_plane.papers import ADMIN
from tools.control_plane.plane import Access, ControlPlane
from tools.go_programs.build import Programs
from tools.installers import build as installers


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Leaves these suites out of a run that names neither them nor a control plane."""
    named = any("e2e" in str(word) for word in config.invocation_params.args)
    return None if named or "RESETTLE_E2E_FOLDER" in os.environ else True


@pytest.fixture(scope="session")
def plane() -> Iterator[Access]:
    """The control plane that runs already, or one for this session."""
    if folder := os.environ.get("RESETTLE_E2E_FOLDER"):
        yield Access(Path(folder))
        return
    with ControlPlane(built()) as started:
        yield started


@pytest.fixture
def api(plane: Access) -> Iterator[Api]:
    """The API server as the admin sees it."""
    with plane.api() as opened:
        yield opened


@pytest.fixture
def room(api: Api) -> Iterator[Room]:
    """Six nodes and a namespace that nobody else uses."""
    with Room(api) as made:
        yield made


@pytest.fixture
def account(plane: Access, api: Api, tmp_path: Path) -> Iterator[Account]:
    """A ServiceAccount that may do what a run does."""
    with Account(plane, api, tmp_path) as made:
        yield made


@pytest.fixture(scope="session")
def programs() -> Programs:
    """kubectl and Helm, built on first use."""
    return installers.built()


@pytest.fixture
def terminal(programs: Programs, plane: Access, tmp_path: Path) -> Terminal:
    """A terminal of the admin of the control plane."""
    return Terminal(programs, plane.papers.kubeconfig(ADMIN), tmp_path)


@pytest.fixture
def tainter(plane: Access, room: Room, tmp_path: Path) -> Iterator[TainterAccount]:
    """The soft tainter's account as it is shipped; whatever it does, its guard has no complaint."""
    with TainterAccount(plane, room.api, tmp_path) as made:
        yield made
        assert made.refused() == []
