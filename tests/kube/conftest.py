"""What the tests of this package share: an authority, and certificates it has issued."""

from __future__ import annotations

import pytest

from tests.kube.auth.fakes import Authority, Pair


@pytest.fixture(scope="session")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("authority"), "a throw-away authority")


@pytest.fixture(scope="session")
def server_pair(authority: Authority) -> Pair:
    return authority.issued("server", "127.0.0.1", "api.example")


@pytest.fixture(scope="session")
def client_pair(authority: Authority) -> Pair:
    return authority.issued("client")
