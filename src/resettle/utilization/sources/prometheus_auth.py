"""What is shown to Prometheus: a token from a Secret, from a file, from our account, or nothing.

A Secret is read anew before each round of queries: whoever changes it is heard at once, and no more
than `get` on that one Secret is needed. A token is sent over TLS; over plain HTTP only if the
policy names it, for then somebody has thought about it.
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
from resettle.kube.auth.access import Credentials, Fixed, TokenFile, bearer, clean_token
from resettle.kube.auth.identity import ACCOUNT
from resettle.kube.failures import refused
from resettle.kube.transport.client import Client
from resettle.policy.document import Prometheus, SecretReference

KEY = "prometheusAuthToken"


class Held(Fixed):
    """A token that somebody else sets before it is needed."""

    def hold(self, token: str) -> None:
        """From now on this one is shown."""
        self._headers = bearer(token)


class Basic(Fixed):
    """A name and a password that stand in the address."""

    def __init__(self, name: str, password: str) -> None:
        super().__init__()
        words = base64.b64encode(f"{unquote(name)}:{unquote(password)}".encode()).decode()
        self._headers = (("Authorization", f"Basic {words}"),)


def credentials(provider: Prometheus, clock: Clock, account: Path | None = None) -> Credentials:
    """What to show; `account` is where the kubelet mounts ours."""
    address = urlsplit(provider.url)
    ours = (account or ACCOUNT) / "token"
    if provider.auth_token is not None:
        return Held()
    if provider.token_file:
        return _file(Path(provider.token_file), clock)
    if address.username:
        return Basic(address.username, address.password or "")
    if address.scheme == "https" and ours.exists():
        return _file(ours, clock)
    return Fixed()


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
    if not answer.fine:
        raise refused(answer, "get", "secrets", access=client.access, namespace=reference.namespace)
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
