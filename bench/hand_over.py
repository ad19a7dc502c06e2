"""How often a held place goes to the pod that it is held for, on a real control plane.

    python -m bench.hand_over [--tries 20] [--busy]

Two nodes have room for one pod each. A placeholder holds the target, the pod that is to move is
on the source, which a taint closes, and a third pod of the same size and priority waits for any
place. The pod is evicted, and its replacement is handed the place in one of several ways.
`--busy` also creates and deletes other pods all the time, which makes the scheduler try again.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from statistics import median
from threading import Event, Thread
from typing import TypeVar

from resettle.testing import node
from tools.control_plane.api import Api, Object
from tools.control_plane.build import built
from tools.control_plane.plane import MANAGED, Access, ControlPlane

GATE = "resettle.dev/place-held"
SOURCE, TARGET = "source", "target"
NAMESPACES = "/api/v1/namespaces"
PODS = f"{NAMESPACES}/default/pods"
OTHERS = f"{NAMESPACES}/others/pods"
APPS = "/apis/apps/v1/namespaces/default/deployments"
CLASSES = {"team": "PreemptLowerPriority", "hold": "Never"}
"""Priority classes of one value; what holds a place preempts nothing."""
PATIENCE_SECONDS = 10.0
Found = TypeVar("Found")

WAYS: dict[str, tuple[str, ...]] = {
    "no gate: delete": ("refused", "delete"),
    "no gate: nominate, delete": ("refused", "nominate", "delete"),
    "gate: pin, delete, release": ("pin", "delete", "release"),
    "gate: pin, release, delete": ("pin", "release", "delete"),
    "gate: pin, nominate, delete, release": ("pin", "nominate", "delete", "release"),
}


def main(words: Sequence[str] | None = None) -> int:
    """Measures and prints."""
    parser = argparse.ArgumentParser(
        prog="bench.hand_over", description=(__doc__ or "").splitlines()[0]
    )
    parser.add_argument("--tries", type=int, default=20, help="for each way")
    parser.add_argument("--busy", action="store_true", help="with other pods that come and go")
    chosen = parser.parse_args(words)
    with ControlPlane(built()) as plane, plane.api() as api:
        prepare(api)
        with others_come_and_go(plane) if chosen.busy else nullcontext():
            print(
                "| way | place kept | tries | ms to a node, median | max |\n|---|---|---|---|---|"
            )
            for way, steps in WAYS.items():
                print(row(way, [attempt(api, steps) for _ in range(chosen.tries)]))
    return 0


def row(way: str, took: Sequence[float | None]) -> str:
    """A row of the table; None is a place that was lost."""
    kept = [it for it in took if it is not None]
    times = f"{median(kept):.0f} | {max(kept):.0f}" if kept else " | "
    return f"| {way} | {len(kept)} | {len(took)} | {times} |"


def prepare(api: Api) -> None:
    """Two nodes, a third for pods that come and go, the classes, and a Deployment for each gate."""
    api.post(NAMESPACES, {"metadata": {"name": "others"}}).granted()
    for name in (SOURCE, TARGET, "elsewhere"):
        made = node(name, cpu="4", labels={"for": "others" if name == "elsewhere" else "us"}).node
        made["metadata"]["annotations"] = MANAGED
        api.post("/api/v1/nodes", made).granted()
    for name, policy in CLASSES.items():
        body = {"metadata": {"name": name}, "value": 100, "preemptionPolicy": policy}
        api.post("/apis/scheduling.k8s.io/v1/priorityclasses", body).granted()
    for name in ("plain", "gated"):
        labels = {"app": name}
        gates = {"schedulingGates": [{"name": GATE}]} if name == "gated" else {}
        template = {"metadata": {"labels": labels}, "spec": {**pod_spec("team"), **gates}}
        spec = {"replicas": 0, "selector": {"matchLabels": labels}, "template": template}
        api.post(APPS, {"metadata": {"name": name}, "spec": spec}).granted()
    paths = [f"{NAMESPACES}/{it}/serviceaccounts/default" for it in ("default", "others")]
    until("the default accounts", lambda: all(api.get(path).fine for path in paths))


def pod_spec(priority: str, **more: object) -> Object:
    """A pod that takes most of a node."""
    wanted = {"requests": {"cpu": "3", "memory": "16Mi"}}
    container = {"name": "main", "image": "registry.example/app:1", "resources": wanted}
    where = {"nodeSelector": {"for": "us"}}
    return {"containers": [container], "priorityClassName": priority, **where, **more}


def attempt(api: Api, steps: Sequence[str]) -> float | None:
    """Milliseconds from the first step until the replacement has the place; None if it has not."""
    app = "gated" if "release" in steps else "plain"
    victim = started(api, app)
    api.patch(
        f"/api/v1/nodes/{SOURCE}", taints({"key": "moving", "effect": "NoSchedule"})
    ).granted()
    create(api, "third", pod_spec("team"))
    until("the third pod waits", lambda: refused(pod(api, "third")))
    name = victim["metadata"]["name"]
    eviction = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": name}}
    api.post(f"{PODS}/{name}/eviction", eviction).granted()
    new = until(
        "a replacement", lambda: next((it for it in pods(api, app) if named(it) != name), None)
    )
    until("the pod has gone", lambda: not api.get(f"{PODS}/{name}").fine)
    began = time.monotonic()
    for step in steps:
        take(api, step, named(new))
    until("somebody has the place", lambda: bound(pod(api, named(new))) or bound(pod(api, "third")))
    kept = bound(pod(api, named(new)))
    took = (time.monotonic() - began) * 1000
    clean(api, app)
    return took if kept else None


def started(api: Api, app: str) -> Object:
    """A pod of the app on the source, while a placeholder is on the target."""
    create(api, "place", pod_spec("hold", nodeName=TARGET))
    api.patch(f"{APPS}/{app}", {"spec": {"replicas": 1}}).granted()
    made = until("a pod", lambda: next(iter(pods(api, app)), None))
    if app == "gated":
        take(api, "release", named(made))
    until("it runs", lambda: pod(api, named(made))["status"].get("phase") == "Running")
    return pod(api, named(made))


def take(api: Api, step: str, name: str) -> None:
    """One step of a hand-over to the pod of that name."""
    match step:
        case "refused":
            until("the scheduler refused it", lambda: refused(pod(api, name)))
        case "pin":
            field = {"key": "metadata.name", "operator": "In", "values": [TARGET]}
            terms = {"nodeSelectorTerms": [{"matchFields": [field]}]}
            affinity = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}}
            api.patch(f"{PODS}/{name}", {"spec": {"affinity": affinity}}).granted()
        case "nominate":
            status = {"status": {"nominatedNodeName": TARGET}}
            api.patch(f"{PODS}/{name}/status", status).granted()
        case "delete":
            api.delete(f"{PODS}/place", grace_seconds=0).granted()
        case "release":
            api.patch(f"{PODS}/{name}", {"spec": {"schedulingGates": None}}).granted()


def clean(api: Api, app: str) -> None:
    """Removes all pods and the taint."""
    api.patch(f"{APPS}/{app}", {"spec": {"replicas": 0}}).granted()
    for name in ("place", "third"):
        api.delete(f"{PODS}/{name}", grace_seconds=0)
    api.patch(f"/api/v1/nodes/{SOURCE}", taints()).granted()
    until("no pods", lambda: not api.items(PODS))


@contextmanager
def others_come_and_go(plane: Access) -> Iterator[None]:
    """Some twenty pods a second that end on a third node, while the block runs."""
    enough = Event()

    def run() -> None:
        with plane.api() as api:
            while not enough.wait(0.03):
                spec = pod_spec("team", nodeName="elsewhere", nodeSelector={"for": "others"})
                api.post(OTHERS, {"metadata": {"name": "other"}, "spec": spec})
                api.delete(f"{OTHERS}/other", grace_seconds=0)

    worker = Thread(target=run)
    worker.start()
    try:
        yield
    finally:
        enough.set()
        worker.join()


def create(api: Api, name: str, spec: Object) -> None:
    """A pod of its own."""
    api.post(PODS, {"metadata": {"name": name}, "spec": spec}).granted()


def pod(api: Api, name: str) -> Object:
    """The pod as it is now."""
    return api.get(f"{PODS}/{name}").granted()


def pods(api: Api, app: str) -> list[Object]:
    """The pods of the app."""
    return api.items(f"{PODS}?labelSelector=app%3D{app}")


def named(pod: Object) -> str:
    """Its name."""
    return str(pod["metadata"]["name"])


def bound(pod: Object) -> bool:
    """Whether it has a node."""
    return "nodeName" in pod["spec"]


def refused(pod: Object) -> bool:
    """Whether the scheduler has tried it in vain."""
    conditions = pod["status"].get("conditions") or ()
    return any(it.get("reason") == "Unschedulable" for it in conditions)


def taints(*wanted: Object) -> Object:
    """A patch after which a node has these."""
    return {"spec": {"taints": list(wanted) or None}}


def until(what: str, seen: Callable[[], Found | None]) -> Found:
    """The first answer that is something."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while time.monotonic() < deadline:
        if found := seen():
            return found
        time.sleep(0.005)
    raise TimeoutError(f"{what}: not seen within {PATIENCE_SECONDS:.0f} s")


if __name__ == "__main__":
    sys.exit(main())
