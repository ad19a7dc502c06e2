"""Which kubeconfig counts, how several are read as one, and what a pod does without any."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
import yaml

from resettle.errors import InputError
from resettle.kube.auth.access import Access
from resettle.kube.auth.identity import in_cluster_access
from resettle.kube.auth.kubeconfig import find_access, read_kubeconfig
from resettle.testing import ManualClock
from tests.kube.auth.builders import document
from tests.kube.auth.fakes import Authority


def file_of(folder: Path, name: str, content: dict[str, Any]) -> str:
    file = folder / name
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(yaml.safe_dump(content))
    return str(file)


def cluster(name: str, server: str) -> dict[str, Any]:
    return {"name": name, "cluster": {"server": server}}


def user(name: str, **says: Any) -> dict[str, Any]:
    return {"name": name, "user": says}


def context(name: str, cluster: str, user: str) -> dict[str, Any]:
    return {"name": name, "context": {"cluster": cluster, "user": user}}


def shown(access: Access) -> dict[str, str]:
    return dict(access.identity().headers())


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home directory with nothing in it, on a machine that is no pod."""
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.delenv("KUBECONFIG", raising=False)
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    return tmp_path / "home"


# -- which file ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("flag", "variable", "server"),
    [
        pytest.param("flag", "first:second", "http://flag.example", id="the one that is named"),
        pytest.param(None, "first:second", "http://first.example", id="the first of several"),
        pytest.param(None, "::second", "http://second.example", id="the first that is named"),
        pytest.param(None, "gone:second", "http://second.example", id="the first that is there"),
        pytest.param(None, "", "http://home.example", id="empty: the one at home"),
        pytest.param(None, None, "http://home.example", id="unset: the one at home"),
    ],
)
def test_a_flag_counts_before_the_variable_and_that_before_the_home_directory(
    flag: str | None,
    variable: str | None,
    server: str,
    home: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name in ("flag", "first", "second"):
        file_of(tmp_path, name, document({"server": f"http://{name}.example"}))
    file_of(home, ".kube/config", document({"server": "http://home.example"}))
    monkeypatch.chdir(tmp_path)
    if variable is not None:
        monkeypatch.setenv("KUBECONFIG", variable)

    assert find_access(flag).server == server


@pytest.mark.parametrize("variable", ["", "gone:lost"])
def test_without_any_file_the_first_that_was_looked_for_is_named(
    variable: str, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KUBECONFIG", variable)

    looked_for = "gone" if variable else f"{home}/.kube/config"
    with pytest.raises(InputError, match=f"there is no kubeconfig {looked_for}; name one with"):
        find_access()


# -- several as one ------------------------------------------------------------------------------


@pytest.fixture
def merged(home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two files that share some names."""
    near = file_of(
        tmp_path,
        "near/config",
        {
            "contexts": [context("here", "c", "u")],
            "clusters": [cluster("c", "http://near.example")],
            "users": [user("u", tokenFile="token")],
        },
    )
    far = file_of(
        tmp_path,
        "far/config",
        {
            "current-context": "here",
            "contexts": [context("here", "other", "other"), context("there", "c", "v")],
            "clusters": [cluster("c", "http://far.example"), cluster("d", "http://d.example")],
            "users": [user("u", token="never"), user("v", tokenFile="token")],
        },
    )
    (tmp_path / "near" / "token").write_text("nearby")
    (tmp_path / "far" / "token").write_text("faraway")
    monkeypatch.setenv("KUBECONFIG", f"{near}:{far}")


@pytest.mark.usefixtures("merged")
@pytest.mark.parametrize(
    ("context", "token"),
    [
        pytest.param(None, "nearby", id="the current context of the second, as the first has it"),
        pytest.param("there", "faraway", id="paths start from the file that holds them"),
    ],
)
def test_of_two_entries_with_one_name_the_first_counts(context: str | None, token: str) -> None:
    access = find_access(None, context)

    assert access.server == "http://near.example"
    assert shown(access) == {"Authorization": f"Bearer {token}"}


@pytest.mark.usefixtures("merged")
def test_an_entry_that_no_file_has_is_an_error_that_names_them_all(tmp_path: Path) -> None:
    with pytest.raises(InputError) as caught:
        find_access(None, "nowhere")

    files = f"{tmp_path}/near/config, {tmp_path}/far/config"
    assert str(caught.value) == f"{files} has no entry `nowhere` under `contexts`"


# -- impersonation -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("says", "headers"),
    [
        pytest.param({"as": "ann"}, [("Impersonate-User", "ann")], id="a user"),
        pytest.param(
            {"as": "ann", "as-uid": "7", "as-groups": ["a", "b"]},
            [
                ("Impersonate-User", "ann"),
                ("Impersonate-Uid", "7"),
                ("Impersonate-Group", "a"),
                ("Impersonate-Group", "b"),
            ],
            id="with groups, each by itself",
        ),
        pytest.param(
            {"as": "ann", "as-user-extra": {"scopes": ["x", "y"]}},
            [
                ("Impersonate-User", "ann"),
                ("Impersonate-Extra-scopes", "x"),
                ("Impersonate-Extra-scopes", "y"),
            ],
            id="with more to say",
        ),
        pytest.param({"token": "t"}, [], id="no other user"),
    ],
)
def test_a_user_may_ask_in_the_name_of_another(
    says: dict[str, Any], headers: list[tuple[str, str]], tmp_path: Path
) -> None:
    file = file_of(tmp_path, "config", document(user=says))

    assert list(read_kubeconfig(file).impersonation) == headers


@pytest.mark.parametrize(
    ("says", "error"),
    [
        pytest.param({"as-groups": ["a"]}, "need `as` beside them", id="groups without a user"),
        pytest.param({"as": "a", "as-groups": "b"}, "is a list", id="groups that are no list"),
        pytest.param({"as": "a\r\nX: y"}, "must be plain ASCII", id="a name with a line end"),
    ],
)
def test_a_name_that_cannot_be_asked_in_is_an_error(
    says: dict[str, Any], error: str, tmp_path: Path
) -> None:
    file = file_of(tmp_path, "config", document(user=says))

    with pytest.raises(InputError, match=error):
        read_kubeconfig(file)


# -- in a pod ------------------------------------------------------------------------------------


@pytest.fixture
def account(authority: Authority, tmp_path: Path) -> Path:
    """What a kubelet mounts into a pod."""
    folder = tmp_path / "account"
    folder.mkdir()
    (folder / "ca.crt").write_bytes(authority.certificate.read_bytes())
    (folder / "token").write_text("mounted\n")
    return folder


@pytest.mark.parametrize(
    ("environment", "server"),
    [
        pytest.param(
            {"KUBERNETES_SERVICE_HOST": "10.0.0.1"}, "https://10.0.0.1:443", id="an address"
        ),
        pytest.param(
            {"KUBERNETES_SERVICE_HOST": "10.0.0.1", "KUBERNETES_SERVICE_PORT": "6443"},
            "https://10.0.0.1:6443",
            id="with a port",
        ),
        pytest.param(
            {"KUBERNETES_SERVICE_HOST": "fd00::1"}, "https://[fd00::1]:443", id="a long one"
        ),
    ],
)
def test_a_pod_signs_in_as_its_service_account(
    environment: dict[str, str], server: str, account: Path
) -> None:
    access = in_cluster_access(environment, account)

    assert access is not None
    assert (access.server, shown(access)) == (server, {"Authorization": "Bearer mounted"})
    assert access.trust is not None
    assert len(access.trust.get_ca_certs()) == 1


def test_what_is_no_pod_has_no_account(account: Path) -> None:
    assert in_cluster_access({}, account) is None


@pytest.mark.parametrize("missing", ["ca.crt", "token"])
def test_an_account_that_is_not_mounted_is_an_error_that_names_the_file(
    missing: str, account: Path
) -> None:
    (account / missing).unlink()

    with pytest.raises(InputError, match=f"{missing} cannot be read: No such file or directory"):
        in_cluster_access({"KUBERNETES_SERVICE_HOST": "10.0.0.1"}, account)


def test_a_service_account_has_no_contexts(
    home: Path, account: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "10.0.0.1")
    monkeypatch.setattr("resettle.kube.auth.identity.SERVICE_ACCOUNT_DIR", account)

    with pytest.raises(InputError, match="there is no kubeconfig with a context `x`"):
        find_access(None, "x")
    assert find_access().server == "https://10.0.0.1:443"


def test_the_token_of_an_account_is_read_again_when_a_minute_has_passed(account: Path) -> None:
    clock = ManualClock()
    access = in_cluster_access({"KUBERNETES_SERVICE_HOST": "10.0.0.1"}, account, clock)
    assert access is not None
    identity = access.identity()
    (account / "token").write_text("rotated")

    clock.advance(timedelta(seconds=59))
    assert not identity.is_due()
    clock.advance(timedelta(seconds=1))
    assert identity.is_due()
    identity.renew()

    assert shown(access) == {"Authorization": "Bearer rotated"}
    assert not identity.is_due()


def test_a_token_that_is_being_replaced_is_kept_meanwhile(account: Path) -> None:
    access = in_cluster_access({"KUBERNETES_SERVICE_HOST": "10.0.0.1"}, account)
    assert access is not None
    (account / "token").unlink()

    access.identity().renew()

    assert shown(access) == {"Authorization": "Bearer mounted"}
