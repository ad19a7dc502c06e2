"""The way in for a pod: the account that the kubelet mounts into it."""

from __future__ import annotations

import ipaddress
import os
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from resettle.clock import SYSTEM, Clock
from resettle.cluster.access import Access
from resettle.cluster.credentials import TokenFile, clean_token
from resettle.cluster.trust import trusting
from resettle.errors import InputError

ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")


def in_cluster(
    environment: Mapping[str, str] = os.environ,
    account: Path | None = None,
    clock: Clock = SYSTEM,
) -> Access | None:
    """The API server of the cluster that this process is a pod of; None if it is not one."""
    folder = account or ACCOUNT
    host = environment.get("KUBERNETES_SERVICE_HOST")
    port = environment.get("KUBERNETES_SERVICE_PORT", "443")
    if not host:
        return None
    with suppress(ValueError):
        if ipaddress.ip_address(host).version == 6:
            host = f"[{host}]"

    def token() -> str:
        content = _content(folder / "token").decode("ascii", errors="replace")
        return clean_token(content, str(folder / "token"))

    try:
        trust = trusting(_content(folder / "ca.crt"))
    except (OSError, ValueError) as error:
        raise InputError(f"{folder / 'ca.crt'} holds no certificate: {error}") from None
    return Access(
        server=f"https://{host}:{port}",
        trust=trust,
        credentials=TokenFile(token, clock),
        source=str(folder),
    )


def _content(file: Path) -> bytes:
    try:
        content = file.read_bytes()
    except OSError as error:
        reason = error.strerror or str(error)
        raise InputError(
            f"{file} cannot be read: {reason}; mount a service account into this pod, "
            "or name a kubeconfig with --kubeconfig"
        ) from None
    if not content.strip():
        raise InputError(f"{file} is empty; it should hold what the kubelet writes there")
    return content
