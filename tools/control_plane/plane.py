"""The control plane: etcd, API server, controllers, scheduler, and KWOK in place of kubelets.

    with ControlPlane(built()) as plane:
        plane.api().get("/version")

Everything listens on loopback, on ports that were free. The controllers that judge nodes by their
heartbeat are left out, and so is the taint that a node begins with: a node that a test makes is as
ready as the test says, and a claim as bound. KWOK runs the pods of nodes annotated
`kwok.x-k8s.io/node: fake`; other nodes have no kubelet, and their pods stay as they are written.
"""

from __future__ import annotations

import http.client
import shutil
import ssl
import tempfile
import time
import urllib.request
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from types import TracebackType

from tools.control_plane.api import Api
from tools.control_plane.papers import ADMIN, QUIET, Papers
from tools.control_plane.processes import Crew, Process, free_ports
from tools.go_programs.build import Programs

PATIENCE_SECONDS = 120
GATES = "TaintTolerationComparisonOperators=true"
"""Tolerations with `Gt` and `Lt`, which the planner knows and Kubernetes 1.36 is only trying."""
NOT_RUN = (
    "node-lifecycle-controller",
    "taint-eviction-controller",
    # It takes a claim whose volume it does not know yet for one that lost its volume.
    "persistentvolume-binder-controller",
)
NOT_ADMITTING = ("TaintNodesByCondition", "StorageObjectInUseProtection")
"""A new node has no taint but its own, and a volume that is deleted is gone."""
UNHELD = {"kube_api_qps": 500, "kube_api_burst": 1000}
"""Requests a second that are more than any suite causes: no request waits here."""
AUDIT_LOG_MEGABYTES = 10_000
"""More than the suites write: at this size the API server begins another file."""
STAGES = Path(__file__).parent / "stages.yaml"
MANAGED = {"kwok.x-k8s.io/node": "fake"}
"""The annotation of nodes whose kubelet KWOK plays."""


class NotReady(Exception):
    """A program did not become ready in time."""


class Access:
    """How to reach a control plane that is running, all of it from one folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.papers = Papers(folder)
        self.audit_log = folder / "audit.log"
        self.logs = folder / "logs"

    @property
    def url(self) -> str:
        """Where the API server is."""
        return (self.folder / "url").read_text()

    def api(self, user: str = ADMIN) -> Api:
        """The API server as the user sees it."""
        return Api(self.url, self.papers.token(user), self.papers.ca)

    @property
    def environment(self) -> Mapping[str, str]:
        """The environment variables of the suites."""
        return {
            "RESETTLE_E2E_URL": self.url,
            "RESETTLE_E2E_TOKEN": self.papers.token(ADMIN),
            "RESETTLE_E2E_CA": str(self.papers.ca),
            "RESETTLE_E2E_KUBECONFIG": str(self.papers.kubeconfig(ADMIN)),
            "RESETTLE_E2E_AUDIT_LOG": str(self.audit_log),
            "RESETTLE_E2E_FOLDER": str(self.folder),
        }


class ControlPlane(Access):
    """A control plane that runs while its `with` block does; its logs stay behind."""

    def __init__(self, programs: Programs, folder: Path | None = None) -> None:
        super().__init__(folder or Path(tempfile.mkdtemp(prefix="resettle-e2e-")))
        self.logs.mkdir(parents=True, exist_ok=True)
        self._programs = programs
        self._crew = Crew(self.logs)

    def __enter__(self) -> ControlPlane:
        """All of it, ready."""
        try:
            self._start()
        except BaseException:
            self._end()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Stops everything."""
        self._end()

    def part(self, name: str) -> Process:
        """One of its programs, to be killed, restarted or paused."""
        return self._crew.member(name)

    def await_api(self) -> None:
        """Returns once the API server is ready, after a fault for one."""
        with self.api(QUIET) as api:
            self._await("kube-apiserver", lambda: api.get("/readyz").fine)

    def _end(self) -> None:
        self._crew.close()
        shutil.rmtree(self.folder / "etcd", ignore_errors=True)

    def _start(self) -> None:
        store, peers, server, controllers, scheduler, kwok = free_ports(6)
        url = f"https://127.0.0.1:{server}"
        (self.folder / "url").write_text(url)
        self.papers.write(url)
        self._start_etcd(store, peers)
        self._await("etcd", partial(self._fine, f"http://127.0.0.1:{store}/health"))
        self._start_api_server(server, store)
        with self.api(QUIET) as api:
            self._start_the_rest(api, controllers, scheduler, kwok)

    def _start_the_rest(self, api: Api, controllers: int, scheduler: int, kwok: int) -> None:
        self._await("kube-apiserver", lambda: api.get("/readyz").fine)
        self._start_controllers(controllers)
        start_scheduler(self, self._programs, self._crew, "kube-scheduler", scheduler)
        self._start_kwok(kwok)
        self._await("kwok", partial(self._fine, f"http://127.0.0.1:{kwok}/healthz"))
        for name, port in (("kube-controller-manager", controllers), ("kube-scheduler", scheduler)):
            self._await(name, partial(self._fine, f"https://127.0.0.1:{port}/healthz"))
        account = "/api/v1/namespaces/default/serviceaccounts/default"
        self._await("kube-controller-manager", lambda: api.get(account).fine)

    def _start_etcd(self, store: int, peers: int) -> None:
        clients, others = f"http://127.0.0.1:{store}", f"http://127.0.0.1:{peers}"
        self._run(
            "etcd",
            data_dir=self.folder / "etcd",
            listen_client_urls=clients,
            advertise_client_urls=clients,
            listen_peer_urls=others,
            initial_advertise_peer_urls=others,
            initial_cluster=f"default={others}",
            unsafe_no_fsync="true",
            # As clusters do it: else a kind that never changes gets bookmarks that stand still.
            watch_progress_notify_interval="5s",
            log_level="warn",
        )

    def _start_api_server(self, port: int, store: int) -> None:
        papers = self.papers
        self._run(
            "kube-apiserver",
            etcd_servers=f"http://127.0.0.1:{store}",
            bind_address="127.0.0.1",
            advertise_address="127.0.0.1",
            endpoint_reconciler_type="none",
            secure_port=port,
            tls_cert_file=papers.certificate,
            tls_private_key_file=papers.key,
            token_auth_file=papers.tokens,
            client_ca_file=papers.ca,
            authorization_mode="Node,RBAC",
            service_account_issuer="https://kubernetes.default.svc",
            service_account_key_file=papers.account_public,
            service_account_signing_key_file=papers.account_key,
            service_cluster_ip_range="10.0.0.0/24",
            disable_admission_plugins=",".join(NOT_ADMITTING),
            audit_policy_file=papers.audit_policy,
            audit_log_path=self.audit_log,
            audit_log_maxsize=AUDIT_LOG_MEGABYTES,
            feature_gates=GATES,
        )

    def _start_controllers(self, port: int) -> None:
        papers = self.papers
        self._run(
            "kube-controller-manager",
            kubeconfig=papers.kubeconfig("system:kube-controller-manager"),
            use_service_account_credentials="true",
            service_account_private_key_file=papers.account_key,
            root_ca_file=papers.ca,
            controllers=",".join(["*", *(f"-{name}" for name in NOT_RUN)]),
            leader_elect="false",
            bind_address="127.0.0.1",
            secure_port=port,
            tls_cert_file=papers.certificate,
            tls_private_key_file=papers.key,
            **UNHELD,
        )

    def _start_kwok(self, port: int) -> None:
        self._run(
            "kwok",
            config=STAGES,
            kubeconfig=self.papers.kubeconfig("kwok"),
            manage_all_nodes="false",
            manage_nodes_with_annotation_selector=",".join(f"{k}={v}" for k, v in MANAGED.items()),
            node_ip="127.0.0.1",
            server_address=f"127.0.0.1:{port}",
        )

    def _run(self, name: str, **flags: str | int | Path) -> Process:
        return self._crew.start(name, [self._programs[name], *as_flags(flags)])

    def _fine(self, url: str) -> bool:
        trust = ssl.create_default_context(cafile=str(self.papers.ca))
        with urllib.request.urlopen(url, timeout=5, context=trust) as answer:
            return bool(answer.status == 200)

    def _await(self, name: str, ready: Callable[[], bool]) -> None:
        until = time.monotonic() + PATIENCE_SECONDS
        while time.monotonic() < until:
            self._crew.check()
            try:
                if ready():
                    return
            except (OSError, http.client.HTTPException):
                pass
            time.sleep(0.1)
        raise NotReady(f"{name} is not ready after {PATIENCE_SECONDS} s; its log is in {self.logs}")


def start_scheduler(
    access: Access,
    programs: Programs,
    crew: Crew,
    name: str,
    port: int,
    config: Path | None = None,
) -> Process:
    """A scheduler, one of several if it has a configuration of its own."""
    papers = access.papers
    way_in = papers.kubeconfig("system:kube-scheduler")
    flags: dict[str, str | int | Path] = {
        "leader_elect": "false",
        "bind_address": "127.0.0.1",
        "secure_port": port,
        "tls_cert_file": papers.certificate,
        "tls_private_key_file": papers.key,
        "feature_gates": GATES,
        **({"config": config} if config else {"kubeconfig": way_in, **UNHELD}),
    }
    return crew.start(name, [programs["kube-scheduler"], *as_flags(flags)])


def as_flags(flags: Mapping[str, str | int | Path]) -> list[str]:
    """`--some-flag=value` for each."""
    return [f"--{name.replace('_', '-')}={value}" for name, value in flags.items()]
