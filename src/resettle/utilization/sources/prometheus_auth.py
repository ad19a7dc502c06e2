"""Credentials for Prometheus: a token from a Secret, a file or our service account, or nothing.

A Secret is read again before each round of queries, so a change takes effect at once, and `get` on
that one Secret is the only permission needed. The service account's token is sent only over TLS;
over plain HTTP a token is sent only if the policy names it.
"""

from __future__ import annotations

import base64
import binascii
from pathlib import Path
from urllib.parse import quote, unquote, urlsplit

import msgspec
from msgspec import Struct

from resettle.clock import Clock
from resettle.errors import ClusterError, InputError
from resettle.kube.auth.access import (
    Credentials,
    StaticToken,
    TokenFile,
    bearer_headers,
    clean_token,
)
from resettle.kube.auth.identity import SERVICE_ACCOUNT_DIR
from resettle.kube.failures import refusal_error
from resettle.kube.transport.client import Client
from resettle.policy.document import Prometheus, SecretReference

KEY = "prometheusAuthToken"


class SecretToken(StaticToken):
    """A token from a Secret, set before each round of queries."""

    def set_token(self, token: str) -> None:
        """Use this token from now on."""
        self._headers = bearer_headers(token)


class BasicAuth(StaticToken):
    """A user name and password from the URL."""

    def __init__(self, name: str, password: str) -> None:
        super().__init__()
        words = base64.b64encode(f"{unquote(name)}:{unquote(password)}".encode()).decode()
        self._headers = (("Authorization", f"Basic {words}"),)


def credentials(provider: Prometheus, clock: Clock, account: Path | None = None) -> Credentials:
    """The credentials that the policy asks for; `account` is where ours are mounted."""
    address = urlsplit(provider.url)
    ours = (account or SERVICE_ACCOUNT_DIR) / "token"
    if provider.auth_token is not None:
        return SecretToken()
    if provider.token_file:
        return _file(Path(provider.token_file), clock)
    if address.username:
        return BasicAuth(address.username, address.password or "")
    if address.scheme == "https" and ours.exists():
        return _file(ours, clock)
    return StaticToken()


def _file(path: Path, clock: Clock) -> TokenFile:
    def read() -> str:
        try:
            content = path.read_text("ascii", errors="replace")
        except OSError as error:
            raise InputError(f"{path} cannot be read: {error.strerror or error}") from None
        token = clean_token(content, str(path))
        if not token:
            raise InputError(f"{path} is empty; it should hold a token")
        return token

    return TokenFile(read, clock)


class _Secret(Struct):
    data: dict[str, str] | None = None


_secret = msgspec.json.Decoder(_Secret)


async def token_of(client: Client, reference: SecretReference) -> str:
    """The token that a Secret holds now."""
    key = f"{reference.namespace}/{reference.name}"
    path = f"/api/v1/namespaces/{quote(reference.namespace)}/secrets/{quote(reference.name)}"
    answer = await client.send("GET", path, patience=0)
    if answer.status == 404:
        raise ClusterError(f"the Secret {key}, which should hold the token, is not there")
    if not answer.is_success:
        raise refusal_error(
            answer, "get", "secrets", access=client.access, namespace=reference.namespace
        )
    try:
        written = (_secret.decode(answer.body).data or {}).get(KEY, "")
        token = base64.b64decode(written, validate=True).decode("ascii")
    except (msgspec.DecodeError, binascii.Error, UnicodeDecodeError):
        raise ClusterError(f"`{KEY}` of the Secret {key} cannot be read") from None
    if not token.strip():
        raise ClusterError(f"the Secret {key} has nothing under `{KEY}`")
    try:
        return clean_token(token, f"Secret {key}")
    except InputError as error:
        raise ClusterError(str(error)) from None
