"""Who gets the places that jobs hold, over many moves by the real controller.

    python -m tests.e2e.migration.held_places [--moves 50] [--cells 8] [--steering Hard Gate]

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
import os
import sys
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from itertools import product
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import Any, NamedTuple

from resettle.model.migration_job import JOBS_PATH
from resettle.testing import node
from tests.e2e.cluster.workspace import TIMEOUT_SECONDS, eventually
from tests.e2e.migration.account import ControllerAccount
from tests.e2e.migration.harness import (
    TERMINAL,
    create_job,
    job_policy,
    start_controller,
    wait_until_clean,
)
from tests.e2e.migration.watching import JobStatuses
from tools.control_plane.api import Api, Object
from tools.control_plane.build import built
from tools.control_plane.plane import MANAGED, ControlPlane

HELD = "example.com/evictions"
"""The label of namespaces in which no pod is evicted for now."""
ADMISSION = "/apis/admissionregistration.k8s.io/v1"
NAMESPACES = "/api/v1/namespaces"
ENDS = ("quick", "slow")
SCENARIOS = ("no rival", "rival")
PRIORITIES = ("Hold", "Yield")
RATE = ("--client-connection-qps", "-1")
"""The controller sends as many requests as it likes, so that many moves do not wait."""
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
    ending: str
    """Phase and reason of the job."""


def main(words: Sequence[str] | None = None) -> int:
    """Measures and prints."""
    parser = argparse.ArgumentParser(prog="held_places", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--moves", type=int, default=50, help="for each share in a table")
    parser.add_argument("--cells", type=int, default=8, help="moves at the same time")
    parser.add_argument("--steering", nargs="+", choices=STEERINGS, default=STEERINGS)
    chosen = parser.parse_args(words)
    begun = time.monotonic()
    with (
        tempfile.TemporaryDirectory() as folder,
        ControlPlane(built()) as plane,
        plane.api() as api,
        ControllerAccount(plane, api, Path(folder)) as account,
    ):
        outcomes = measure(api, account, Path(folder), chosen.moves, chosen.cells, chosen.steering)
    for scenario in SCENARIOS:
        print("\n".join(table(outcomes, scenario, chosen.steering)), end="\n\n")
    for case, endings in sorted(unusual_endings(outcomes).items()):
        for ending, many in endings.items():
            print(f"{' '.join(case)}: {many} x {ending}", file=sys.stderr)
    print(f"took {time.monotonic() - begun:.0f} s", file=sys.stderr)
    return 0


def measure(
    api: Api,
    account: ControllerAccount,
    folder: Path,
    moves: int,
    cells: int,
    steerings: Sequence[str] = STEERINGS,
) -> dict[Case, list[Outcome]]:
    """The outcomes of so many moves of each case, with a controller of its own.

    Nothing of any job is left afterwards: that is checked.
    """
    policy = job_policy(
        account,
        evictor={"nodeFit": False},
        steering="Gate",
        defaultJobTTL="40s",
        evictQPS=100.0,
        evictBurst=20,
        maxConcurrentReconciles=cells,
        jobHistoryTTL="30s",
    )
    with (
        held_evictions(api),
        start_controller(account, folder, policy, *RATE) as controller,
        JobStatuses(api, JOBS_PATH) as jobs,
    ):
        try:
            outcomes = move_in_cells(api, jobs, moves, cells, steerings)
            wait_until_clean(api, account)
        except AssertionError as error:
            raise AssertionError(f"{error}\n{controller.log_text[-4000:]}") from None
    return outcomes


def move_in_cells(
    api: Api, jobs: JobStatuses, moves: int, cells: int, steerings: Sequence[str]
) -> dict[Case, list[Outcome]]:
    """The outcomes of so many moves of each case, by cells that work side by side."""
    waiting: dict[str, SimpleQueue[Case]] = {end: SimpleQueue() for end in ENDS}
    for _, scenario, end, priority, steering in product(
        range(moves), SCENARIOS, ENDS, PRIORITIES, steerings
    ):
        waiting[end].put(Case(scenario, end, priority, steering))
    outcomes: dict[Case, list[Outcome]] = defaultdict(list)

    def work(number: int) -> None:
        end = ENDS[number % len(ENDS)]
        with Cell(api, jobs, f"cell-{os.getpid()}-{number}", lingers=end == "slow") as cell:
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


def table(
    outcomes: Mapping[Case, Sequence[Outcome]], scenario: str, steerings: Sequence[str] = STEERINGS
) -> Iterator[str]:
    """The rows of one table; a share is that of quick ends and that of slow ones."""
    columns = ("reserved", "source", "elsewhere", "lost", "untouched")
    yield f"{scenario}:"
    yield ""
    yield f"| placeholder | steering | moves | {' | '.join(columns)} |"
    yield "|---|---|---|" + "---|" * len(columns)
    for priority, steering in product(PRIORITIES, steerings):
        found = [outcomes.get(Case(scenario, end, priority, steering), ()) for end in ENDS]
        counts = [Counter(outcome.landed for outcome in part) for part in found]
        shares = " | ".join(
            ", ".join(f"{100 * count[column] / max(count.total(), 1):.0f} %" for count in counts)
            for column in columns
        )
        moves = ", ".join(str(len(part)) for part in found)
        yield f"| {priority} | {steering} | {moves} | {shares} |"


def unusual_endings(outcomes: Mapping[Case, Sequence[Outcome]]) -> dict[Case, Counter[str]]:
    """How jobs ended that did not succeed, for each case."""
    return {
        case: Counter(outcome.ending for outcome in found if "Succeeded" not in outcome.ending)
        for case, found in outcomes.items()
    }


@contextmanager
def held_evictions(api: Api) -> Iterator[None]:
    """Has the API server refuse evictions in namespaces that are labelled so."""
    name = f"held-evictions-{os.getpid()}"
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
    binding = {"policyName": name, "validationActions": ["Deny"]}
    made = {"validatingadmissionpolicies": spec, "validatingadmissionpolicybindings": binding}
    for kind, body in made.items():
        document = {"metadata": {"name": name}, "spec": body}
        api.post(f"{ADMISSION}/{kind}", document).granted()
    try:
        yield
    finally:
        for kind in made:
            api.delete(f"{ADMISSION}/{kind}/{name}")


class Cell:
    """Three nodes and a Deployment of one pod, which moves to and fro between two of them."""

    def __init__(self, api: Api, jobs: JobStatuses, name: str, *, lingers: bool) -> None:
        self._api, self._jobs, self._name = api, jobs, name
        self._labels = {"app": "web"} | ({"example.com/lingers": "yes"} if lingers else {})
        self._nodes = [f"{name}-{letter}" for letter in ("a", "b", "full")]
        self._space = f"{NAMESPACES}/{name}"
        self._pods = f"{self._space}/pods"
        self._deployments = f"/apis/apps/v1/namespaces/{name}/deployments"

    def __enter__(self) -> Cell:
        api, name = self._api, self._name
        api.post(NAMESPACES, {"metadata": {"name": name}}).granted()
        for title in self._nodes:
            created = node(title, cpu="4", labels={"cell": name}).node
            created["metadata"]["annotations"] = MANAGED
            api.post("/api/v1/nodes", created).granted()
        account = f"{self._space}/serviceaccounts/default"
        eventually("the default account", lambda: api.get(account).fine)
        filler = {"metadata": {"name": "filler"}}
        spec = {**self._spec(), "nodeName": self._nodes[-1]}
        api.post(self._pods, {**filler, "spec": spec}).granted()
        template = {"metadata": {"labels": self._labels}, "spec": self._spec()}
        selector = {"matchLabels": {"app": "web"}}
        deployment = {"replicas": 1, "selector": selector, "template": template}
        body = {"metadata": {"name": "web"}, "spec": deployment}
        api.post(self._deployments, body).granted()
        return self

    def __exit__(self, *_: object) -> None:
        self._api.delete(self._deployments)
        self._api.delete(self._space)
        self._api.delete(self._pods, grace_seconds=0)
        for name in self._nodes:
            self._api.delete(f"/api/v1/nodes/{name}")

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
        job = create_job(self._api, victim, reservationOptions=options, mode="ReservationFirst")
        is_lost = False
        if rival:
            self._add_rival(job)
            is_lost = self._wait_for_winner(job)
            self._api.delete(f"{self._pods}/rival", grace_seconds=0)
        status = self._jobs.wait(job, "an end", _has_ended, TIMEOUT_SECONDS)
        self._cordon(source, False)
        ending = f"{status['phase']}/{status.get('reason', '')}"
        return Outcome(self._landed(victim, status, is_lost), ending)

    def _landed(self, victim: Object, status: Object, is_lost: bool) -> str:
        if not status.get("evictionRequestedAt"):
            return "untouched"
        if is_lost or status["phase"] != "Succeeded":
            return "lost"
        pod = self._api.get(f"{self._pods}/{status['podRef']['name']}").granted()
        places = {status["nodeName"]: "reserved", victim["spec"]["nodeName"]: "source"}
        return places.get(pod["spec"]["nodeName"], "elsewhere")

    def _add_rival(self, job: str) -> None:
        """Adds the rival once the place is held, and then lets the pod be evicted."""
        self._jobs.wait(
            job,
            "a held place",
            lambda status: _has_ended(status) or status.get("nodeName"),
            TIMEOUT_SECONDS,
        )
        self._api.post(self._pods, {"metadata": {"name": "rival"}, "spec": self._spec()}).granted()
        self._wait("a rival that was tried", lambda: self._rival_node() or self._is_rival_refused())
        self._label(None)

    def _wait_for_winner(self, job: str) -> bool:
        """Waits until the job has ended or the rival has the place; returns whether it has."""
        self._wait("a winner", lambda: _has_ended(self._jobs.status(job)) or self._rival_node())
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
        self._api.patch(self._space, change).granted()

    def _wait(self, what: str, check: Callable[[], Any]) -> Any:
        return eventually(f"{self._name}: {what}", check)


def _has_ended(status: Object) -> bool:
    return status.get("phase") in TERMINAL


if __name__ == "__main__":
    sys.exit(main())
