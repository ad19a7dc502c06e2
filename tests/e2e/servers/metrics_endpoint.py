"""The endpoint of the metrics of a run, and ServiceAccounts that read it."""

from __future__ import annotations

import ssl
import urllib.error
import urllib.request
from itertools import count
from pathlib import Path

import trustme
import yaml

from tests.deploy.monitoring import MONITORING
from tests.e2e.cluster.workspace import Workspace, eventually
from tests.telemetry.harness import Reading, readings
from tools.control_plane.api import Api
from tools.control_plane.processes import free_ports

RBAC = "/apis/rbac.authorization.k8s.io/v1"
_readers = count(1)


class MetricsReader:
    """A ServiceAccount, with the shipped role for reading metrics if `may_read`."""

    def __init__(self, api: Api, workspace: Workspace, *, may_read: bool) -> None:
        name = f"{workspace.name}-reader-{next(_readers)}"
        accounts = f"/api/v1/namespaces/{workspace.name}/serviceaccounts"
        api.post(accounts, {"metadata": {"name": name}}).granted()
        answer = api.post(f"{accounts}/{name}/token", {"spec": {"expirationSeconds": 3600}})
        self.token: str = answer.granted()["status"]["token"]
        if may_read:
            self._bind(api, name, workspace.name)

    def _bind(self, api: Api, name: str, namespace: str) -> None:
        shipped = yaml.safe_load_all((MONITORING / "reader.yaml").read_text(encoding="utf-8"))
        (role,) = (obj for obj in shipped if obj["kind"] == "ClusterRole")
        meta = {"metadata": {"name": name}}
        api.post(f"{RBAC}/clusterroles", {**meta, "rules": role["rules"]}).granted()
        subject = {"kind": "ServiceAccount", "name": name, "namespace": namespace}
        group = "rbac.authorization.k8s.io"
        reference = {"apiGroup": group, "kind": "ClusterRole", "name": name}
        binding = {**meta, "subjects": [subject], "roleRef": reference}
        api.post(f"{RBAC}/clusterrolebindings", binding).granted()
        user = f"system:serviceaccount:{namespace}:{name}"
        asked = {"user": user, "nonResourceAttributes": {"verb": "get", "path": "/metrics"}}

        def is_in_force() -> bool:
            path = "/apis/authorization.k8s.io/v1/subjectaccessreviews"
            return bool(api.post(path, {"spec": asked}).granted()["status"]["allowed"])

        eventually("the role in force", is_in_force)


class Endpoint:
    """The endpoint of a run, with a certificate of a CA of the test."""

    def __init__(self, folder: Path) -> None:
        authority = trustme.CA()
        self.ca, self._certificate = folder / "metrics-ca.pem", folder / "metrics.pem"
        self._key = folder / "metrics.key"
        authority.cert_pem.write_to_path(str(self.ca))
        issued = authority.issue_cert("127.0.0.1")
        issued.private_key_pem.write_to_path(str(self._key))
        issued.cert_chain_pems[0].write_to_path(str(self._certificate))
        (self.port,) = free_ports(1)

    @property
    def flags(self) -> tuple[str, ...]:
        """The flags with which a run serves there."""
        files = ("--tls-cert-file", str(self._certificate), "--tls-private-key-file")
        where = ("--secure-port", str(self.port), "--bind-address", "127.0.0.1")
        return (*where, *files, str(self._key))

    def status(self, path: str, token: str = "") -> int:
        """The status of the answer; 0 if there is none."""
        return self._get(path, token)[0]

    def metrics(self) -> list[Reading]:
        """Every line of the metrics; none if there is no answer."""
        return readings(self._get("/metrics")[1])

    def _get(self, path: str, token: str = "") -> tuple[int, bytes]:
        asked = urllib.request.Request(f"https://127.0.0.1:{self.port}{path}")
        if token:
            asked.add_header("Authorization", f"Bearer {token}")
        tls = ssl.create_default_context(cafile=str(self.ca))
        try:
            with urllib.request.urlopen(asked, timeout=10, context=tls) as response:
                return int(response.status), response.read()
        except urllib.error.HTTPError as error:
            return error.code, b""
        except OSError:
            return 0, b""
