"""Who we are to which API server, as a kubeconfig file says.

A bearer token or a client certificate is understood; a way to sign in that is not is an error that
names it, never a request without credentials.
"""

from __future__ import annotations

import base64
import binascii
import os
import re
import ssl
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import yaml
from msgspec import Struct

from resettle.errors import InputError

_UNKNOWN_WAYS = ("exec", "auth-provider", "username", "password", "as", "as-uid", "as-groups")
_Loader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


class Access(Struct, frozen=True, kw_only=True):
    """Where the API server is and how to prove who we are."""

    server: str
    token: str = ""
    trust: ssl.SSLContext | None = None
    """None for plain HTTP."""
    server_name: str = ""


def default_kubeconfig() -> str:
    """The file kubectl would use: the first of $KUBECONFIG, else the one in the home directory."""
    named = [path for path in os.environ.get("KUBECONFIG", "").split(os.pathsep) if path]
    return named[0] if named else str(Path.home() / ".kube" / "config")


def read_kubeconfig(file: str, context: str | None = None) -> Access:
    """What the file says of one context, or of its current one."""
    path = Path(file)
    try:
        document = yaml.load(path.read_text(), _Loader)
    except FileNotFoundError:
        raise InputError(
            f"there is no kubeconfig {file}; name one with --kubeconfig, or a dump with --cluster"
        ) from None
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"the kubeconfig {file} cannot be read: {error}") from None
    except yaml.YAMLError as error:
        raise InputError(f"the kubeconfig {file} is not YAML: {error}") from None
    if not isinstance(document, dict):
        raise InputError(f"{file} is not a kubeconfig: it is no mapping of clusters and users")
    config = _Config(document, file, path.parent)
    chosen = context or document.get("current-context")
    if not chosen:
        raise InputError(f"{file} has no `current-context`; choose one with --context")
    here = config.entry("contexts", "context", str(chosen))
    if not here.get("cluster"):
        raise InputError(f"{file}: the context `{chosen}` names no cluster")
    cluster = config.entry("clusters", "cluster", str(here["cluster"]))
    user = config.entry("users", "user", str(here["user"])) if here.get("user") else {}
    return config.access(cluster, user)


class _Config:
    """A kubeconfig document and the folder its relative paths start from."""

    def __init__(self, document: Mapping[str, Any], file: str, folder: Path) -> None:
        self._document = document
        self._file = file
        self._folder = folder

    def entry(self, section: str, key: str, name: str) -> Mapping[str, Any]:
        """The named entry of a section."""
        entries = self._document.get(section)
        for item in entries if isinstance(entries, list) else ():
            if isinstance(item, dict) and item.get("name") == name:
                found = item.get(key)
                return found if isinstance(found, dict) else {}
        raise InputError(f"{self._file} has no entry `{name}` under `{section}`")

    def access(self, cluster: Mapping[str, Any], user: Mapping[str, Any]) -> Access:
        """Address and credentials from a cluster and a user."""
        server = str(cluster.get("server", "")).rstrip("/")
        if not _is_address(server):
            raise InputError(f"{self._file}: `server` must be an http or https address")
        if cluster.get("proxy-url"):
            raise InputError(f"{self._file}: `proxy-url` is not supported; connect directly")
        for way in _UNKNOWN_WAYS:
            if user.get(way):
                raise InputError(
                    f"{self._file}: signing in with `{way}` is not supported; "
                    "use a token or a client certificate"
                )
        return Access(
            server=server,
            token=self._token(user),
            trust=self._trust(cluster, user) if server.startswith("https://") else None,
            server_name=str(cluster.get("tls-server-name", "")),
        )

    def _token(self, user: Mapping[str, Any]) -> str:
        token = str(user.get("token") or "")
        if user.get("tokenFile"):
            content = self._content("tokenFile", str(user["tokenFile"]))
            token = content.decode("ascii", errors="replace").strip()
        if not re.fullmatch(r"[\x21-\x7e]*", token):
            raise InputError(f"{self._file}: the token holds characters that no token has")
        return token

    def _trust(self, cluster: Mapping[str, Any], user: Mapping[str, Any]) -> ssl.SSLContext:
        authority = self._data(cluster, "certificate-authority")
        try:
            trust = ssl.create_default_context(cadata=authority.decode() if authority else None)
            if cluster.get("insecure-skip-tls-verify"):
                trust.check_hostname = False
                trust.verify_mode = ssl.CERT_NONE
            certificate, key = (
                self._data(user, "client-certificate"),
                self._data(user, "client-key"),
            )
            if bool(certificate) != bool(key):
                raise ValueError("`client-certificate` and `client-key` go together")
            if certificate:
                _present(trust, certificate, key)
        except (OSError, ValueError) as error:
            raise InputError(
                f"{self._file}: a certificate or key cannot be used: {error}"
            ) from None
        return trust

    def _data(self, entry: Mapping[str, Any], key: str) -> bytes:
        """What stands under `key-data` in base64, or in the file that `key` names."""
        if inline := entry.get(f"{key}-data"):
            try:
                return base64.b64decode(str(inline), validate=True)
            except binascii.Error:
                raise InputError(f"{self._file}: `{key}-data` is not base64") from None
        if not entry.get(key):
            return b""
        content = self._content(key, str(entry[key]))
        if not content.strip():
            raise InputError(f"{self._file}: `{key}` {entry[key]} is empty")
        return content

    def _content(self, key: str, name: str) -> bytes:
        try:
            return (self._folder / name).read_bytes()
        except OSError as error:
            reason = error.strerror or str(error)
            raise InputError(f"{self._file}: `{key}` {name} cannot be read: {reason}") from None


def _is_address(server: str) -> bool:
    try:
        address = urlsplit(server)
        return address.scheme in ("http", "https") and bool(address.hostname) and address.port != 0
    except ValueError:
        return False


def _present(trust: ssl.SSLContext, certificate: bytes, key: bytes) -> None:
    # The ssl module reads certificates from files only; this one is gone a moment later.
    with tempfile.NamedTemporaryFile() as file:
        file.write(certificate + b"\n" + key)
        file.flush()
        trust.load_cert_chain(file.name, password=_no_pass_phrase)


def _no_pass_phrase() -> str:
    raise ValueError("the client key is encrypted; use one without a pass phrase")
