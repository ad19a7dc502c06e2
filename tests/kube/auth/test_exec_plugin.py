"""Signing in with a command that the kubeconfig names: what it receives, and what it may answer."""

from __future__ import annotations

import base64
import json
import shlex
from collections.abc import Callable
from datetime import datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from resettle.dumps.collection import list_cluster
from resettle.errors import InputError, ResettleError, Unauthorized
from resettle.kube.auth.access import Credentials
from resettle.kube.auth.exec_plugin import VERSIONS, ExecCommand, ExecPlugin
from resettle.kube.auth.kubeconfig import read_kubeconfig
from resettle.kube.auth.tls import client_tls_context
from resettle.testing import NOW, ApiServer, ManualClock
from tests.kube.auth.builders import SERVER, Entry, document, written
from tests.kube.auth.fakes import Authority, Pair, shake_hands

V1, V1BETA1 = VERSIONS
WHERE = "config"


def credential(version: str = V1, **status: Any) -> str:
    return json.dumps({"apiVersion": version, "kind": "ExecCredential", "status": status})


def in_time(moment: datetime) -> str:
    return f"{moment:%Y-%m-%dT%H:%M:%SZ}"


class Script:
    """A command that counts its runs, keeps what it received, and prints what a test says."""

    def __init__(self, folder: Path) -> None:
        self.file = folder / "sign-in"
        self.folder = folder
        self.prints(credential(token="t0"))

    def prints(self, text: str) -> None:
        (self.folder / "says").write_text(text)
        self.does(f"cat {self.folder}/says")

    def does(self, last: str) -> None:
        kept = shlex.quote(str(self.folder))
        self.file.write_text(
            "#!/bin/sh\n"
            f"echo run >> {kept}/runs\n"
            f'printf "%s" "$KUBERNETES_EXEC_INFO" > {kept}/exec_info\n'
            f'echo "$COLOUR $*" > {kept}/words\n'
            f"{last}\n"
        )
        self.file.chmod(0o755)

    @property
    def runs(self) -> int:
        file = self.folder / "runs"
        return len(file.read_text().splitlines()) if file.exists() else 0

    @property
    def exec_info(self) -> Any:
        return json.loads((self.folder / "exec_info").read_text())


@pytest.fixture
def script(tmp_path: Path) -> Script:
    return Script(tmp_path)


def plugin(script: Script, clock: ManualClock | None = None, **more: Any) -> ExecPlugin:
    command = ExecCommand(program=str(script.file), where=WHERE, **more)
    return ExecPlugin(command, lambda: client_tls_context(b""), clock or ManualClock())


def token(credentials: Credentials) -> str:
    if credentials.is_due():
        credentials.renew()
    return dict(credentials.headers())["Authorization"].removeprefix("Bearer ")


# -- when it is run ------------------------------------------------------------------------------


def test_the_command_is_run_once_for_many_requests(script: Script) -> None:
    credentials = plugin(script)

    assert [token(credentials) for _ in range(3)] == ["t0"] * 3
    assert script.runs == 1


def test_it_is_run_again_when_what_it_said_is_about_to_expire(script: Script) -> None:
    clock = ManualClock()
    ends = NOW + timedelta(minutes=10)
    script.prints(credential(token="t1", expirationTimestamp=in_time(ends)))
    credentials = plugin(script, clock)
    assert token(credentials) == "t1"
    script.prints(credential(token="t2"))

    clock.advance(timedelta(minutes=9))
    assert token(credentials) == "t1"
    clock.advance(timedelta(minutes=1))
    assert token(credentials) == "t2"
    clock.advance(timedelta(days=400))
    assert (token(credentials), script.runs) == ("t2", 2)


@pytest.mark.parametrize(
    ("refused", "runs"),
    [
        pytest.param("t0", 2, id="what it said last: it is run"),
        pytest.param("older", 1, id="what it said before: another request had it run already"),
    ],
)
def test_it_is_run_again_when_the_server_turns_its_token_down(
    refused: str, runs: int, script: Script
) -> None:
    credentials = plugin(script)
    token(credentials)

    assert credentials.renew((("Authorization", f"Bearer {refused}"),))
    assert script.runs == runs


def test_a_list_shows_the_new_token_after_a_401(script: Script, tmp_path: Path) -> None:
    user = {"exec": {"command": "./sign-in", "apiVersion": V1, "interactiveMode": "Never"}}
    with ApiServer(token="t1") as server:
        access = read_kubeconfig(written(tmp_path, document({"server": server.url}, user)))
        assert token(access.identity()) == "t0"
        script.prints(credential(token="t1"))
        list_cluster(access, frozenset())

    assert [asked.token for asked in server.requests] == ["t0", "t1", "t1"]


# -- what it receives -----------------------------------------------------------------------------


@pytest.mark.parametrize("version", VERSIONS)
def test_it_gets_its_words_its_variables_and_no_terminal(
    version: str, script: Script, tmp_path: Path
) -> None:
    script.prints(credential(version, token="t"))
    entry = {
        "command": str(script.file),
        "apiVersion": version,
        "args": ["get", "token"],
        "env": [{"name": "COLOUR", "value": "green"}],
        "interactiveMode": "IfAvailable",
    }

    token(read_kubeconfig(written(tmp_path, document(user={"exec": entry}))).identity())

    assert (script.folder / "words").read_text() == "green get token\n"
    assert script.exec_info == {
        "apiVersion": version,
        "kind": "ExecCredential",
        "spec": {"interactive": False},
    }


def test_the_command_gets_cluster_info_if_it_wants_it(
    script: Script, authority: Authority, tmp_path: Path
) -> None:
    cluster = {
        **SERVER,
        "certificate-authority": str(authority.certificate),
        "tls-server-name": "api.example",
        "extensions": [{"name": "client.authentication.k8s.io/exec", "extension": {"zone": "a"}}],
    }
    entry = {"command": str(script.file), "apiVersion": V1, "provideClusterInfo": True}

    token(read_kubeconfig(written(tmp_path, document(cluster, {"exec": entry}))).identity())

    assert script.exec_info["spec"]["cluster"] == {
        "server": SERVER["server"],
        "tls-server-name": "api.example",
        "certificate-authority-data": base64.b64encode(authority.certificate.read_bytes()).decode(),
        "config": {"zone": "a"},
    }


@pytest.mark.parametrize(
    "user",
    [
        pytest.param({"token": "plain"}, id="a token"),
        pytest.param({"tokenFile": "token"}, id="the file of a token"),
    ],
)
def test_a_token_beside_it_is_shown_and_it_is_not_run(
    user: Entry, script: Script, tmp_path: Path
) -> None:
    (tmp_path / "token").write_text("plain")
    entry = {"command": str(script.file), "apiVersion": V1}
    file = written(tmp_path, document(user={**user, "exec": entry}))

    assert token(read_kubeconfig(file).identity()) == "plain"
    assert script.runs == 0


# -- certificates --------------------------------------------------------------------------------


def test_a_certificate_in_its_answer_is_shown_to_the_server(
    script: Script, authority: Authority, server_pair: Pair, client_pair: Pair
) -> None:
    certificate, key = (file.read_text() for file in client_pair)
    script.prints(credential(clientCertificateData=certificate, clientKeyData=key))
    trust = partial(client_tls_context, authority.certificate.read_bytes())
    credentials = ExecPlugin(ExecCommand(program=str(script.file), where=WHERE), trust)

    credentials.renew()

    assert credentials.headers() == ()
    assert credentials.trust is not None
    guard = authority.guarding(server_pair, clients=True)
    assert shake_hands(credentials.trust, guard, "api.example") == "client"


def test_a_new_certificate_comes_with_a_new_context(script: Script, client_pair: Pair) -> None:
    """Connections are kept by context; those made with the old certificate must not be reused."""
    certificate, key = (file.read_text() for file in client_pair)
    script.prints(credential(clientCertificateData=certificate, clientKeyData=key))
    credentials = plugin(script)
    credentials.renew()
    first = credentials.trust

    credentials.renew(())

    assert credentials.trust is not first


def test_a_certificate_that_ends_sooner_than_the_answer_says_has_it_run_again(
    script: Script, authority: Authority
) -> None:
    clock = ManualClock()
    pair = authority.issued("short-lived", ends=NOW + timedelta(minutes=5))
    certificate, key = (file.read_text() for file in pair)
    ends = in_time(NOW + timedelta(hours=9))
    script.prints(
        credential(clientCertificateData=certificate, clientKeyData=key, expirationTimestamp=ends)
    )
    credentials = plugin(script, clock)
    credentials.renew()

    assert not credentials.is_due()
    clock.advance(timedelta(minutes=5))
    assert credentials.is_due()


# -- what goes wrong -----------------------------------------------------------------------------


def answers(text: str) -> Callable[[Script], None]:
    return lambda script: script.prints(text)


def acts(last: str) -> Callable[[Script], None]:
    return lambda script: script.does(last)


@pytest.mark.parametrize(
    ("prepare", "kind", "says"),
    [
        pytest.param(
            lambda script: script.file.unlink(),
            InputError,
            "config: there is no command `COMMAND` to sign in with; "
            "install it, or correct the path",
            id="not there",
        ),
        pytest.param(
            lambda script: script.file.chmod(0o644),
            InputError,
            "config: the command `COMMAND` cannot be run: Permission denied; "
            "check its path and mode",
            id="not to be run",
        ),
        pytest.param(
            acts("echo please log in >&2; exit 3"),
            Unauthorized,
            "config: the command `COMMAND` ended with 3: please log in; HAND",
            id="failing",
        ),
        pytest.param(
            acts("exit 1"),
            Unauthorized,
            "config: the command `COMMAND` ended with 1 and no message; HAND",
            id="failing without a word",
        ),
        pytest.param(
            acts("sleep 60 & sleep 60"),
            Unauthorized,
            "config: the command `COMMAND` did not end within 0.3 s; HAND",
            id="without end, children and all",
        ),
        pytest.param(
            answers(credential()),
            Unauthorized,
            "config: the command `COMMAND` printed neither a token nor a client certificate; HAND",
            id="empty-handed",
        ),
        pytest.param(
            answers(credential(clientCertificateData="x")),
            Unauthorized,
            "config: the command `COMMAND` printed half of a client certificate: "
            "one of it and its key; HAND",
            id="half a certificate",
        ),
        pytest.param(
            answers(credential(V1BETA1, token="t")),
            Unauthorized,
            f"config: the command `COMMAND` printed ExecCredential of {V1BETA1}, "
            f"not an ExecCredential of {V1}; HAND",
            id="of another version",
        ),
    ],
)
def test_a_command_that_fails_is_reported_in_one_line(
    prepare: Callable[[Script], None], kind: type[ResettleError], says: str, script: Script
) -> None:
    prepare(script)
    command = ExecCommand(program=str(script.file), where=WHERE)
    credentials = ExecPlugin(command, None, ManualClock(), patience=0.3)

    with pytest.raises(ResettleError) as caught:
        credentials.renew()

    expected = says.replace("COMMAND", str(script.file))
    assert (type(caught.value), str(caught.value)) == (
        kind,
        expected.replace("HAND", "run it by hand to see what it lacks"),
    )


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("welcome!", id="words"),
        pytest.param("", id="nothing"),
        pytest.param("[]", id="a list"),
        pytest.param('{"kind": "ExecCredential"}', id="no version"),
        pytest.param(credential(token=5), id="a number"),
        pytest.param(credential(token="t", expirationTimestamp="soon"), id="a time that is none"),
    ],
)
def test_output_that_is_no_credential_is_an_error(text: str, script: Script) -> None:
    script.prints(text)

    with pytest.raises(Unauthorized, match=r"printed no ExecCredential: .+; run it by hand"):
        plugin(script).renew()


def test_a_token_with_a_line_end_in_it_goes_nowhere(script: Script) -> None:
    script.prints(credential(token="a\r\nX-Evil: b"))

    with pytest.raises(ResettleError, match="characters that no token has"):
        plugin(script).renew()


def test_an_invalid_certificate_is_an_error(script: Script) -> None:
    script.prints(credential(clientCertificateData="x", clientKeyData="y"))

    with pytest.raises(Unauthorized, match="answered with a certificate that is none: "):
        plugin(script).renew()


def test_a_hint_how_to_install_it_is_passed_on(script: Script) -> None:
    script.file.unlink()

    with pytest.raises(InputError, match=r"to sign in with; get it from the\s+shelf$"):
        plugin(script, install_hint="get it from\nthe shelf").renew()


@pytest.mark.parametrize(
    ("entry", "says"),
    [
        pytest.param({"apiVersion": V1}, "`exec` names no `command` to run", id="no command"),
        pytest.param("aws", "`exec` names no `command` to run", id="a bare word"),
        pytest.param(
            {"command": "aws"},
            f"`exec` speaks no apiVersion; use {V1} or {V1BETA1}",
            id="no version",
        ),
        pytest.param(
            {"command": "aws", "apiVersion": "client.authentication.k8s.io/v1alpha1"},
            f"`exec` speaks client.authentication.k8s.io/v1alpha1; use {V1} or {V1BETA1}",
            id="a version of the past",
        ),
        pytest.param(
            {"command": "aws", "apiVersion": V1, "interactiveMode": "Always"},
            "the command `aws` wants a terminal (`interactiveMode: Always`) and gets none here; "
            "sign in another way",
            id="a talkative one",
        ),
    ],
)
def test_a_command_that_cannot_be_used_is_an_error_before_anything_is_sent(
    entry: Any, says: str, tmp_path: Path
) -> None:
    file = written(tmp_path, document(user={"exec": entry}))

    with pytest.raises(InputError) as caught:
        read_kubeconfig(file)
    assert str(caught.value) == f"{file}: {says}"
