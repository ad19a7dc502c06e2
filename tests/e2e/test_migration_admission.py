"""Who may create migration jobs, and what their controller may write, on a real API server."""

from __future__ import annotations

import os
from collections.abc import Iterator
from functools import partial
from itertools import count
from typing import Any
from uuid import uuid4

import pytest

from resettle.model.migration_job import GATE, GATE_LABEL, JOBS_PATH, PLACEHOLDER, TAINT
from tests.e2e.cluster.workspace import Workspace, eventually
from tests.e2e.migration.account import ControllerAccount
from tools.control_plane.api import Answer, Api, Object
from tools.control_plane.papers import ADMIN
from tools.control_plane.plane import Access

STRICT = f"{JOBS_PATH}?fieldValidation=Strict"
POD = {"namespace": "shop", "name": "cart-1"}
GPU = {"key": "gpu", "value": "yes", "effect": "NoSchedule"}
SOFT = {"key": TAINT, "effect": "PreferNoSchedule"}
HARD = {"key": TAINT, "effect": "NoSchedule"}
_names = count(1)


def job(**spec: Any) -> Object:
    return {
        "apiVersion": "resettle.dev/v1alpha1",
        "kind": "PodMigrationJob",
        "metadata": {"name": f"job-{os.getpid()}-{next(_names)}"},
        "spec": {"podRef": POD, **spec},
    }


@pytest.fixture(scope="module")
def controller(
    plane: Access, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[ControllerAccount]:
    folder = tmp_path_factory.mktemp("migration")
    with plane.api() as api, Workspace(api), ControllerAccount(plane, api, folder) as account:
        yield account


@pytest.fixture
def mine(controller: ControllerAccount) -> Iterator[Api]:
    with controller.api() as opened:
        yield opened


@pytest.fixture
def jobs(controller: ControllerAccount, api: Api) -> Iterator[Api]:
    """The API server as the admin sees it; jobs of this file are removed at the end."""
    yield api
    remove_jobs(api)


def remove_jobs(api: Api) -> None:
    names = [made["metadata"]["name"] for made in api.items(JOBS_PATH)]
    for name in names:
        if name.startswith(f"job-{os.getpid()}-"):
            api.delete(f"{JOBS_PATH}/{name}")


def refused(answer: Answer, status: int, *texts: str) -> None:
    assert answer.status == status, answer
    for text in texts:
        assert text in answer.body["message"]


# -- the definitions themselves --------------------------------------------------------------------


def test_the_api_server_finds_nothing_wrong_with_the_expressions(
    controller: ControllerAccount, api: Api
) -> None:
    path = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies"
    names = [
        document["metadata"]["name"]
        for document in controller.shipped()
        if document["kind"] == "ValidatingAdmissionPolicy"
    ]
    assert len(names) == 6

    for name in names:

        def checked(name: str = name) -> Object:
            status: Object = api.get(f"{path}/{name}").granted().get("status") or {}
            return status if "observedGeneration" in status else {}

        assert eventually(f"a check of {name}", checked)["typeChecking"] == {}, name


def test_kubectl_shows_the_columns(jobs: Api) -> None:
    made = jobs.post(STRICT, job(ttl="5m", mode="EvictDirectly")).granted()
    table = _table(jobs, f"{JOBS_PATH}/{made['metadata']['name']}")

    shown = dict(zip(table["columns"], table["cells"], strict=True))
    assert shown["PodNamespace"] == "shop"
    assert shown["Pod"] == "cart-1"
    assert shown["TTL"] == "5m"


def _table(api: Api, path: str) -> Object:
    import http.client
    import json
    import ssl
    from urllib.parse import urlsplit

    tls = ssl.create_default_context(cafile=str(api.ca))
    connection = http.client.HTTPSConnection(urlsplit(api.url).netloc, context=tls)
    headers = {
        "Authorization": f"Bearer {api.token}",
        "Accept": "application/json;as=Table;v=v1;g=meta.k8s.io",
    }
    connection.request("GET", path, headers=headers)
    body = json.loads(connection.getresponse().read())
    connection.close()
    (row,) = body["rows"]
    return {"columns": [c["name"] for c in body["columnDefinitions"]], "cells": row["cells"]}


# -- bad jobs --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("spec", "texts"),
    [
        pytest.param({"ttl": "0s"}, ["spec.ttl", "must be longer than 0s"], id="ttl 0s"),
        pytest.param({"ttl": "soon"}, ["write a duration such as 5m"], id="no duration"),
        pytest.param({"ttl": "-5m"}, ["write a duration such as 5m"], id="a negative duration"),
        pytest.param(
            {"mode": "Teleport"},
            ["spec.mode", '"ReservationFirst", "EvictDirectly"'],
            id="unknown mode",
        ),
        pytest.param(
            {"podRef": {"name": "cart-1"}}, ["spec.podRef.namespace: Required"], id="no namespace"
        ),
        pytest.param(
            {"podRef": {"namespace": "shop"}}, ["spec.podRef.name: Required"], id="no name"
        ),
        pytest.param(
            {"podRef": {"namespace": "shop", "name": "../nodes/n1"}},
            ["spec.podRef.name"],
            id="a path for a name",
        ),
        pytest.param({"podRef": {**POD, "kind": "Node"}}, ["spec.podRef.kind"], id="no pod"),
        pytest.param({"deleteOptions": {"dryRun": ["All"]}}, ["a job is no dry run"], id="dryRun"),
        pytest.param(
            {"deleteOptions": {"propagationPolicy": "Orphan", "orphanDependents": True}},
            ["set propagationPolicy or orphanDependents, not both"],
            id="two answers about dependents",
        ),
        pytest.param(
            {
                "podRef": {**POD, "uid": "a"},
                "deleteOptions": {"preconditions": {"uid": "b"}},
            },
            ["is not the uid of podRef"],
            id="two uids",
        ),
        pytest.param(
            {"mode": "EvictDirectly", "reservationOptions": {"nodeName": "n1"}},
            ["mode EvictDirectly holds no place"],
            id="a node for no place",
        ),
        pytest.param(
            {"reservationOptions": {"reservationRef": {"name": "r"}}},
            ["reservationRef needs koord-scheduler"],
            id="a Reservation",
        ),
        pytest.param(
            {"reservationOptions": {"steering": "Sideways"}},
            ["spec.reservationOptions.steering"],
            id="unknown steering",
        ),
    ],
)
def test_a_bad_job_is_refused_with_the_reason(jobs: Api, spec: Object, texts: list[str]) -> None:
    refused(jobs.post(STRICT, job(**spec)), 422, *texts)


def test_an_unknown_field_of_the_spec_is_refused_by_strict_validation(jobs: Api) -> None:
    refused(jobs.post(STRICT, job(later=1)), 400, 'unknown field "spec.later"')


@pytest.mark.parametrize(
    "spec",
    [
        {},
        {"mode": "EvictDirectly", "reservationOptions": {}},
        {"podRef": {**POD, "apiVersion": "v1", "kind": "Pod", "uid": "a"}},
        {"deleteOptions": {"gracePeriodSeconds": 0, "preconditions": {"uid": "a"}}},
        {
            "mode": "ReservationFirst",
            "ttl": "1h5m0.5s",
            "paused": True,
            "reservationOptions": {
                "nodeName": "n1",
                "steering": "Gate",
                "placeholderPriority": "Hold",
                "reserveTimeout": "60s",
            },
        },
    ],
)
def test_a_good_job_is_taken(jobs: Api, spec: Object) -> None:
    assert jobs.post(STRICT, job(**spec)).granted()["spec"] == {"podRef": POD, **spec}


@pytest.mark.parametrize(
    ("change", "text"),
    [
        pytest.param({"podRef": {"name": "cart-2"}}, "podRef cannot be changed", id="the pod"),
        pytest.param({"podRef": {"uid": "a"}}, "podRef cannot be changed", id="a uid for the pod"),
        pytest.param({"mode": None}, "mode cannot be changed", id="no mode"),
        pytest.param({"mode": "EvictDirectly"}, "mode cannot be changed", id="another mode"),
        pytest.param({"deleteOptions": {}}, "deleteOptions cannot be changed", id="new options"),
        pytest.param(
            {"reservationOptions": {"steering": "Hard"}},
            "steering cannot be changed",
            id="another steering",
        ),
        pytest.param(
            {"reservationOptions": {"nodeName": "n2"}},
            "nodeName cannot be changed",
            id="a node",
        ),
        pytest.param(
            {"reservationOptions": None},
            "reservationOptions cannot be changed",
            id="no options of the reservation",
        ),
    ],
)
def test_a_job_stays_what_it_is(jobs: Api, change: Object, text: str) -> None:
    options = {"steering": "Soft"}
    made = jobs.post(STRICT, job(mode="ReservationFirst", reservationOptions=options)).granted()

    refused(jobs.patch(f"{JOBS_PATH}/{made['metadata']['name']}", {"spec": change}), 422, text)


@pytest.mark.parametrize("change", [{"paused": True}, {"ttl": "9m"}, {"ttl": None}])
def test_only_pause_and_ttl_may_change(jobs: Api, change: Object) -> None:
    made = jobs.post(STRICT, job(ttl="5m")).granted()

    assert jobs.patch(f"{JOBS_PATH}/{made['metadata']['name']}", {"spec": change}).fine


def test_the_status_keeps_what_a_newer_version_writes(jobs: Api) -> None:
    path = f"{JOBS_PATH}/{jobs.post(STRICT, job()).granted()['metadata']['name']}"
    status = {
        "phase": "Rehearsing",
        "later": {"a": 1},
        "conditions": [{"type": "Later", "status": "True", "more": 1}],
        "source": {"owner": {"uid": "u", "more": 1}, "more": 1},
    }

    assert jobs.patch(f"{path}/status", {"status": status}).granted()["status"] == status


# -- who may create jobs ---------------------------------------------------------------------------


@pytest.fixture
def person(plane: Access, controller: ControllerAccount) -> Iterator[Person]:
    with plane.api() as admin:
        yield from Person.visiting(plane, admin)


class Person:
    """A user who may write jobs, and evict in one namespace once allowed to."""

    def __init__(self, plane: Access, admin: Api) -> None:
        self.name = f"person-{os.getpid()}-{next(_names)}"
        self._admin = admin
        self.api = Api(
            plane.url, plane.papers.token(ADMIN), plane.papers.ca, acting_as=(self.name, self.name)
        )
        self._made: list[str] = []

    @classmethod
    def visiting(cls, plane: Access, admin: Api) -> Iterator[Person]:
        admin.post("/api/v1/namespaces", {"metadata": {"name": "shop"}})
        person = cls(plane, admin)
        person.may("podmigrationjobs", "resettle.dev", "create", "patch", "get")
        person.may("podmigrationjobs/status", "resettle.dev", "patch")
        eventually("the role", lambda: person.api.get(f"{JOBS_PATH}/none").status == 404)
        with person.api:
            yield person
        for path in person._made:
            admin.delete(path)
        remove_jobs(admin)

    def may(
        self, resource: str, group: str, *verbs: str, namespace: str = "", pod: str = ""
    ) -> None:
        """Grants it, cluster-wide or in a namespace."""
        name = f"{self.name}-{next(_names)}"
        kind, root = ("Role", f"/namespaces/{namespace}") if namespace else ("ClusterRole", "")
        base = f"/apis/rbac.authorization.k8s.io/v1{root}/{kind.lower()}"
        rule = {"apiGroups": [group], "resources": [resource], "verbs": list(verbs)}
        rule |= {"resourceNames": [pod]} if pod else {}
        reference = {"apiGroup": "rbac.authorization.k8s.io", "kind": kind, "name": name}
        subject = {"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": self.name}
        binding = {"metadata": {"name": name}, "roleRef": reference, "subjects": [subject]}
        self._admin.post(f"{base}s", {"metadata": {"name": name}, "rules": [rule]}).granted()
        self._admin.post(f"{base}bindings", binding).granted()
        self._made += [f"{base}bindings/{name}", f"{base}s/{name}"]

    def may_evict(self, namespace: str = "", pod: str = "") -> None:
        self.may("pods/eviction", "", "create", namespace=namespace, pod=pod)


def test_who_may_create_jobs_but_not_evict_is_refused(person: Person) -> None:
    answer = person.api.post(STRICT, job())

    refused(
        answer,
        403,
        f"{person.name} may not evict pod shop/cart-1: a PodMigrationJob for it takes permission"
        " to create pods/eviction in that namespace",
    )
    assert answer.body["reason"] == "Forbidden"


@pytest.mark.parametrize(
    ("where", "pod"),
    [("", ""), ("shop", ""), ("shop", "cart-1")],
    ids=["everywhere", "in the namespace", "this pod"],
)
def test_who_may_evict_the_pod_is_admitted(person: Person, where: str, pod: str) -> None:
    person.may_evict(where, pod)

    eventually("an admitted job", lambda: person.api.post(STRICT, job()).fine)


@pytest.mark.parametrize(("where", "pod"), [("default", ""), ("shop", "cart-2")])
def test_who_may_evict_other_pods_is_refused(person: Person, where: str, pod: str) -> None:
    person.may_evict(where, pod)
    other = {"namespace": where, "name": pod or "any"}

    eventually("another job", lambda: person.api.post(STRICT, job(podRef=other)).fine)
    refused(person.api.post(STRICT, job()), 403, "may not evict pod shop/cart-1")


@pytest.mark.parametrize(
    ("part", "change"),
    [
        pytest.param("", {"spec": {"paused": False}}, id="resumes it"),
        pytest.param("", {"metadata": {"labels": {GATE_LABEL: "true"}}}, id="gates pods"),
        pytest.param("/status", {"status": {"phase": "Succeeded"}}, id="writes its status"),
    ],
)
def test_nor_may_they_change_a_job_that_someone_else_created(
    person: Person, jobs: Api, part: str, change: Object
) -> None:
    path = f"{JOBS_PATH}/{jobs.post(STRICT, job(paused=True)).granted()['metadata']['name']}"

    refused(person.api.patch(f"{path}{part}", change), 403, "may not evict pod shop/cart-1")
    assert person.api.patch(path, {"metadata": {"annotations": {"seen": "yes"}}}).fine


# -- nodes -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("others", [[], [GPU]], ids=["alone", "beside another"])
def test_its_own_taint_comes_changes_and_goes(
    workspace: Workspace, mine: Api, others: list[Object]
) -> None:
    path = f"/api/v1/nodes/{workspace.nodes[0]}"
    workspace.api.patch(path, {"spec": {"taints": others or None}}).granted()

    for taints in ([*others, SOFT], [*others, HARD], others):
        assert mine.patch(path, {"spec": {"taints": taints or None}}).fine


@pytest.mark.parametrize(
    ("change", "text"),
    [
        pytest.param(
            {"spec": {"taints": [GPU, {**HARD, "effect": "NoExecute"}]}},
            f"no taints of a node but {TAINT}",
            id="our key with NoExecute",
        ),
        pytest.param({"spec": {"taints": [SOFT]}}, "no taints", id="another one goes"),
        pytest.param(
            {"spec": {"taints": [GPU, {**SOFT, "key": "a/b"}]}}, "no taints", id="another comes"
        ),
        pytest.param({"spec": {"unschedulable": True}}, "but taints", id="a cordon"),
        pytest.param({"metadata": {"labels": {"a": "b"}}}, "no metadata", id="a label"),
        pytest.param({"metadata": {"annotations": {"a": "b"}}}, "no metadata", id="an annotation"),
    ],
)
def test_nothing_else_of_a_node_may_change(
    workspace: Workspace, mine: Api, change: Object, text: str
) -> None:
    path = f"/api/v1/nodes/{workspace.nodes[0]}"
    workspace.api.patch(path, {"spec": {"taints": [GPU]}}).granted()

    refused(mine.patch(path, change), 403, text)


def test_neither_status_nor_the_node_itself_is_its_to_touch(
    workspace: Workspace, mine: Api
) -> None:
    path = f"/api/v1/nodes/{workspace.nodes[0]}"

    assert mine.patch(f"{path}/status", {"status": {"phase": "Gone"}}).status == 403
    assert mine.delete(path).status == 403


# -- placeholders ----------------------------------------------------------------------------------


@pytest.fixture
def hold(controller: ControllerAccount, mine: Api) -> str:
    """A PriorityClass that the controller made, once pods may have it: that takes a moment."""
    name = f"resettle-hold-{os.getpid()}"
    spec = {"metadata": {"name": name}, "value": 5, "preemptionPolicy": "Never"}
    answer = mine.post("/apis/scheduling.k8s.io/v1/priorityclasses", spec)
    assert answer.fine or answer.status == 409
    pods = f"/api/v1/namespaces/{controller.namespace}/pods?dryRun=All"
    eventually("a class for pods", lambda: mine.post(pods, placeholder(name)).fine)
    return name


CAPABLE = {"allowPrivilegeEscalation": False, "capabilities": {"add": ["NET_ADMIN"]}}


def placeholder(hold: str, *, labels: Object | None = None, **spec: Any) -> Object:
    container = {
        "name": "place",
        "image": "registry.k8s.io/pause:3.10",
        "securityContext": {"allowPrivilegeEscalation": False},
    }
    return {
        "metadata": {
            "name": f"place-{next(_names)}",
            "labels": {PLACEHOLDER: "true"} if labels is None else labels,
        },
        "spec": {
            "containers": [container],
            "automountServiceAccountToken": False,
            "priorityClassName": hold,
            **spec,
        },
    }


def test_a_placeholder_is_created_and_deleted(
    controller: ControllerAccount, mine: Api, hold: str
) -> None:
    pods = f"/api/v1/namespaces/{controller.namespace}/pods"
    ports = [{"containerPort": 8080, "hostPort": 8080}]
    pod = placeholder(hold)
    pod["spec"]["containers"][0]["ports"] = ports

    made = mine.post(pods, pod).granted()
    assert made["spec"]["preemptionPolicy"] == "Never"
    assert made["spec"]["priority"] == 5
    assert mine.delete(f"{pods}/{made['metadata']['name']}", grace_seconds=0).fine


@pytest.mark.parametrize(
    ("change", "text"),
    [
        pytest.param({"labels": {}}, f"with the label {PLACEHOLDER}=true", id="no label"),
        pytest.param(
            {"labels": {PLACEHOLDER: "false"}}, f"with the label {PLACEHOLDER}=true", id="not true"
        ),
        pytest.param({"volumes": [{"name": "v", "emptyDir": {}}]}, "with volumes", id="a volume"),
        pytest.param(
            {"volumes": [{"name": "v", "hostPath": {"path": "/"}}]}, "with volumes", id="the host"
        ),
        pytest.param({"automountServiceAccountToken": True}, "with a token", id="a token"),
        pytest.param({"hostNetwork": True}, "namespace of its node", id="host network"),
        pytest.param({"hostPID": True}, "namespace of its node", id="host processes"),
        pytest.param({"nodeName": "n1"}, "may not choose the node", id="a node"),
        pytest.param({"priorityClassName": None}, "that preempts others", id="it preempts"),
        pytest.param(
            {"containers": [{"name": "c", "image": "i", "securityContext": CAPABLE}]},
            "with privileges",
            id="capabilities",
        ),
        pytest.param(
            {"containers": [{"name": "c", "image": "i"}]}, "with privileges", id="could escalate"
        ),
    ],
)
def test_no_other_pod_may_be_created(
    controller: ControllerAccount, mine: Api, hold: str, change: Object, text: str
) -> None:
    pods = f"/api/v1/namespaces/{controller.namespace}/pods"

    refused(mine.post(pods, placeholder(hold, **change)), 403, text)


def test_no_pod_may_be_created_outside_its_namespace(
    workspace: Workspace, mine: Api, hold: str
) -> None:
    refused(mine.post(workspace.pods_path, placeholder(hold)), 403, "cannot create resource")


def test_even_with_a_wider_role_pods_stay_in_its_namespace(
    controller: ControllerAccount, workspace: Workspace, mine: Api, hold: str
) -> None:
    """The policy holds where someone bound `edit` to the account."""
    path = f"/apis/rbac.authorization.k8s.io/v1/namespaces/{workspace.name}/rolebindings"
    subject = {
        "kind": "ServiceAccount",
        "name": controller.name,
        "namespace": controller.namespace,
    }
    reference = {
        "apiGroup": "rbac.authorization.k8s.io",
        "kind": "ClusterRole",
        "name": "edit",
    }
    binding = {"metadata": {"name": "wide"}, "roleRef": reference, "subjects": [subject]}
    workspace.api.post(path, binding).granted()

    def reason() -> str:
        message: str = mine.post(workspace.pods_path, placeholder(hold)).body["message"]
        return message if "cannot create resource" not in message else ""

    assert f"pods in {controller.namespace} only" in eventually("the role", reason)


def test_its_own_pods_are_not_deleted_for_placeholders(
    controller: ControllerAccount, api: Api, mine: Api, hold: str
) -> None:
    pods = f"/api/v1/namespaces/{controller.namespace}/pods"
    made = api.post(pods, placeholder(hold, labels={"app": "the-controller"})).granted()

    refused(mine.delete(f"{pods}/{made['metadata']['name']}"), 403, "only pods with the label")
    api.delete(f"{pods}/{made['metadata']['name']}", grace_seconds=0).granted()


def test_evictions_are_not_taken_for_deletions(workspace: Workspace, mine: Api) -> None:
    workspace.deploy("web", 1)
    (pod,) = workspace.list_ready_pods()
    name = pod["metadata"]["name"]
    eviction = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": name}}

    assert mine.post(f"{workspace.pods_path}/{name}/eviction", eviction).fine


@pytest.mark.parametrize(
    ("change", "text"),
    [
        pytest.param({"metadata": {"name": "mine"}}, "may write only resettle-hold-*", id="a name"),
        pytest.param({"preemptionPolicy": "PreemptLowerPriority"}, "that preempts", id="preempts"),
        pytest.param({"globalDefault": True}, "that is the default", id="the default"),
    ],
)
def test_other_priority_classes_may_not_be_written(mine: Api, change: Object, text: str) -> None:
    spec = {"metadata": {"name": "resettle-hold-77"}, "value": 7, "preemptionPolicy": "Never"}

    refused(mine.post("/apis/scheduling.k8s.io/v1/priorityclasses", {**spec, **change}), 403, text)


def test_priority_classes_of_others_may_not_be_deleted(api: Api, mine: Api, hold: str) -> None:
    path = "/apis/scheduling.k8s.io/v1/priorityclasses"
    name = f"theirs-{os.getpid()}"
    api.post(path, {"metadata": {"name": name}, "value": 7}).granted()

    refused(mine.delete(f"{path}/{name}"), 403, "may write only resettle-hold-*")
    assert api.delete(f"{path}/{name}").fine
    assert mine.delete(f"{path}/{hold}").fine


# -- the gate --------------------------------------------------------------------------------------


def owned(uid: str, *, controller: bool = True, **spec: Any) -> Object:
    owner = {
        "apiVersion": "apps/v1",
        "kind": "ReplicaSet",
        "name": "web",
        "uid": uid,
        "controller": controller,
    }
    return {
        "metadata": {"name": f"web-{next(_names)}", "ownerReferences": [owner]},
        "spec": {"containers": [{"name": "main", "image": "registry.example/app:1"}], **spec},
    }


def gated(api: Api, workspace: Workspace, pod: Object) -> list[str]:
    """The gates that a pod would get."""
    answer = api.post(f"{workspace.pods_path}?dryRun=All", pod).granted()
    return [gate["name"] for gate in answer["spec"].get("schedulingGates", ())]


def is_gated(api: Api, workspace: Workspace, owner: str) -> bool:
    return gated(api, workspace, owned(owner)) == [GATE]


def gating(jobs: Api, owner: str, *, label: bool = True) -> str:
    """The path of a job whose pod had this owner."""
    wanted = job()
    wanted["metadata"]["labels"] = {GATE_LABEL: "true"} if label else {}
    path = f"{JOBS_PATH}/{jobs.post(STRICT, wanted).granted()['metadata']['name']}"
    status = {"source": {"owner": {"uid": owner}}}
    jobs.patch(f"{path}/status", {"status": status}).granted()
    return path


def test_without_a_job_nothing_is_gated(jobs: Api, workspace: Workspace) -> None:
    assert gated(jobs, workspace, owned(str(uuid4()))) == []


def test_pods_of_the_owner_are_gated_while_the_job_has_its_label(
    jobs: Api, workspace: Workspace
) -> None:
    owner, other = str(uuid4()), str(uuid4())
    path = gating(jobs, owner)

    eventually("a gated pod", lambda: gated(jobs, workspace, owned(owner)) == [GATE])
    assert gated(jobs, workspace, owned(other)) == []
    assert gated(jobs, workspace, owned(owner, controller=False)) == []
    bare = owned(owner)
    del bare["metadata"]["ownerReferences"]
    assert gated(jobs, workspace, bare) == []

    jobs.patch(path, {"metadata": {"labels": {GATE_LABEL: None}}}).granted()
    eventually("pods without a gate", lambda: gated(jobs, workspace, owned(owner)) == [])


def test_a_job_that_is_deleted_gates_nothing(jobs: Api, workspace: Workspace) -> None:
    owner = str(uuid4())
    path = gating(jobs, owner)
    eventually("a gated pod", lambda: gated(jobs, workspace, owned(owner)) == [GATE])

    jobs.delete(path).granted()
    eventually("pods without a gate", lambda: gated(jobs, workspace, owned(owner)) == [])


def test_two_jobs_of_one_owner_and_one_of_another_add_one_gate_each(
    jobs: Api, workspace: Workspace
) -> None:
    one, two = str(uuid4()), str(uuid4())
    for owner in (one, one, two):
        gating(jobs, owner)
    without_status = job()
    without_status["metadata"]["labels"] = {GATE_LABEL: "true"}
    jobs.post(STRICT, without_status).granted()

    for owner in (one, two):
        eventually("a gated pod", partial(is_gated, jobs, workspace, owner))
    kept = owned(one, schedulingGates=[{"name": "example.com/other"}])
    assert sorted(gated(jobs, workspace, kept)) == ["example.com/other", GATE]


def test_a_job_without_the_label_gates_nothing(jobs: Api, workspace: Workspace) -> None:
    quiet, loud = str(uuid4()), str(uuid4())
    gating(jobs, quiet, label=False)
    gating(jobs, loud)

    eventually("a gated pod", lambda: gated(jobs, workspace, owned(loud)) == [GATE])
    assert gated(jobs, workspace, owned(quiet)) == []


def test_a_real_replacement_is_gated(jobs: Api, workspace: Workspace) -> None:
    workspace.deploy("web", 1)
    (pod,) = workspace.list_ready_pods()
    (owner,) = pod["metadata"]["ownerReferences"]
    gating(jobs, owner["uid"])
    eventually("a gated pod", lambda: gated(jobs, workspace, owned(owner["uid"])) == [GATE])

    jobs.delete(f"{workspace.pods_path}/{pod['metadata']['name']}", grace_seconds=0).granted()

    def replacements() -> list[Object]:
        return [
            new for new in workspace.list_pods() if new["metadata"]["uid"] != pod["metadata"]["uid"]
        ]

    (new,) = eventually("a replacement", replacements)
    assert new["spec"]["schedulingGates"] == [{"name": GATE}]
    assert "nodeName" not in new["spec"]


# -- pods behind the gate --------------------------------------------------------------------------


def pinned(node: str, **rest: Any) -> Object:
    field = {"key": "metadata.name", "operator": "In", "values": [node]}
    return {
        "nodeAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": {
                "nodeSelectorTerms": [{"matchFields": [field], **rest}]
            }
        }
    }


ZONE = {"matchExpressions": [{"key": "zone", "operator": "In", "values": ["a", "b"]}]}


def behind_gate(workspace: Workspace, **spec: Any) -> str:
    gates = [{"name": GATE}, {"name": "example.com/other"}]
    pod = owned(str(uuid4()), schedulingGates=gates, **spec)
    # The garbage collector removes pods whose owner does not exist.
    del pod["metadata"]["ownerReferences"]
    created = workspace.api.post(workspace.pods_path, pod).granted()
    return f"{workspace.pods_path}/{created['metadata']['name']}"


OTHER_ONLY = {"schedulingGates": [{"$patch": "replace"}, {"name": "example.com/other"}]}


def strategic(api: Api, path: str, spec: Object) -> Answer:
    kind = "application/strategic-merge-patch+json"
    return api.ask("PATCH", path, {"spec": spec}, content_type=kind)


def test_the_gate_is_removed_and_the_pod_bound_to_a_node(workspace: Workspace, mine: Api) -> None:
    path = behind_gate(workspace)

    assert strategic(mine, path, {"affinity": pinned("n1")}).fine
    after = strategic(mine, path, OTHER_ONLY).granted()
    assert after["spec"]["schedulingGates"] == [{"name": "example.com/other"}]


def test_both_in_one_request_and_terms_of_the_pod_are_kept(workspace: Workspace, mine: Api) -> None:
    before = pinned("n1")
    required = before["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    required["nodeSelectorTerms"] = [ZONE]
    path = behind_gate(workspace, affinity=before)

    assert strategic(mine, path, {**OTHER_ONLY, "affinity": pinned("n1", **ZONE)}).fine


@pytest.mark.parametrize(
    ("change", "text"),
    [
        pytest.param(
            {"spec": {"schedulingGates": [{"name": GATE}]}}, "no scheduling gate but", id="a gate"
        ),
        pytest.param({"spec": {"schedulingGates": []}}, "no scheduling gate but", id="all gates"),
        pytest.param({"metadata": {"labels": {"a": "b"}}}, "no metadata", id="a label"),
        pytest.param({"metadata": {"annotations": {"a": "b"}}}, "no metadata", id="an annotation"),
        pytest.param(
            {"spec": {"activeDeadlineSeconds": 1}}, "nothing of the spec", id="a deadline"
        ),
        pytest.param({"spec": {"nodeSelector": {"a": "b"}}}, "nothing of the spec", id="selector"),
        pytest.param(
            {"spec": {"affinity": pinned("n1", **ZONE)}}, "but names of nodes", id="other terms"
        ),
    ],
)
def test_nothing_else_of_a_pod_may_change(
    workspace: Workspace, mine: Api, change: Object, text: str
) -> None:
    refused(mine.patch(behind_gate(workspace), change), 403, text)


def test_images_of_gated_pods_may_not_change(workspace: Workspace, mine: Api) -> None:
    image = {"containers": [{"name": "main", "image": "registry.example/other:1"}]}

    refused(strategic(mine, behind_gate(workspace), image), 403, "nothing of the spec")


def test_pods_without_the_gate_may_not_be_changed(workspace: Workspace, mine: Api) -> None:
    pod = owned(str(uuid4()))
    del pod["metadata"]["ownerReferences"]
    made = workspace.api.post(workspace.pods_path, pod).granted()
    path = f"{workspace.pods_path}/{made['metadata']['name']}"
    image = {"containers": [{"name": "main", "image": "registry.example/other:1"}]}

    refused(strategic(mine, path, image), 403, f"only pods with the scheduling gate {GATE}")
    refused(mine.patch(path, {"metadata": {"labels": {"a": "b"}}}), 403, "only pods with")
