"""Who we are to which API server: from a kubeconfig, or from inside the cluster.

A file that is named counts alone; else those of $KUBECONFIG, read as one; else the one in the home
directory; else, in a pod, the service account that is mounted into it.
"""

from __future__ import annotations

import os
from pathlib import Path
from urllib.parse import urlsplit

from resettle.cluster.access import Access
from resettle.cluster.config_file import Config, Entry
from resettle.cluster.in_cluster import in_cluster
from resettle.cluster.proxies import checked_proxy, proxy_for
from resettle.cluster.signing_in import (
    certificate_end,
    credentials_of,
    impersonation_of,
    refuse_unknown_ways,
    trust_of,
)
from resettle.errors import InputError

__all__ = ["Access", "default_kubeconfigs", "find_access", "read_kubeconfig"]


def find_access(kubeconfig: str | None = None, context: str | None = None) -> Access:
    """The way in that is named, or the one that kubectl or a pod would take."""
    if kubeconfig:
        return read_kubeconfig(kubeconfig, context)
    named = default_kubeconfigs()
    there = [file for file in named if Path(file).exists()]
    if there:
        return _chosen(Config(there), context)
    access = in_cluster()
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
    """What the file says of one context, or of its current one."""
    return _chosen(Config([file]), context)


def _chosen(config: Config, context: str | None) -> Access:
    chosen = context or config.current_context
    if not chosen:
        raise InputError(f"{config.name} has no `current-context`; choose one with --context")
    here = config.entry("contexts", "context", chosen)
    if not here.text("cluster"):
        raise InputError(f"{here.file}: the context `{chosen}` names no cluster")
    cluster = config.entry("clusters", "cluster", here.text("cluster"))
    user = Entry(here.file, {})
    if here.text("user"):
        user = config.entry("users", "user", here.text("user"))
    return _access(cluster, user)


def _access(cluster: Entry, user: Entry) -> Access:
    server = cluster.text("server").rstrip("/")
    if not _is_address(server):
        raise InputError(f"{cluster.file}: `server` must be an http or https address")
    refuse_unknown_ways(user)
    credentials = credentials_of(cluster, user)
    proxy = cluster.text("proxy-url")
    if proxy:
        checked_proxy(proxy, f"{cluster.file}: `proxy-url`")
    return Access(
        server=server,
        trust=trust_of(cluster, user) if server.startswith("https://") else None,
        server_name=cluster.text("tls-server-name"),
        credentials=credentials,
        impersonation=impersonation_of(user),
        proxy=proxy or proxy_for(server, os.environ),
        certificate_expires=certificate_end(user),
        source=user.file,
    )


def _is_address(server: str) -> bool:
    try:
        address = urlsplit(server)
        return address.scheme in ("http", "https") and bool(address.hostname) and address.port != 0
    except ValueError:
        return False
