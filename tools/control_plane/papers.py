"""What the programs show one another: certificates, keys, tokens, kubeconfigs, the audit policy."""

from __future__ import annotations

import json
import secrets
from datetime import UTC, datetime
from pathlib import Path

import trustme
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec

ADMIN = "admin"
LONG_AGO = datetime(2021, 3, 4, 5, 6, 7, tzinfo=UTC)
QUIET = "quiet"
"""May do what the admin may and leaves no trace in the audit log: for building worlds."""
USERS = {
    ADMIN: "system:masters",
    QUIET: "system:masters",
    "kwok": "system:masters",
    "system:kube-controller-manager": "",
    "system:kube-scheduler": "",
}
"""Who may come in with a token, and the group that each is in."""

VISITORS = ["system:serviceaccount:kube-system:descheduler-sa"]
"""Accounts among those of the control plane whose doings are noted all the same."""
EVICTIONS = {"group": "", "resources": ["pods/eviction"]}

AUDIT_POLICY = {
    "apiVersion": "audit.k8s.io/v1",
    "kind": "Policy",
    "omitStages": ["RequestReceived"],
    "rules": [
        {"level": "None", "users": [name for name in USERS if name != ADMIN]},
        {"level": "None", "users": ["system:apiserver", "system:anonymous"]},
        {"level": "Request", "users": VISITORS, "resources": [EVICTIONS]},
        {"level": "Metadata", "users": VISITORS},
        {"level": "None", "userGroups": ["system:serviceaccounts:kube-system"]},
        # What an eviction asks for names the pod by its uid, and the log shall too.
        {"level": "Request", "resources": [EVICTIONS]},
        {"level": "Metadata"},
    ],
}


class Papers:
    """A folder of them, made new."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.ca = folder / "ca.pem"
        self.certificate, self.key = folder / "server.pem", folder / "server.key"
        self.account_key, self.account_public = folder / "accounts.key", folder / "accounts.pub"
        self.expired = folder / "expired.pem"
        """A client certificate of the admin that was good once, and its key."""
        self.tokens = folder / "tokens.csv"
        self.audit_policy = folder / "audit-policy.json"

    def token(self, user: str) -> str:
        """What the user comes in with."""
        for line in self.tokens.read_text().splitlines():
            token, name, *_ = line.split(",")
            if name == user:
                return token
        raise LookupError(f"{self.tokens} has no token of {user}")

    def kubeconfig(self, user: str) -> Path:
        """The user's way in."""
        return self.folder / f"{user.removeprefix('system:')}.kubeconfig"

    def write(self, url: str) -> None:
        """Make all certificates, for an API server at these addresses."""
        authority = trustme.CA()
        authority.cert_pem.write_to_path(self.ca)
        served = authority.issue_cert("127.0.0.1", "localhost")
        served.private_key_pem.write_to_path(self.key)
        past = authority.issue_cert("nobody.example", common_name=ADMIN, not_after=LONG_AGO)
        past.private_key_and_cert_chain_pem.write_to_path(self.expired)
        self.certificate.write_bytes(b"".join(it.bytes() for it in served.cert_chain_pems))
        self._write_account_keys()
        rows = [
            ",".join([secrets.token_hex(16), name, name, *([group] if group else [])])
            for name, group in USERS.items()
        ]
        self.tokens.write_text("\n".join(rows) + "\n")
        self.audit_policy.write_text(json.dumps(AUDIT_POLICY))
        for user in USERS:
            config = kubeconfig(url, self.ca, self.token(user))
            self.kubeconfig(user).write_text(json.dumps(config))

    def _write_account_keys(self) -> None:
        key = ec.generate_private_key(ec.SECP256R1())
        pem = serialization.Encoding.PEM
        self.account_key.write_bytes(
            key.private_bytes(pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
        )
        self.account_public.write_bytes(
            key.public_key().public_bytes(pem, serialization.PublicFormat.SubjectPublicKeyInfo)
        )


def kubeconfig(url: str, ca: Path, token: str) -> dict[str, object]:
    """A kubeconfig with one way into one cluster; JSON is YAML enough for every reader."""
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "e2e",
        "clusters": [{"name": "e2e", "cluster": {"server": url, "certificate-authority": str(ca)}}],
        "users": [{"name": "e2e", "user": {"token": token}}],
        "contexts": [{"name": "e2e", "context": {"cluster": "e2e", "user": "e2e"}}],
    }
