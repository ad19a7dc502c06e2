"""A kubeconfig that cannot be used: the error names the file, and what in it is wrong."""

from __future__ import annotations

from pathlib import Path

import pytest

from resettle.dumps.collection import list_cluster
from resettle.errors import InputError, ResettleError
from resettle.kube.auth.kubeconfig import read_kubeconfig
from tests.kube.auth.builders import SERVER, Entry, document, written


@pytest.mark.parametrize(
    ("content", "context", "says"),
    [
        pytest.param(
            document() | {"current-context": ""},
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
        pytest.param({"auth-provider": {"name": "oidc"}}, "auth-provider", id="a provider"),
        pytest.param({"username": "ann", "password": "x"}, "username", id="a password"),
        pytest.param({"token": "t", "username": "ann"}, "username", id="even with a token"),
    ],
)
def test_a_way_to_sign_in_that_is_not_understood_is_refused_by_name(
    user: Entry, way: str, tmp_path: Path
) -> None:
    file = written(tmp_path, document(user=user))

    with pytest.raises(InputError) as caught:
        read_kubeconfig(file)
    assert str(caught.value) == (
        f"{file}: signing in with `{way}` is not supported; "
        "use a token, a client certificate or an `exec` command"
    )


@pytest.mark.parametrize(
    ("name", "content", "says"),
    [
        pytest.param("gone", None, "there is no kubeconfig FILE; name one with", id="not there"),
        pytest.param("config", b"a: [b\n", "the kubeconfig FILE is not YAML: ", id="not YAML"),
        pytest.param("config", b"a: \xff\n", "the kubeconfig FILE cannot be read: ", id="not text"),
        pytest.param(".", None, "the kubeconfig FILE cannot be read: ", id="a folder"),
    ],
)
def test_a_file_that_is_no_kubeconfig_is_an_error_that_names_it(
    name: str, content: bytes | None, says: str, tmp_path: Path
) -> None:
    file = tmp_path / name
    if content is not None:
        file.write_bytes(content)

    with pytest.raises(InputError) as caught:
        read_kubeconfig(str(file))
    assert str(caught.value).startswith(says.replace("FILE", str(file)))


@pytest.mark.parametrize(
    ("cluster", "user"),
    [
        pytest.param({"certificate-authority": "text"}, {}, id="an authority"),
        pytest.param({"certificate-authority": "bytes"}, {}, id="an authority that is not text"),
        pytest.param({}, {"client-certificate": "text", "client-key": "text"}, id="a pair"),
    ],
)
def test_what_is_not_a_certificate_is_an_error_that_names_the_file(
    cluster: Entry, user: Entry, tmp_path: Path
) -> None:
    (tmp_path / "text").write_text("not a certificate\n")
    (tmp_path / "bytes").write_bytes(b"\xff\xfe")
    file = written(tmp_path, document({**SERVER, **cluster}, user))

    with pytest.raises(InputError) as caught:
        read_kubeconfig(file)
    assert str(caught.value).startswith(f"{file}: a certificate or key cannot be used: ")


@pytest.mark.parametrize(
    ("cluster", "user"),
    [
        pytest.param({"server": "http://127.0.0.1:http"}, {}, id="a port that is no number"),
        pytest.param({"server": "http://[::1"}, {}, id="an address that never ends"),
        pytest.param({"server": "http://127.0.0.1:1"}, {"token": "two\nlines"}, id="a torn token"),
        pytest.param({"server": "http://127.0.0.1:1"}, {"token": "日本"}, id="a token in kanji"),
        pytest.param({"server": "http://127.0.0.1:1"}, {"tokenFile": "bytes"}, id="a binary token"),
    ],
)
def test_nonsense_ends_in_an_error_for_people(cluster: Entry, user: Entry, tmp_path: Path) -> None:
    (tmp_path / "bytes").write_bytes(b"\xff\xfe")
    file = written(tmp_path, document(cluster, user))

    with pytest.raises(ResettleError) as caught:
        list_cluster(read_kubeconfig(file), frozenset())
    assert user.get("token", "a secret") not in str(caught.value)
