"""Bringing the cluster of a room into a state by what operators have: workloads and nodes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime
from functools import partial
from typing import Any, NamedTuple

from tests.e2e.cluster.workspace import Room, eventually
from tests.e2e.processes.run import Account, Policy, Run
from tools.control_plane.api import Object

Arrange = Callable[[Room], None]
ALONE = ("--feature-gates", "EvictionsInBackground=false")
"""For runs that limits are held against: pods that others move, in any namespace, count too."""
ROUNDS = 6
"""Runs after which a cluster that is ever to be at peace must be."""


class World(NamedTuple):
    """The nodes of a room and the pods on them, as the API server has them."""

    nodes: list[Object]
    pods: list[Object]


def look(room: Room) -> World:
    """The cluster as it is now."""
    every = {it["metadata"]["name"]: it for it in room.api.items("/api/v1/nodes")}
    return World([every[name] for name in room.nodes], room.running())


def workload(
    room: Room,
    name: str,
    replicas: int,
    *,
    cpu: str = "100m",
    labels: Mapping[str, str] | None = None,
    annotations: Mapping[str, str] | None = None,
    **spec: object,
) -> None:
    """A Deployment whose pods are labelled `app: <name>`, all of them Ready."""
    mine = {"app": name, **(labels or {})}
    template = {"labels": mine, "annotations": dict(annotations or {})}
    body = {
        "metadata": {"name": name},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": {"app": name}},
            "template": {"metadata": template, "spec": pod_spec(room, spec, cpu)},
        },
    }
    room.api.post(f"/apis/apps/v1/namespaces/{room.name}/deployments", body).granted()
    eventually(f"{replicas} pods of {name}", lambda: len(pods_of(room.ready(), name)) == replicas)


def scale(room: Room, name: str, replicas: int) -> None:
    """The Deployment with more pods, all of them Ready."""
    path = f"/apis/apps/v1/namespaces/{room.name}/deployments/{name}"
    room.api.patch(path, {"spec": {"replicas": replicas}}).granted()
    eventually(f"{replicas} pods of {name}", lambda: len(pods_of(room.ready(), name)) == replicas)


def pod_spec(room: Room, more: Mapping[str, object], cpu: str = "100m") -> Object:
    """What a pod of the room is like that asks for a little cpu."""
    wanted = {"requests": {"cpu": cpu, "memory": "16Mi"}}
    container = {"name": "main", "image": "registry.example/app:1", "resources": wanted}
    return {"containers": [container], "nodeSelector": {"room": room.name}, **more}


def pods_of(pods: Iterable[Object], app: str) -> list[Object]:
    """Those that belong to the app."""
    return [it for it in pods if it["metadata"].get("labels", {}).get("app") == app]


def uids(pods: Iterable[Object]) -> set[str]:
    """Who they are; a replacement has another uid."""
    return {it["metadata"]["uid"] for it in pods}


def open_only(room: Room, *names: str) -> None:
    """Cordons every node of the room but these."""
    for name in room.nodes:
        closed = {"spec": {"unschedulable": name not in names}}
        room.api.patch(f"/api/v1/nodes/{name}", closed).granted()


def open_all(room: Room) -> None:
    """Uncordons every node of the room."""
    open_only(room, *room.nodes)


def label(room: Room, node: str, **labels: str | None) -> None:
    """Labels a node; None takes a label away."""
    room.api.patch(f"/api/v1/nodes/{node}", {"metadata": {"labels": labels}}).granted()


def report(room: Room, pod: Object, **status: Any) -> None:
    """Has the pod say so of itself, as its kubelet would."""
    path = f"{room.pods}/{pod['metadata']['name']}/status"
    room.api.patch(path, {"status": status}).granted()


def restarted(room: Room, pods: Iterable[Object], times: int) -> None:
    """Has the only container of each pod look back on so many restarts."""
    for pod in pods:
        report(room, pod, containerStatuses=[_told_of_container(pod, restartCount=times)])


def crashing(room: Room, pods: Iterable[Object]) -> None:
    """Has the only container of each pod wait for its next start."""
    state = {"waiting": {"reason": "CrashLoopBackOff"}}
    for pod in pods:
        report(room, pod, containerStatuses=[_told_of_container(pod, state=state, ready=False)])


def _told_of_container(pod: Object, **changed: Any) -> Object:
    told: Object = pod["status"]["containerStatuses"][0]
    return {**told, **changed}


def at_rest(room: Room) -> bool:
    """Whether every Deployment has the pods it wants, all Ready, and nobody is on the way out."""
    wanted = sum(
        it["spec"]["replicas"]
        for it in room.api.items(f"/apis/apps/v1/namespaces/{room.name}/deployments")
    )
    made = [it for it in room.running() if _made_by_a_set(it) and it["status"]["phase"] != "Failed"]
    leaving = any("deletionTimestamp" in it["metadata"] for it in made)
    return not leaving and len(made) == wanted == len(list(filter(_made_by_a_set, room.ready())))


def _made_by_a_set(pod: Object) -> bool:
    owners = pod["metadata"].get("ownerReferences") or ()
    return any(it["kind"] == "ReplicaSet" for it in owners)


def once(account: Account, policy: Policy, *words: str) -> Run:
    """A run of one cycle, which has ended well."""
    with account.run(policy, *words) as run:
        assert run.ended() == 0, run.story
    assert not run.told("plugin failed"), run.story
    return run


def until_nothing_moves(account: Account, policy: Policy, room: Room) -> list[Run]:
    """Runs, each on a cluster at rest, up to and with the first that moves nothing."""
    runs: list[Run] = []
    while len(runs) < ROUNDS:
        eventually("a cluster at rest", partial(at_rest, room))
        runs.append(once(account, policy))
        if not runs[-1].evicted:
            return runs
    told = "\n".join(run.story for run in runs)
    raise AssertionError(f"there is still something to move after {ROUNDS} runs\n{told}")


def old_enough(room: Room, seconds: float = 2) -> None:
    """Waits until every pod of the room is older than a limit of one second."""

    def youngest() -> float:
        now = datetime.now(UTC)
        made = [
            datetime.fromisoformat(it["metadata"]["creationTimestamp"]) for it in room.running()
        ]
        return min(((now - it).total_seconds() for it in made), default=seconds)

    eventually("pods that are old enough", lambda: youngest() > seconds)
