"""A kubeconfig file: which server it names, and how it says to prove who we are."""

from __future__ import annotations

import base64
import ssl
from pathlib import Path

import pytest

from resettle.errors import InputError
from resettle.kube.auth.kubeconfig import Access, read_kubeconfig
from tests.kube.auth.builders import SERVER, document, written
from tests.kube.auth.fakes import Authority, Pair, shake_hands


def in_base64(file: Path) -> str:
    return base64.b64encode(file.read_bytes()).decode()


def token_of(access: Access) -> str:
    """The token that goes with each request, empty if none does."""
    shown = dict(access.identity().headers())
    return shown.get("Authorization", "").removeprefix("Bearer ")


# -- which server, and who -----------------------------------------------------------------------

TWO = document(
    contexts=[
        {"name": "here", "context": {"cluster": "near", "user": "ann"}},
        {"name": "there", "context": {"cluster": "far", "user": "bob", "namespace": "shop"}},
        {"name": "nobody", "context": {"cluster": "far"}},
    ],
    clusters=[
        {"name": "near", "cluster": {"server": "http://near.example:8080/"}},
        {"name": "far", "cluster": {"server": "http://far.example/k8s/clusters/c1"}},
    ],
    users=[
        {"name": "ann", "user": {"token": "ann's"}},
        {"name": "bob", "user": {"token": "bob's"}},
    ],
)


@pytest.mark.parametrize(
    ("context", "server", "token"),
    [
        pytest.param(None, "http://near.example:8080", "ann's", id="the current one"),
        pytest.param("here", "http://near.example:8080", "ann's", id="by its name"),
        pytest.param("there", "http://far.example/k8s/clusters/c1", "bob's", id="another"),
        pytest.param("nobody", "http://far.example/k8s/clusters/c1", "", id="one without a user"),
    ],
)
def test_the_context_names_the_server_and_the_user(
    context: str | None, server: str, token: str, tmp_path: Path
) -> None:
    access = read_kubeconfig(written(tmp_path, TWO), context)

    assert (access.server, token_of(access)) == (server, token)


def test_a_context_can_be_chosen_where_none_is_current(tmp_path: Path) -> None:
    file = written(tmp_path, {**TWO, "current-context": ""})

    assert token_of(read_kubeconfig(file, "there")) == "bob's"


def test_json_is_yaml_enough(tmp_path: Path) -> None:
    file = written(
        tmp_path,
        '{"current-context": "x", "contexts": [{"name": "x", "context": '
        '{"cluster": "c"}}], "clusters": [{"name": "c", "cluster": '
        '{"server": "http://near.example"}}]}',
    )

    assert read_kubeconfig(file).server == "http://near.example"


@pytest.mark.parametrize(
    "token_file",
    [
        pytest.param("token", id="beside the kubeconfig"),
        pytest.param("secrets/token", id="in a folder beside it"),
        pytest.param("../token", id="above it"),
    ],
)
def test_a_token_file_is_looked_for_from_the_folder_of_the_kubeconfig(
    token_file: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = tmp_path / "home"
    (home / "secrets").mkdir(parents=True)
    (home / token_file).write_text("from-a-file\n")
    monkeypatch.chdir(tmp_path)

    access = read_kubeconfig(written(home, document(user={"tokenFile": token_file})))

    assert token_of(access) == "from-a-file"


def test_a_token_file_may_be_named_by_its_whole_path(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "home").mkdir()
    (tmp_path / "elsewhere" / "token").write_text("  from-afar  \n")
    user = {"tokenFile": str(tmp_path / "elsewhere" / "token")}

    access = read_kubeconfig(written(tmp_path / "home", document(user=user)))
    assert token_of(access) == "from-afar"


# -- authorities to trust ------------------------------------------------------------------------


def test_plain_http_needs_no_trust(tmp_path: Path) -> None:
    access = read_kubeconfig(written(tmp_path, document({"server": "http://near.example"})))

    assert access.trust is None


@pytest.mark.parametrize("by", ["file", "data", "data before file"])
def test_the_authority_of_the_kubeconfig_is_trusted_and_no_other(
    by: str, authority: Authority, tmp_path: Path
) -> None:
    (tmp_path / "ca.pem").write_bytes(authority.certificate.read_bytes())
    named = {
        "file": {"certificate-authority": "ca.pem"},
        "data": {"certificate-authority-data": in_base64(authority.certificate)},
        "data before file": {
            "certificate-authority": "gone.pem",
            "certificate-authority-data": in_base64(authority.certificate),
        },
    }[by]

    trust = read_kubeconfig(written(tmp_path, document({**SERVER, **named}))).trust

    assert trust is not None
    assert (trust.verify_mode, trust.check_hostname) == (ssl.CERT_REQUIRED, True)
    (trusted,) = trust.get_ca_certs()
    assert (("organizationName", authority.name),) in trusted["subject"]


@pytest.mark.parametrize(
    ("insecure", "verifies"),
    [
        pytest.param(True, False, id="asked to skip it"),
        pytest.param(False, True, id="asked not to skip it"),
        pytest.param(None, True, id="not asked"),
    ],
)
def test_the_server_is_verified_unless_the_kubeconfig_says_to_skip_it(
    insecure: bool | None, verifies: bool, tmp_path: Path
) -> None:
    verification = {} if insecure is None else {"insecure-skip-tls-verify": insecure}

    trust = read_kubeconfig(written(tmp_path, document({**SERVER, **verification}))).trust

    assert trust is not None
    assert (trust.verify_mode is ssl.CERT_REQUIRED) is verifies
    assert trust.check_hostname is verifies


def test_the_name_to_expect_in_the_servers_certificate_is_kept(tmp_path: Path) -> None:
    named = {**SERVER, "tls-server-name": "api.example"}

    assert read_kubeconfig(written(tmp_path, document(named))).server_name == "api.example"
    assert read_kubeconfig(written(tmp_path, document())).server_name == ""


# -- the client certificate ----------------------------------------------------------------------


@pytest.mark.parametrize("by", ["files", "data", "one of each"])
def test_a_client_certificate_is_shown_to_the_server(
    by: str, authority: Authority, server_pair: Pair, client_pair: Pair, tmp_path: Path
) -> None:
    for file in client_pair:
        (tmp_path / file.name).write_bytes(file.read_bytes())
    by_file = {"client-certificate": "client.pem", "client-key": "client.key"}
    by_data = {
        "client-certificate-data": in_base64(client_pair.certificate),
        "client-key-data": in_base64(client_pair.key),
    }
    one_of_each = {
        "client-certificate": "client.pem",
        "client-key-data": in_base64(client_pair.key),
    }
    user = {"files": by_file, "data": by_data, "one of each": one_of_each}[by]
    cluster = {**SERVER, "certificate-authority": str(authority.certificate)}

    trust = read_kubeconfig(written(tmp_path, document(cluster, user))).trust

    assert trust is not None
    guard = authority.guarding(server_pair, clients=True)
    assert shake_hands(trust, guard, "api.example") == "client"


@pytest.mark.parametrize(
    "half",
    [
        pytest.param("client-certificate", id="no key"),
        pytest.param("client-key", id="no certificate"),
    ],
)
def test_half_a_client_certificate_is_an_error(
    half: str, client_pair: Pair, tmp_path: Path
) -> None:
    """Otherwise the request would go out without the credentials that the file means to give."""
    files = dict(zip(("client-certificate", "client-key"), map(str, client_pair), strict=True))
    file = written(tmp_path, document(user={half: files[half]}))

    with pytest.raises(InputError, match=r"client-(certificate|key)"):
        read_kubeconfig(file)


def test_a_key_that_belongs_to_another_certificate_is_an_error(
    authority: Authority, server_pair: Pair, client_pair: Pair, tmp_path: Path
) -> None:
    user = {
        "client-certificate": str(client_pair.certificate),
        "client-key": str(server_pair.key),
    }

    with pytest.raises(InputError, match=r"a certificate or key cannot be used: .*mismatch"):
        read_kubeconfig(written(tmp_path, document(user=user)))
