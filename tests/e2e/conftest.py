"""One control plane for all suites here, and a workspace in it for each test.

These suites are collected only when named by path, or by `make e2e`: they need programs that a
plain `pytest` does not need.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.cluster.workspace import Workspace
from tests.e2e.installing.terminal import Terminal
from tests.e2e.migration.account import ControllerAccount
from tests.e2e.processes.run import Account
from tests.e2e.soft_taints.account import TainterAccount
from tools.control_plane.api import Api
from tools.control_plane.build import built
from tools.control_plane.papers import ADMIN
from tools.control_plane.plane import Access, ControlPlane
from tools.go_programs.build import Programs
from tools.installers import build as installers


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Ignores these suites in a run that names neither them nor a control plane."""
    named = any("e2e" in str(word) for word in config.invocation_params.args)
    return None if named or "RESETTLE_E2E_FOLDER" in os.environ else True


@pytest.fixture(scope="session")
def plane() -> Iterator[Access]:
    """The control plane that is running, or a new one for this session."""
    if folder := os.environ.get("RESETTLE_E2E_FOLDER"):
        yield Access(Path(folder))
        return
    with ControlPlane(built()) as control_plane:
        yield control_plane


@pytest.fixture
def api(plane: Access) -> Iterator[Api]:
    """A client of the API server with the token of the admin."""
    with plane.api() as client:
        yield client


@pytest.fixture
def workspace(api: Api) -> Iterator[Workspace]:
    """Six nodes and a namespace that no other test uses."""
    with Workspace(api) as created:
        yield created


@pytest.fixture
def second_workspace(api: Api) -> Iterator[Workspace]:
    """Six more nodes and a second namespace."""
    with Workspace(api) as created:
        yield created


@pytest.fixture
def account(plane: Access, api: Api, tmp_path: Path) -> Iterator[Account]:
    """A ServiceAccount with the permissions of a run."""
    with Account(plane, api, tmp_path) as created:
        yield created


@pytest.fixture(scope="session")
def programs() -> Programs:
    """kubectl and Helm, built on first use."""
    return installers.built()


@pytest.fixture
def terminal(programs: Programs, plane: Access, tmp_path: Path) -> Terminal:
    """A terminal of the admin of the control plane."""
    return Terminal(programs, plane.papers.kubeconfig(ADMIN), tmp_path)


@pytest.fixture
def tainter(plane: Access, workspace: Workspace, tmp_path: Path) -> Iterator[TainterAccount]:
    """The shipped account of the soft tainter; its admission policy must not refuse any request."""
    with TainterAccount(plane, workspace.api, tmp_path) as created:
        yield created
        assert created.refused_nodes() == []


@pytest.fixture
def controller_account(plane: Access, api: Api, tmp_path: Path) -> Iterator[ControllerAccount]:
    """The shipped account of the migration controller."""
    with ControllerAccount(plane, api, tmp_path) as created:
        yield created
