"""The migration controller's own account, as `deploy/migration-controller` ships it."""

from __future__ import annotations

import json
import os
from itertools import count
from pathlib import Path
from types import TracebackType

import yaml

from resettle.controllers.migration.manifests.crd import pod_migration_job_crd
from resettle.model.migration_job import JOBS_PATH
from tests import ROOT
from tests.e2e.cluster.workspace import eventually
from tools.control_plane.api import Answer, Api, Object
from tools.control_plane.papers import kubeconfig
from tools.control_plane.plane import Access

SHIPPED = ROOT / "deploy" / "migration-controller"
NAME = "resettle-migration-controller"
CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
_accounts = count(1)


def define_jobs(api: Api) -> None:
    """Has the API server know PodMigrationJobs, as this version defines them."""
    crd = pod_migration_job_crd()
    if api.post(f"{CRDS}?fieldValidation=Strict", crd).status == 409:
        api.patch(f"{CRDS}/{crd['metadata']['name']}", {"spec": crd["spec"]}).granted()
    eventually("a list of jobs", lambda: api.get(JOBS_PATH).fine)


class ControllerAccount:
    """A namespace with the shipped account in it, and its admission policies in force."""

    def __init__(self, plane: Access, api: Api, folder: Path, *, gate: bool = True) -> None:
        self.plane, self._api = plane, api
        self._file = SHIPPED / ("gate/rbac.yaml" if gate else "rbac.yaml")
        self.name = f"{NAME}-{os.getpid()}-{next(_accounts)}"
        """Of the account, its roles and its lease, and the beginning of those of its policies."""
        self.namespace = f"for-{self.name}"
        self.user = f"system:serviceaccount:{self.namespace}:{self.name}"
        self.kubeconfig = folder / f"{self.namespace}.kubeconfig"
        self._token = ""
        self._made: list[str] = []

    def __enter__(self) -> ControllerAccount:
        define_jobs(self._api)
        self._make("/api/v1/namespaces", {"metadata": {"name": self.namespace}})
        for document in self.shipped():
            self._make(_home(document), document)
        path = f"/api/v1/namespaces/{self.namespace}/serviceaccounts/{self.name}/token"
        given = self._api.post(path, {"spec": {"expirationSeconds": 7200}}).granted()
        self._token = given["status"]["token"]
        way_in = kubeconfig(self.plane.url, self.plane.papers.ca, self._token)
        self.kubeconfig.write_text(json.dumps(way_in))
        home = f"/api/v1/namespaces/{self.namespace}/serviceaccounts/default"
        eventually("the default account", lambda: self._api.get(home).fine)
        with self.api() as mine:
            eventually("the policies in force", lambda: self._in_force(mine))
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for path in reversed(self._made):
            self._api.delete(path)

    def api(self) -> Api:
        """The API server as the controller sees it."""
        return Api(self.plane.url, self._token, self.plane.papers.ca)

    def shipped(self) -> list[Object]:
        """Account, roles and policies, under names of this test's own."""
        text = self._file.read_text(encoding="utf-8")
        for before, after in (
            (NAME, self.name),
            ("namespace: resettle\n", f"namespace: {self.namespace}\n"),
            ("namespace: resettle}", f"namespace: {self.namespace}}}"),
            ("serviceaccount:resettle:", f"serviceaccount:{self.namespace}:"),
            ("request.namespace == 'resettle'", f"request.namespace == '{self.namespace}'"),
            ("pods in resettle only", f"pods in {self.namespace} only"),
        ):
            text = text.replace(before, after)
        return list(yaml.safe_load_all(text))

    def _in_force(self, mine: Api) -> bool:
        """Whether the policies refuse what roles alone would grant; asked, and not done."""
        pods = f"/api/v1/namespaces/{self.namespace}/pods?dryRun=All"
        pod = {"metadata": {"name": "any"}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
        classes = "/apis/scheduling.k8s.io/v1/priorityclasses?dryRun=All"
        label = {"metadata": {"labels": {"by": "the-controller"}}}
        nodes = [node["metadata"]["name"] for node in self._api.items("/api/v1/nodes")]
        answers = [
            mine.post(pods, pod),
            mine.post(classes, {"metadata": {"name": "any"}, "value": 1}),
            *(mine.patch(f"/api/v1/nodes/{name}?dryRun=All", label) for name in nodes[:1]),
        ]
        return all(map(_by_policy, answers))

    def _make(self, path: str, document: Object) -> None:
        self._api.post(path, document).granted()
        self._made.append(f"{path}/{document['metadata']['name']}")


def _by_policy(answer: Answer) -> bool:
    return answer.status == 403 and "ValidatingAdmissionPolicy" in answer.body["message"]


def _home(document: Object) -> str:
    """Where objects of this kind are made."""
    kind, version = document["kind"], document["apiVersion"]
    plural = f"{kind.lower()[:-1]}ies" if kind.endswith("Policy") else f"{kind.lower()}s"
    root = "/api/v1" if version == "v1" else f"/apis/{version}"
    home = document["metadata"].get("namespace")
    return f"{root}/namespaces/{home}/{plural}" if home else f"{root}/{plural}"
