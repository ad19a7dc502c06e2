"""Fixtures of the suites about migration jobs; a suite imports those that it needs."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.e2e.migration.account import ControllerAccount
from tests.e2e.migration.harness import remove_jobs
from tests.e2e.processes.run import AuditedUser
from tools.control_plane.api import Api
from tools.control_plane.plane import Access


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
