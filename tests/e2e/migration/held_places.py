"""Who gets the places that jobs hold, over many moves by the real controller.

    python -m tests.e2e.migration.held_places [--moves 50] [--cells 16]

Each cell is three nodes that take one pod each: one has the pod to move, one is free, one is full.
Two scenarios, as tables:

- *no rival*: nothing is cordoned, so that the replacement may return to its node.
- *rival*: the source is cordoned, and once the place is held another pod of the same size and
  priority waits for any place.

In half of the cells a deleted pod is gone at once (*quick*), in the others it takes 300 ms
(*slow*), as real pods take their time. Starts its own control plane.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import product
from pathlib import Path
from queue import Empty, SimpleQueue
from statistics import median
from typing import Any, NamedTuple

from resettle.testing import node
from tests.e2e.cluster.workspace import eventually
from tests.e2e.migration.account import ControllerAccount
from tests.e2e.migration.harness import (
    TERMINAL,
    create_job,
    job_policy,
    job_status,
    start_controller,
    wait_until_clean,
)
from tools.control_plane.api import Api, Object
from tools.control_plane.build import built
from tools.control_plane.plane import MANAGED, ControlPlane

HELD = "example.com/evictions"
"""The label of namespaces in which no pod is evicted for now."""
ADMISSION = "/apis/admissionregistration.k8s.io/v1"
NAMESPACES = "/api/v1/namespaces"
ENDS = ("slow", "quick")
SCENARIOS = ("no rival", "rival")
PRIORITIES = ("Hold", "Yield")
STEERINGS = ("None", "Soft", "Hard", "Gate")


class Case(NamedTuple):
    """What is counted in one row of a table."""

    scenario: str
    end: str
    priority: str
    steering: str


class Outcome(NamedTuple):
    """How one move ended."""

    landed: str
    """`reserved`, `source`, `elsewhere`, `lost` to the rival, or `untouched`: not evicted."""
    seconds: float


def main(words: Sequence[str] | None = None) -> int:
    """Measures and prints."""
    parser = argparse.ArgumentParser(prog="held_places", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--moves", type=int, default=50, help="for each row")
    parser.add_argument("--cells", type=int, default=16, help="moves at the same time")
    chosen = parser.parse_args(words)
    with (
        tempfile.TemporaryDirectory() as folder,
        ControlPlane(built()) as plane,
        plane.api() as api,
        ControllerAccount(plane, api, Path(folder)) as account,
    ):
        hold_evictions_by_label(api)
        policy = job_policy(
            account,
            evictor={"nodeFit": False},
            steering="Gate",
            defaultJobTTL="60s",
            evictQPS=100.0,
            evictBurst=20,
            maxConcurrentReconciles=chosen.cells,
            jobHistoryTTL="30s",
        )
        with start_controller(account, Path(folder), policy):
            outcomes = measure(api, chosen.moves, chosen.cells)
            wait_until_clean(api, account)
    for scenario, end in product(SCENARIOS, ENDS):
        print("\n".join(table(outcomes, scenario, end)), end="\n\n")
    return 0


def measure(api: Api, moves: int, cells: int) -> dict[Case, list[Outcome]]:
    """The outcomes of so many moves of each case, by cells that work side by side."""
    waiting: dict[str, SimpleQueue[Case]] = {end: SimpleQueue() for end in ENDS}
    for _, scenario, end, priority, steering in product(
        range(moves), SCENARIOS, ENDS, PRIORITIES, STEERINGS
    ):
        waiting[end].put(Case(scenario, end, priority, steering))
    outcomes: dict[Case, list[Outcome]] = defaultdict(list)

    def work(number: int) -> None:
        end = ENDS[number % len(ENDS)]
        cell = Cell(api, f"cell-{number}", lingers=end == "slow")
        cell.create()
        while True:
            try:
                case = waiting[end].get_nowait()
            except Empty:
                return
            outcomes[case].append(cell.move(case))

    with ThreadPoolExecutor(cells) as pool:
        for done in [pool.submit(work, number) for number in range(cells)]:
            done.result()
    return outcomes


def table(outcomes: dict[Case, list[Outcome]], scenario: str, end: str) -> Iterator[str]:
    """The rows of one table."""
    columns = ("reserved", "source", "elsewhere", "lost", "untouched")
    yield f"{scenario}, {end} end:"
    yield ""
    yield f"| placeholder | steering | moves | {' | '.join(columns)} | median s |"
    yield "|---|---|" + "---|" * (len(columns) + 2)
    for priority, steering in product(PRIORITIES, STEERINGS):
        found = outcomes.get(Case(scenario, end, priority, steering), [])
        count = Counter(outcome.landed for outcome in found)
        shares = " | ".join(
            f"{100 * count[column] / len(found):.0f} %" if found else "" for column in columns
        )
        seconds = f"{median(outcome.seconds for outcome in found):.1f}" if found else ""
        yield f"| {priority} | {steering} | {len(found)} | {shares} | {seconds} |"


def hold_evictions_by_label(api: Api) -> None:
    """Has the API server refuse evictions in namespaces that are labelled so."""
    name = "held-evictions"
    rule = {
        "apiGroups": [""],
        "apiVersions": ["v1"],
        "operations": ["CREATE"],
        "resources": ["pods/eviction"],
    }
    selector = {"namespaceSelector": {"matchLabels": {HELD: "held"}}}
    spec = {
        "failurePolicy": "Fail",
        "matchConstraints": {"resourceRules": [rule], **selector},
        "validations": [{"expression": "false", "message": "evictions are held"}],
    }
    policies = f"{ADMISSION}/validatingadmissionpolicies"
    api.post(policies, {"metadata": {"name": name}, "spec": spec}).granted()
    binding = {"policyName": name, "validationActions": ["Deny"]}
    bindings = f"{ADMISSION}/validatingadmissionpolicybindings"
    api.post(bindings, {"metadata": {"name": name}, "spec": binding}).granted()


class Cell:
    """Three nodes and a Deployment of one pod, which moves to and fro between two of them."""

    def __init__(self, api: Api, name: str, *, lingers: bool) -> None:
        self._api, self._name = api, name
        self._labels = {"app": "web"} | ({"example.com/lingers": "yes"} if lingers else {})
        self._nodes = [f"{name}-{letter}" for letter in "ab"]
        self._pods = f"{NAMESPACES}/{name}/pods"

    def create(self) -> None:
        """Creates all of it; returns once the pod runs."""
        api, name = self._api, self._name
        api.post(NAMESPACES, {"metadata": {"name": name}}).granted()
        for title in (*self._nodes, f"{name}-full"):
            created = node(title, cpu="4", labels={"cell": name}).node
            created["metadata"]["annotations"] = MANAGED
            api.post("/api/v1/nodes", created).granted()
        account = f"{NAMESPACES}/{name}/serviceaccounts/default"
        eventually("the default account", lambda: api.get(account).fine)
        filler = {
            "metadata": {"name": "filler"},
            "spec": {**self._spec(), "nodeName": f"{name}-full"},
        }
        api.post(self._pods, filler).granted()
        template = {"metadata": {"labels": self._labels}, "spec": self._spec()}
        selector = {"matchLabels": {"app": "web"}}
        spec = {"replicas": 1, "selector": selector, "template": template}
        body = {"metadata": {"name": "web"}, "spec": spec}
        api.post(f"/apis/apps/v1/namespaces/{name}/deployments", body).granted()

    def _spec(self) -> Object:
        wanted = {"requests": {"cpu": "3", "memory": "16Mi"}}
        container = {"name": "main", "image": "registry.example/app:1", "resources": wanted}
        return {"containers": [container], "nodeSelector": {"cell": self._name}}

    def move(self, case: Case) -> Outcome:
        """Moves the pod once, and returns where the replacement went."""
        victim = self._wait("a pod that runs", self._settled_pod)
        source = victim["spec"]["nodeName"]
        options = {"placeholderPriority": case.priority, "steering": case.steering}
        rival = case.scenario == "rival"
        if rival:
            self._cordon(source, True)
            self._hold_evictions(victim)
        begun = time.monotonic()
        name = create_job(self._api, victim, reservationOptions=options, mode="ReservationFirst")
        is_lost = False
        if rival:
            begun = self._add_rival(name)
            is_lost = self._wait_for_winner(name)
            self._api.delete(f"{self._pods}/rival", grace_seconds=0)
        status = self._wait("the end of the job", lambda: self._ended(name))
        seconds = time.monotonic() - begun
        self._cordon(source, False)
        return Outcome(self._landed(victim, status, is_lost), seconds)

    def _landed(self, victim: Object, status: Object, is_lost: bool) -> str:
        if not status.get("evictionRequestedAt"):
            return "untouched"
        if is_lost or status["phase"] != "Succeeded":
            return "lost"
        pod = self._api.get(f"{self._pods}/{status['podRef']['name']}").granted()
        places = {status["nodeName"]: "reserved", victim["spec"]["nodeName"]: "source"}
        return places.get(pod["spec"]["nodeName"], "elsewhere")

    def _add_rival(self, job: str) -> float:
        """Adds the rival once the place is held, and then lets the pod be evicted."""
        self._wait(
            "a held place", lambda: self._ended(job) or job_status(self._api, job).get("nodeName")
        )
        self._api.post(self._pods, {"metadata": {"name": "rival"}, "spec": self._spec()}).granted()
        self._wait("a rival that was tried", lambda: self._rival_node() or self._is_rival_refused())
        self._label(None)
        return time.monotonic()

    def _wait_for_winner(self, job: str) -> bool:
        """Waits until the job has ended or the rival has the place; returns whether it has."""
        self._wait("a winner", lambda: self._ended(job) or self._rival_node())
        return bool(self._rival_node())

    # -- what can be seen and done ---------------------------------------------------------------

    def _settled_pod(self) -> Object | None:
        pods = [
            pod
            for pod in self._api.items(self._pods)
            if "app" in (pod["metadata"].get("labels") or {})
        ]
        running = len(pods) == 1 and pods[0]["status"]["phase"] == "Running"
        return pods[0] if running and "deletionTimestamp" not in pods[0]["metadata"] else None

    def _ended(self, job: str) -> Object | None:
        status = job_status(self._api, job)
        return status if status.get("phase") in TERMINAL else None

    def _rival(self) -> Object:
        answer = self._api.get(f"{self._pods}/rival")
        return answer.body if answer.fine else {"spec": {}, "status": {}}

    def _rival_node(self) -> str:
        return str(self._rival()["spec"].get("nodeName") or "")

    def _is_rival_refused(self) -> bool:
        conditions = self._rival()["status"].get("conditions") or ()
        return any(condition.get("reason") == "Unschedulable" for condition in conditions)

    def _cordon(self, name: str, closed: bool) -> None:
        self._api.patch(f"/api/v1/nodes/{name}", {"spec": {"unschedulable": closed}}).granted()

    def _hold_evictions(self, victim: Object) -> None:
        self._label("held")
        meta = {"name": victim["metadata"]["name"], "namespace": self._name}
        path = f"{self._pods}/{meta['name']}/eviction?dryRun=All"
        body = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": meta}
        self._wait("evictions that are held", lambda: not self._api.post(path, body).fine)

    def _label(self, value: str | None) -> None:
        change = {"metadata": {"labels": {HELD: value}}}
        self._api.patch(f"{NAMESPACES}/{self._name}", change).granted()

    def _wait(self, what: str, check: Callable[[], Any]) -> Any:
        return eventually(f"{self._name}: {what}", check)


if __name__ == "__main__":
    sys.exit(main())
