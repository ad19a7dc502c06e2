"""Credentials from a kubeconfig's user, or from the service account that is mounted into a pod.

An authentication method that is not supported is an error that names it; it never becomes a request
without credentials.
"""

from __future__ import annotations

import base64
import ipaddress
import os
import re
import ssl
from collections.abc import Mapping
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from resettle.clock import SYSTEM, Clock
from resettle.errors import InputError
from resettle.kube.auth.access import (
    Access,
    Credentials,
    Headers,
    StaticToken,
    TokenFile,
    clean_token,
)
from resettle.kube.auth.exec_plugin import VERSIONS, ExecCommand, ExecPlugin
from resettle.kube.auth.tls import certificate_expiry, client_tls_context, load_client_certificate

if TYPE_CHECKING:
    from resettle.kube.auth.kubeconfig import KubeconfigEntry

_UNKNOWN_WAYS = ("auth-provider", "username", "password")
_EXTENSION = "client.authentication.k8s.io/exec"
_PLAIN_HEADER = re.compile(r"[\x20-\x7e]*")


def reject_unsupported_auth(user: KubeconfigEntry) -> None:
    """Raise an error if the user has an authentication method that is not supported."""
    for way in _UNKNOWN_WAYS:
        if user.fields.get(way):
            raise InputError(
                f"{user.file}: signing in with `{way}` is not supported; "
                "use a token, a client certificate or an `exec` command"
            )


def user_tls_context(cluster: KubeconfigEntry, user: KubeconfigEntry) -> ssl.SSLContext:
    """A TLS context that trusts the cluster's CA and presents the user's certificate."""
    authority = cluster.data("certificate-authority")
    certificate, key = user.data("client-certificate"), user.data("client-key")
    try:
        if bool(certificate) != bool(key):
            raise ValueError("`client-certificate` and `client-key` go together")
        trust = client_tls_context(
            authority, insecure=bool(cluster.fields.get("insecure-skip-tls-verify"))
        )
        if certificate:
            load_client_certificate(trust, certificate, key)
    except (OSError, ValueError) as error:
        raise InputError(f"{user.file}: a certificate or key cannot be used: {error}") from None
    return trust


def credentials_of(cluster: KubeconfigEntry, user: KubeconfigEntry) -> Credentials:
    """The user's token, token file or command; a client certificate is in the TLS context."""
    if user.fields.get("tokenFile"):
        return TokenFile(partial(_token_in_file, user))
    if user.fields.get("token"):
        return StaticToken(clean_token(user.text("token"), user.file))
    if user.fields.get("exec") and not user.data("client-certificate"):
        encrypted = cluster.text("server").startswith("https://")
        context = partial(user_tls_context, cluster, user) if encrypted else None
        return ExecPlugin(_command(cluster, user), context)
    return StaticToken()


def client_certificate_expiry(user: KubeconfigEntry) -> Any:
    """When the user's certificate expires, if there is one."""
    return certificate_expiry(user.data("client-certificate"))


def impersonation_headers(user: KubeconfigEntry) -> Headers:
    """The headers that impersonate another user."""
    named, uid = user.text("as"), user.text("as-uid")
    groups = user.fields.get("as-groups") or []
    extra = user.fields.get("as-user-extra") or {}
    if not named:
        if uid or groups or extra:
            raise InputError(
                f"{user.file}: `as-uid`, `as-groups` and `as-user-extra` need `as` beside them"
            )
        return ()
    if not isinstance(groups, list) or not isinstance(extra, dict):
        raise InputError(f"{user.file}: `as-groups` is a list and `as-user-extra` a mapping")
    headers = [("Impersonate-User", named)]
    headers += [("Impersonate-Uid", uid)] if uid else []
    headers += [("Impersonate-Group", str(group)) for group in groups]
    headers += [
        (f"Impersonate-Extra-{key}", str(value))
        for key, values in extra.items()
        for value in (values if isinstance(values, list) else [values])
    ]
    if not all(_PLAIN_HEADER.fullmatch(word) for pair in headers for word in pair):
        raise InputError(f"{user.file}: `as` and what goes with it must be plain ASCII")
    return tuple(headers)


def _token_in_file(user: KubeconfigEntry) -> str:
    content = user.content("tokenFile").decode("ascii", errors="replace")
    return clean_token(content, user.file)


def _command(cluster: KubeconfigEntry, user: KubeconfigEntry) -> ExecCommand:
    says = user.fields["exec"]
    if not isinstance(says, dict) or not says.get("command"):
        raise InputError(f"{user.file}: `exec` names no `command` to run")
    version = str(says.get("apiVersion") or "")
    if version not in VERSIONS:
        raise InputError(
            f"{user.file}: `exec` speaks {version or 'no apiVersion'}; use {' or '.join(VERSIONS)}"
        )
    if says.get("interactiveMode") == "Always":
        raise InputError(
            f"{user.file}: the command `{says['command']}` wants a terminal (`interactiveMode: "
            "Always`) and gets none here; sign in another way"
        )
    program = str(says["command"])
    if "/" in program:
        program = str(user.path(program).absolute())
    env = says.get("env") or []
    return ExecCommand(
        program=program,
        args=tuple(str(word) for word in says.get("args") or ()),
        env={str(item["name"]): str(item.get("value", "")) for item in env if item.get("name")},
        api_version=version,
        install_hint=str(says.get("installHint") or ""),
        cluster=_cluster_info(cluster) if says.get("provideClusterInfo") else None,
        where=user.file,
    )


def _cluster_info(cluster: KubeconfigEntry) -> Mapping[str, Any]:
    """What is passed to a command about the cluster, as `provideClusterInfo` asks."""
    kept = ("server", "tls-server-name", "insecure-skip-tls-verify", "proxy-url")
    info = {key: cluster.fields[key] for key in kept if cluster.fields.get(key)}
    if authority := cluster.data("certificate-authority"):
        info["certificate-authority-data"] = base64.b64encode(authority).decode()
    for extension in cluster.fields.get("extensions") or ():
        if isinstance(extension, dict) and extension.get("name") == _EXTENSION:
            info["config"] = extension.get("extension")
    return info


SERVICE_ACCOUNT_DIR = Path("/var/run/secrets/kubernetes.io/serviceaccount")


def in_cluster_access(
    environment: Mapping[str, str] = os.environ,
    account: Path | None = None,
    clock: Clock = SYSTEM,
) -> Access | None:
    """Access to the API server of the cluster this process runs in; None outside of a pod."""
    folder = account or SERVICE_ACCOUNT_DIR
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
        trust = client_tls_context(_content(folder / "ca.crt"))
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
