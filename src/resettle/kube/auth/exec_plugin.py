"""Credentials from a command that the kubeconfig names, as `client.authentication.k8s.io` has it.

The command prints an ExecCredential. It is run when credentials are first needed, when they expire,
and when the API server rejects them; never with a terminal, because there may be no user.
"""

from __future__ import annotations

import json
import os
import signal
import ssl
import subprocess
from collections.abc import Callable, Mapping
from datetime import datetime, timedelta
from threading import Lock
from typing import Any

import msgspec
from msgspec import Struct, field

from resettle.clock import SYSTEM, Clock
from resettle.errors import InputError, Unauthorized
from resettle.kube.auth.access import Headers, bearer_headers, clean_token
from resettle.kube.auth.tls import certificate_expiry, load_client_certificate

VERSIONS = ("client.authentication.k8s.io/v1", "client.authentication.k8s.io/v1beta1")
_PATIENCE_SECONDS = 60
_LONGEST_COMPLAINT = 300
_MARGIN = timedelta(seconds=10)
"""Requests under way must arrive before the credentials expire."""


class ExecCommand(Struct, frozen=True, kw_only=True):
    """The command to run, from the kubeconfig."""

    program: str
    args: tuple[str, ...] = ()
    env: Mapping[str, str] = {}
    api_version: str = VERSIONS[0]
    install_hint: str = ""
    cluster: Mapping[str, Any] | None = None
    """What to pass to the command about the cluster, if `provideClusterInfo` is set."""
    where: str
    """The kubeconfig, for messages."""


class _Status(Struct):
    token: str | None = None
    certificate: str | None = field(name="clientCertificateData", default=None)
    key: str | None = field(name="clientKeyData", default=None)
    expires: datetime | None = field(name="expirationTimestamp", default=None)


class _Credential(Struct):
    api_version: str = field(name="apiVersion")
    kind: str
    status: _Status | None = None


class ExecPlugin:
    """The credentials that the command printed last.

    `trusting` makes a new TLS context, so that connections made with an old certificate are not
    used for the new one; None over plain HTTP.
    """

    def __init__(
        self,
        command: ExecCommand,
        trusting: Callable[[], ssl.SSLContext] | None,
        clock: Clock = SYSTEM,
        patience: float = _PATIENCE_SECONDS,
    ) -> None:
        self.trust: ssl.SSLContext | None = None
        self._command = command
        self._trusting = trusting
        self._clock = clock
        self._patience = patience
        self._lock = Lock()
        self._headers: Headers | None = None
        self._expires: datetime | None = None

    def headers(self) -> Headers:
        """The token, if the command gave one."""
        if self._headers is None:
            self.renew()
        return self._headers or ()

    def is_due(self) -> bool:
        """Whether the command has never run, or its credentials are about to expire."""
        if self._headers is None:
            return True
        return self._expires is not None and self._clock.now() >= self._expires - _MARGIN

    def renew(self, refused: Headers | None = None) -> bool:
        """Run the command again, unless another request has just done so."""
        with self._lock:
            if refused is None and not self.is_due():
                return True
            if refused is not None and self._headers != refused:
                return True
            self._take(self._answer())
            return True

    def _take(self, status: _Status) -> None:
        where = self._sentence("answered with a token")
        token = clean_token(status.token or "", where)
        ends = [status.expires] if status.expires else []
        if status.certificate and status.key and self._trusting is not None:
            certificate = status.certificate.encode()
            trust = self._trusting()
            try:
                load_client_certificate(trust, certificate, status.key.encode())
            except (OSError, ValueError) as error:
                raise self._failure(f"answered with a certificate that is none: {error}") from None
            self.trust = trust
            if (end := certificate_expiry(certificate)) is not None:
                ends.append(end)
        self._expires = min(ends, default=None)
        self._headers = bearer_headers(token)

    def _answer(self) -> _Status:
        output = self._output()
        try:
            credential = msgspec.json.decode(output, type=_Credential)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise self._failure(f"printed no ExecCredential: {error}") from None
        wanted = self._command.api_version
        if credential.kind != "ExecCredential" or credential.api_version != wanted:
            got = f"{credential.kind} of {credential.api_version}"
            raise self._failure(f"printed {got}, not an ExecCredential of {wanted}")
        status = credential.status
        if status is None or not (status.token or status.certificate):
            raise self._failure("printed neither a token nor a client certificate")
        if bool(status.certificate) != bool(status.key):
            raise self._failure("printed half of a client certificate: one of it and its key")
        return status

    def _output(self) -> bytes:
        command = self._command
        try:
            code, output, complaint = _run_command(
                [command.program, *command.args],
                os.environ | dict(command.env) | {"KUBERNETES_EXEC_INFO": self._exec_info()},
                self._patience,
            )
        except FileNotFoundError:
            hint = " ".join(command.install_hint.split())
            what_to_do = hint or "install it, or correct the path"
            raise InputError(
                f"{command.where}: there is no command `{command.program}` to sign in with; "
                f"{what_to_do}"
            ) from None
        except subprocess.TimeoutExpired:
            raise self._failure(f"did not end within {self._patience:g} s") from None
        except (OSError, ValueError) as error:
            raise InputError(
                f"{command.where}: the command `{command.program}` cannot be run: "
                f"{getattr(error, 'strerror', None) or error}; check its path and mode"
            ) from None
        if code:
            words = " ".join(complaint.decode(errors="replace").split())
            message = f": {words[-_LONGEST_COMPLAINT:]}" if words else " and no message"
            raise self._failure(f"ended with {code}{message}")
        return output

    def _exec_info(self) -> str:
        """The value of KUBERNETES_EXEC_INFO."""
        spec: dict[str, Any] = {"interactive": False}
        if self._command.cluster is not None:
            spec["cluster"] = self._command.cluster
        info = {"apiVersion": self._command.api_version, "kind": "ExecCredential", "spec": spec}
        return json.dumps(info)

    def _sentence(self, what: str) -> str:
        return f"{self._command.where}: the command `{self._command.program}` {what}"

    def _failure(self, what: str) -> Unauthorized:
        return Unauthorized(f"{self._sentence(what)}; run it by hand to see what it lacks")


def _run_command(
    words: list[str], env: Mapping[str, str], patience: float
) -> tuple[int, bytes, bytes]:
    """Run a command and return its exit code, stdout and stderr."""
    # A process group of its own, so that a command that takes too long is killed with its children.
    running = subprocess.Popen(
        words,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=env,
        start_new_session=True,
    )
    with running:
        try:
            output, complaint = running.communicate(timeout=patience)
        except BaseException:
            os.killpg(running.pid, signal.SIGKILL)
            raise
    return running.returncode, output, complaint
