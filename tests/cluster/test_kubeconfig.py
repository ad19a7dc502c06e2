"""A kubeconfig file: which server it names, and how it says to prove who we are."""

from __future__ import annotations

import base64
import ssl
from pathlib import Path
from typing import Any

import pytest
import yaml

from resettle.cluster.kubeconfig import default_kubeconfig, read_kubeconfig
from resettle.errors import InputError

from .certificates import Authority, Pair, shake_hands

Entry = dict[str, Any]
SERVER: Entry = {"server": "https://127.0.0.1:6443"}


def document(cluster: Entry = SERVER, user: Entry | None = None, **top: Any) -> Entry:
    """A kubeconfig with one context that is also the current one."""
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "here",
        "contexts": [{"name": "here", "context": {"cluster": "c", "user": "u"}}],
        "clusters": [{"name": "c", "cluster": cluster}],
        "users": [{"name": "u", "user": user or {}}],
        **top,
    }


def written(folder: Path, content: Entry | str) -> str:
    """The path of a file that holds it."""
    file = folder / "config"
    file.write_text(content if isinstance(content, str) else yaml.safe_dump(content))
    return str(file)


def in_base64(file: Path) -> str:
    return base64.b64encode(file.read_bytes()).decode()


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
def test_the_context_says_where_to_ask_and_as_whom(
    context: str | None, server: str, token: str, tmp_path: Path
) -> None:
    access = read_kubeconfig(written(tmp_path, TWO), context)

    assert (access.server, access.token) == (server, token)


def test_a_context_can_be_chosen_where_none_is_current(tmp_path: Path) -> None:
    file = written(tmp_path, {**TWO, "current-context": ""})

    assert read_kubeconfig(file, "there").token == "bob's"


def test_json_is_yaml_enough(tmp_path: Path) -> None:
    file = written(
        tmp_path,
        '{"current-context": "x", "contexts": [{"name": "x", "context": '
        '{"cluster": "c"}}], "clusters": [{"name": "c", "cluster": '
        '{"server": "http://near.example"}}]}',
    )

    assert read_kubeconfig(file).server == "http://near.example"


@pytest.mark.parametrize(
    ("token_file", "where"),
    [
        pytest.param("token", "token", id="beside the kubeconfig"),
        pytest.param("secrets/token", "secrets/token", id="in a folder beside it"),
        pytest.param("../token", "../token", id="above it"),
    ],
)
def test_a_token_file_is_looked_for_from_the_folder_of_the_kubeconfig(
    token_file: str, where: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = tmp_path / "home"
    (home / "secrets").mkdir(parents=True)
    (home / where).write_text("from-a-file\n")
    monkeypatch.chdir("/")

    access = read_kubeconfig(written(home, document(user={"tokenFile": token_file})))

    assert access.token == "from-a-file"


def test_a_token_file_may_be_named_by_its_whole_path(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "home").mkdir()
    (tmp_path / "elsewhere" / "token").write_text("  from-afar  \n")
    user = {"tokenFile": str(tmp_path / "elsewhere" / "token")}

    assert read_kubeconfig(written(tmp_path / "home", document(user=user))).token == "from-afar"


# -- whom to trust -------------------------------------------------------------------------------


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
    assert [dict(it[0] for it in ca["subject"]) for ca in trust.get_ca_certs()] == [  # type: ignore[misc]
        {"commonName": authority.name}
    ]


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
    wish = {} if insecure is None else {"insecure-skip-tls-verify": insecure}

    trust = read_kubeconfig(written(tmp_path, document({**SERVER, **wish}))).trust

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

    with pytest.raises(InputError, match="client-(certificate|key)"):
        read_kubeconfig(file)


def test_a_key_that_belongs_to_another_certificate_is_an_error(
    authority: Authority, server_pair: Pair, client_pair: Pair, tmp_path: Path
) -> None:
    user = {
        "client-certificate": str(client_pair.certificate),
        "client-key": str(server_pair.key),
    }

    with pytest.raises(InputError, match="a certificate or key cannot be used: .*mismatch"):
        read_kubeconfig(written(tmp_path, document(user=user)))


# -- what cannot be used -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("content", "context", "says"),
    [
        pytest.param(
            document(**{"current-context": ""}),
            None,
            "FILE has no `current-context`; choose one with --context",
            id="no current context",
        ),
        pytest.param(
            {"apiVersion": "v1", "kind": "Config"},
            None,
            "FILE has no `current-context`; choose one with --context",
            id="nothing in it",
        ),
        pytest.param(
            document(), "home", "FILE has no entry `home` under `contexts`", id="no such context"
        ),
        pytest.param(
            document(contexts=None),
            None,
            "FILE has no entry `here` under `contexts`",
            id="no contexts at all",
        ),
        pytest.param(
            document(clusters=[]), None, "FILE has no entry `c` under `clusters`", id="no cluster"
        ),
        pytest.param(document(users=[]), None, "FILE has no entry `u` under `users`", id="no user"),
        pytest.param(
            document({}), None, "FILE: `server` must be an http or https address", id="no server"
        ),
        pytest.param(
            document({"server": "ftp://near.example"}),
            None,
            "FILE: `server` must be an http or https address",
            id="a server of another kind",
        ),
        pytest.param(
            "- a\n- list\n",
            None,
            "FILE is not a kubeconfig: it is no mapping of clusters and users",
            id="a list",
        ),
        pytest.param(
            "", None, "FILE is not a kubeconfig: it is no mapping of clusters and users", id="empty"
        ),
        pytest.param(
            document(user={"tokenFile": "gone"}),
            None,
            "FILE: `tokenFile` gone cannot be read: No such file or directory",
            id="no token file",
        ),
        pytest.param(
            document({**SERVER, "certificate-authority": "gone.pem"}),
            None,
            "FILE: `certificate-authority` gone.pem cannot be read: No such file or directory",
            id="no authority",
        ),
        pytest.param(
            document({**SERVER, "certificate-authority-data": "not base64!"}),
            None,
            "FILE: `certificate-authority-data` is not base64",
            id="an authority that is not base64",
        ),
        pytest.param(
            document(user={"client-certificate-data": "?", "client-key-data": "?"}),
            None,
            "FILE: `client-certificate-data` is not base64",
            id="a certificate that is not base64",
        ),
    ],
)
def test_what_is_missing_or_wrong_is_named(
    content: Entry | str, context: str | None, says: str, tmp_path: Path
) -> None:
    file = written(tmp_path, content)

    with pytest.raises(InputError) as caught:
        read_kubeconfig(file, context)
    assert str(caught.value) == says.replace("FILE", file)


@pytest.mark.parametrize(
    ("user", "way"),
    [
        pytest.param({"exec": {"command": "aws"}}, "exec", id="a command"),
        pytest.param({"auth-provider": {"name": "oidc"}}, "auth-provider", id="a provider"),
        pytest.param({"username": "ann", "password": "x"}, "username", id="a password"),
        pytest.param({"token": "t", "as": "root"}, "as", id="in the name of another"),
        pytest.param({"token": "t", "exec": {"command": "aws"}}, "exec", id="even with a token"),
    ],
)
def test_a_way_to_sign_in_that_is_not_understood_is_refused_by_name(
    user: Entry, way: str, tmp_path: Path
) -> None:
    file = written(tmp_path, document(user=user))

    with pytest.raises(InputError) as caught:
        read_kubeconfig(file)
    assert str(caught.value) == (
        f"{file}: signing in with `{way}` is not supported; use a token or a client certificate"
    )
