"""Finds the API server and credentials: kubeconfig files, or the service account of a pod.

A file named with --kubeconfig is used alone; otherwise those of $KUBECONFIG, merged; otherwise the
one in the home directory; otherwise, in a pod, the service account that is mounted into it.
"""

from __future__ import annotations

import base64
import binascii
import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlsplit

import yaml

from resettle.errors import InputError
from resettle.kube.auth.access import Access
from resettle.kube.auth.identity import (
    client_certificate_expiry,
    credentials_of,
    impersonation_headers,
    in_cluster_access,
    reject_unsupported_auth,
    user_tls_context,
)
from resettle.kube.auth.proxy import check_proxy, proxy_for

_Loader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


class KubeconfigEntry(NamedTuple):
    """A cluster, user or context of a kubeconfig."""

    file: str
    """The file it is in; its relative paths start from the folder of this file."""
    fields: Mapping[str, Any]

    def text(self, key: str) -> str:
        """The value of a key, empty if it has none."""
        return str(self.fields.get(key) or "")

    def path(self, name: str) -> Path:
        """The file that a path in this entry means."""
        return Path(self.file).parent / name

    def data(self, key: str) -> bytes:
        """The decoded value of `key-data`, or the content of the file that `key` names."""
        if inline := self.fields.get(f"{key}-data"):
            try:
                return base64.b64decode(str(inline), validate=True)
            except binascii.Error:
                raise InputError(f"{self.file}: `{key}-data` is not base64") from None
        if not self.text(key):
            return b""
        content = self.content(key)
        if not content.strip():
            raise InputError(f"{self.file}: `{key}` {self.text(key)} is empty")
        return content

    def content(self, key: str) -> bytes:
        """The content of the file that the key names."""
        name = self.text(key)
        try:
            return self.path(name).read_bytes()
        except OSError as error:
            reason = error.strerror or str(error)
            raise InputError(f"{self.file}: `{key}` {name} cannot be read: {reason}") from None


class Kubeconfig:
    """One or several files, merged: of two entries with the same name the first is used."""

    def __init__(self, files: Iterable[str]) -> None:
        self._documents = [(file, _document(file)) for file in files]

    @property
    def name(self) -> str:
        """What messages call it."""
        return ", ".join(file for file, _ in self._documents)

    @property
    def current_context(self) -> str:
        """The first `current-context` in the files."""
        named = (document.get("current-context") for _, document in self._documents)
        return next((str(name) for name in named if name), "")

    def entry(self, section: str, key: str, name: str) -> KubeconfigEntry:
        """The named entry of a section."""
        for file, document in self._documents:
            entries = document.get(section)
            for item in entries if isinstance(entries, list) else ():
                if isinstance(item, dict) and item.get("name") == name:
                    fields = item.get(key)
                    return KubeconfigEntry(file, fields if isinstance(fields, dict) else {})
        raise InputError(f"{self.name} has no entry `{name}` under `{section}`")


def _document(file: str) -> Mapping[str, Any]:
    try:
        document = yaml.load(Path(file).read_text(), _Loader)
    except FileNotFoundError:
        raise InputError(
            f"there is no kubeconfig {file}; name one with --kubeconfig or $KUBECONFIG"
        ) from None
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"the kubeconfig {file} cannot be read: {error}") from None
    except yaml.YAMLError as error:
        raise InputError(f"the kubeconfig {file} is not YAML: {error}") from None
    if not isinstance(document, dict):
        raise InputError(f"{file} is not a kubeconfig: it is no mapping of clusters and users")
    return document


__all__ = ["Access", "default_kubeconfigs", "find_access", "read_kubeconfig"]


def find_access(kubeconfig: str | None = None, context: str | None = None) -> Access:
    """The access that the arguments name, or the one that kubectl or a pod would use."""
    if kubeconfig:
        return read_kubeconfig(kubeconfig, context)
    named = default_kubeconfigs()
    there = [file for file in named if Path(file).exists()]
    if there:
        return _access_of_context(Kubeconfig(there), context)
    access = in_cluster_access()
    if access is None:
        return read_kubeconfig(named[0], context)  # which says that it is not there
    if context:
        raise InputError(
            f"there is no kubeconfig with a context `{context}`; without --context "
            "the service account of this pod is used"
        )
    return access


def default_kubeconfigs() -> list[str]:
    """The files kubectl would read: those of $KUBECONFIG, else the one in the home directory."""
    named = [path for path in os.environ.get("KUBECONFIG", "").split(os.pathsep) if path]
    return named or [str(Path.home() / ".kube" / "config")]


def read_kubeconfig(file: str, context: str | None = None) -> Access:
    """The access of one context of a file, or of its current one."""
    return _access_of_context(Kubeconfig([file]), context)


def _access_of_context(config: Kubeconfig, context: str | None) -> Access:
    chosen = context or config.current_context
    if not chosen:
        raise InputError(f"{config.name} has no `current-context`; choose one with --context")
    here = config.entry("contexts", "context", chosen)
    if not here.text("cluster"):
        raise InputError(f"{here.file}: the context `{chosen}` names no cluster")
    cluster = config.entry("clusters", "cluster", here.text("cluster"))
    user = KubeconfigEntry(here.file, {})
    if here.text("user"):
        user = config.entry("users", "user", here.text("user"))
    return _access(cluster, user)


def _access(cluster: KubeconfigEntry, user: KubeconfigEntry) -> Access:
    server = cluster.text("server").rstrip("/")
    if not _is_address(server):
        raise InputError(f"{cluster.file}: `server` must be an http or https address")
    reject_unsupported_auth(user)
    credentials = credentials_of(cluster, user)
    proxy = cluster.text("proxy-url")
    if proxy:
        check_proxy(proxy, f"{cluster.file}: `proxy-url`")
    return Access(
        server=server,
        trust=user_tls_context(cluster, user) if server.startswith("https://") else None,
        server_name=cluster.text("tls-server-name"),
        credentials=credentials,
        impersonation=impersonation_headers(user),
        proxy=proxy or proxy_for(server, os.environ),
        certificate_expires=client_certificate_expiry(user),
        source=user.file,
    )


def _is_address(server: str) -> bool:
    try:
        address = urlsplit(server)
        return address.scheme in ("http", "https") and bool(address.hostname) and address.port != 0
    except ValueError:
        return False
