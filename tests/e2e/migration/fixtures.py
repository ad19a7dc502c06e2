"""Fixtures of the suites about migration jobs; a suite imports those that it needs."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.migration.account import ControllerAccount
from tests.e2e.migration.harness import remove_jobs
from tests.e2e.processes.run import READ_WORKLOADS, RULES, Account, AuditedUser
from tools.control_plane.api import Api
from tools.control_plane.plane import Access

CREATE_JOBS = [
    {
        "apiGroups": ["resettle.dev"],
        "resources": ["podmigrationjobs"],
        "verbs": ["list", "watch", "create"],
    },
]


@pytest.fixture(scope="module")
def shipped(plane: Access, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControllerAccount]:
    """The shipped account of the migration controller."""
    folder = tmp_path_factory.mktemp("migration")
    with plane.api() as api, ControllerAccount(plane, api, folder) as account:
        yield account


@pytest.fixture
def controller_account(shipped: ControllerAccount, api: Api) -> Iterator[ControllerAccount]:
    """The shipped account, with no jobs before and after the test."""
    remove_jobs(api)
    yield shipped
    remove_jobs(api)


@pytest.fixture
def audited(controller_account: ControllerAccount) -> AuditedUser:
    """The requests of the controller from now on."""
    return AuditedUser(controller_account.plane, controller_account.user)


@pytest.fixture
def descheduler(plane: Access, api: Api, tmp_path: Path) -> Iterator[Account]:
    """An account of a descheduler that moves pods by jobs."""
    with Account(plane, api, tmp_path, [*RULES, *READ_WORKLOADS, *CREATE_JOBS]) as created:
        yield created


@pytest.fixture
def run_account(plane: Access, api: Api, tmp_path: Path) -> Iterator[Account]:
    """An account of a descheduler that evicts pods and reads workloads."""
    with Account(plane, api, tmp_path, [*RULES, *READ_WORKLOADS]) as created:
        yield created
