"""A tiny cluster of dictionaries, and a controller that can be killed at every request.

Each node has a number of slots, and each pod takes one. The workloads create pods, the scheduler
binds them, the kubelets make them ready and remove them; the controller below carries out the steps
of `next_step` and keeps nothing between passes.
"""

from __future__ import annotations

import copy
import random
from collections.abc import Callable, Iterable
from datetime import datetime, timedelta
from typing import Any, TypeVar

from resettle.controllers.migration.arbitration import WaitingJob, arbitrate
from resettle.controllers.migration.desired import (
    desired_taints,
    unneeded_placeholders,
    unneeded_priority_classes,
)
from resettle.controllers.migration.next_step import next_step
from resettle.controllers.migration.replacement import (
    find_replacements,
    gates_to_release,
    young_siblings,
)
from resettle.controllers.migration.reservations import (
    build_placeholder,
    pin_patch,
    placeholder_name,
    ungate_patch,
)
from resettle.controllers.migration.status import StatusChange, note_victim_replaced
from resettle.controllers.migration.types import (
    CreatePlaceholder,
    DeletePlaceholder,
    Evict,
    HandOver,
    LivePod,
    Observed,
    ReleaseGates,
    Steer,
    Step,
    StopGating,
    read_live_pod,
)
from resettle.model.migration_job import (
    GATE,
    GATE_LABEL,
    JobOptions,
    MigrationJob,
    PodReference,
    Steering,
    build_job,
    job_of_json,
)
from resettle.model.pod import Pod
from resettle.testing import cluster as world_of
from resettle.testing import node as node_object
from resettle.testing.builders import NOW
from resettle.testing.builders import pod as pod_object
from resettle.times import format_time
from tests.controllers.migration.builders import merge_patch

Object = dict[str, Any]
T = TypeVar("T")
OWN = "resettle"
_WORLD = world_of(node_object("n1").holding(pod_object("any", namespace="shop")))
(ANY_POD,) = _WORLD.snapshot().pods
"""What filters look at; none of them is asked here."""


class Crash(Exception):
    """The controller was killed."""


class Conflict(Exception):
    """The object has changed since it was read."""


class FakeCluster:
    """The API server, the workload controllers, the scheduler and the kubelets."""

    def __init__(self, seed: int, nodes: int = 4, slots: int = 4) -> None:
        self.chance = random.Random(seed)
        self.now: datetime = NOW
        self.slots = {f"n{i}": slots for i in range(1, nodes + 1)}
        self.taints: dict[str, str] = {}
        self.classes: set[str] = set()
        self.jobs: dict[str, Object] = {}
        self.pods: dict[tuple[str, str], Object] = {}
        self.replicas = {"web": 4, "db": 2}
        self.evicted: list[str] = []
        self.budget_is_spent = False
        self._count = 0

    def next_number(self) -> int:
        self._count += 1
        return self._count

    # -- objects -----------------------------------------------------------------------------------

    def create_job(self, pod: str, options: JobOptions) -> None:
        number = self.next_number()
        document = build_job(PodReference("shop", pod), options, name=f"job-{number}")
        document["metadata"] |= {
            "uid": f"uid-{number}",
            "resourceVersion": str(self.next_number()),
            "generation": 1,
            "creationTimestamp": format_time(self.now),
        }
        self.jobs[f"job-{number}"] = document

    def patch_job(self, name: str, patch: Object) -> str:
        document = self.jobs.get(name)
        if document is None:
            raise Conflict
        version = patch.get("metadata", {}).get("resourceVersion")
        if version and version != document["metadata"]["resourceVersion"]:
            raise Conflict
        merged: Object = merge_patch(document, patch)
        merged["metadata"]["resourceVersion"] = new = str(self.next_number())
        self.jobs[name] = merged
        return new

    def read_jobs(self) -> list[MigrationJob]:
        return [job_of_json(copy.deepcopy(document)) for _, document in sorted(self.jobs.items())]

    def read_pods(self, namespace: str) -> list[LivePod]:
        return [
            read_live_pod(document)
            for (there, _), document in sorted(self.pods.items())
            if there == namespace
        ]

    def add_pod(self, document: Object) -> None:
        meta = document["metadata"]
        key = (meta["namespace"], meta["name"])
        if key in self.pods:
            raise Conflict
        meta["uid"] = f"pod-{self.next_number()}"
        meta["creationTimestamp"] = format_time(self.now)
        document["status"] = {"phase": "Pending"}
        self.pods[key] = document

    def evict(self, pod: PodReference) -> bool:
        """Whether it is granted; raises `Conflict` if no pod has that uid."""
        document = self.pods.get((pod.namespace, pod.name))
        if document is None or document["metadata"]["uid"] != pod.uid:
            raise Conflict
        if self.budget_is_spent:
            return False
        self.evicted.append(pod.uid)
        document["metadata"]["deletionTimestamp"] = format_time(self.now)
        return True

    # -- what others do ----------------------------------------------------------------------------

    def tick(self, seconds: int = 1) -> None:
        """Let time pass, and let everyone else act."""
        self.now += timedelta(seconds=seconds)
        self._run_kubelets()
        self._run_workloads()
        self._schedule()

    def _run_kubelets(self) -> None:
        for key, document in list(self.pods.items()):
            if document["metadata"].get("deletionTimestamp"):
                if self.chance.random() < 0.4:
                    del self.pods[key]
            elif document["spec"].get("nodeName") and self.chance.random() < 0.5:
                ready = {"type": "Ready", "status": "True"}
                document["status"] = {"phase": "Running", "conditions": [ready]}
        owners = {document["metadata"]["uid"] for document in self.jobs.values()}
        for key, document in list(self.pods.items()):
            if key[0] == OWN and document["metadata"]["ownerReferences"][0]["uid"] not in owners:
                del self.pods[key]

    def _run_workloads(self) -> None:
        for name, replicas in self.replicas.items():
            if name == "db":
                for ordinal in range(replicas):
                    if ("shop", f"db-{ordinal}") not in self.pods:
                        self._create_replica("StatefulSet", name, f"db-{ordinal}")
                continue
            own = [
                document
                for (namespace, pod), document in self.pods.items()
                if namespace == "shop" and pod.startswith(f"{name}-")
            ]
            living = [d for d in own if not d["metadata"].get("deletionTimestamp")]
            for _ in range(replicas - len(living)):
                self._create_replica("ReplicaSet", name, f"{name}-{self.next_number()}")

    def _create_replica(self, kind: str, workload: str, name: str) -> None:
        document = pod_object(name, namespace="shop", owner=f"{kind}/{workload}")
        gating = any(
            job["metadata"].get("labels", {}).get(GATE_LABEL) == "true"
            and job["status"]["source"]["workload"] == f"uid-shop-{kind}-{workload}"
            for job in self.jobs.values()
        )
        if gating:
            document["spec"]["schedulingGates"] = [{"name": GATE}]
        self.add_pod(document)

    def _schedule(self) -> None:
        for document in list(self.pods.values()):
            spec = document["spec"]
            if spec.get("nodeName") or spec.get("schedulingGates"):
                continue
            nodes = [node for node in self.slots if self._fits(document, node)]
            if not nodes:
                self._preempt(document)
            elif self.chance.random() < 0.8:
                spec["nodeName"] = self.chance.choice(nodes)

    def _fits(self, document: Object, node: str) -> bool:
        taken = sum(d["spec"].get("nodeName") == node for d in self.pods.values())
        hard = self.taints.get(node) == "NoSchedule"
        return taken < self.slots[node] and not hard and _may_run(document, node)

    def _preempt(self, document: Object) -> None:
        """A pod of a workload takes the place of a placeholder that yields."""
        if document["metadata"]["namespace"] == OWN:
            return
        for key, other in list(self.pods.items()):
            node = other["spec"].get("nodeName")
            yields = other["spec"].get("priorityClassName") == "resettle-yield"
            if node and yields and _may_run(document, node):
                del self.pods[key]
                return

    def remove_node(self, node: str) -> None:
        del self.slots[node]
        self.taints.pop(node, None)
        for key, document in list(self.pods.items()):
            if document["spec"].get("nodeName") == node:
                del self.pods[key]


def _may_run(document: Object, node: str) -> bool:
    affinity = document["spec"].get("affinity", {}).get("nodeAffinity", {})
    required = affinity.get("requiredDuringSchedulingIgnoredDuringExecution", {})
    terms = required.get("nodeSelectorTerms", [])
    return not terms or any(
        all(
            (node in field["values"]) == (field["operator"] == "In")
            for field in term.get("matchFields", [])
        )
        for term in terms
    )


class FakeController:
    """Carries out steps; `crashes` has the numbers of the moments at which it is killed.

    Every request has two moments: before it is made, and after it was answered.
    """

    def __init__(self, cluster: FakeCluster, crashes: Iterable[int] = (), limit: int = 2) -> None:
        self.cluster = cluster
        self.crashes = frozenset(crashes)
        self.limit = limit
        self.moment = 0

    def run_pass(self) -> None:
        """One pass over all jobs; a kill ends it early, and the next one starts from nothing."""
        try:
            self._sweep()
            self._arbitrate()
            for job in self.cluster.read_jobs():
                self._advance(job.name)
        except Crash:
            return

    def _request(self, action: Callable[[], T]) -> T:
        self._pass_moment()
        try:
            return action()
        finally:
            self._pass_moment()

    def _pass_moment(self) -> None:
        self.moment += 1
        if self.moment in self.crashes:
            raise Crash

    def _write(self, job: MigrationJob, change: StatusChange, version: str) -> str:
        return self._request(lambda: self.cluster.patch_job(job.name, change.patch(version)))

    def _workload_of(self, pod: LivePod) -> str:
        return pod.owner.uid if pod.owner else ""

    # -- arbitration -------------------------------------------------------------------------------

    def _arbitrate(self) -> None:
        cluster = self.cluster
        jobs = cluster.read_jobs()
        pods = {pod.name: pod for pod in cluster.read_pods("shop")}
        running = {
            job.source.uid: job.source.workload
            for job in jobs
            if job.is_accepted and not job.is_terminal and job.source
        }
        waiting = []
        for job in jobs:
            if not job.is_accepted and not job.is_terminal:
                live = pods.get(job.pod.name)
                pod = ANY_POD if live else None
                workload = self._workload_of(live) if live else ""
                waiting.append(WaitingJob(job=job, live=live, pod=pod, workload=workload))

        def refuse(pod: Pod, accepted: frozenset[str]) -> Any:
            full = len(running.keys() | accepted) >= self.limit
            return _Busy() if full else None

        for result in arbitrate(waiting, refuse, cluster.now, running):
            if result.change is not None:
                version = result.job.object.metadata.resource_version
                self._write(result.job, result.change, version)

    # -- one job -----------------------------------------------------------------------------------

    def _advance(self, name: str) -> None:
        for _ in range(20):
            if name not in self.cluster.jobs:
                return
            job = job_of_json(copy.deepcopy(self.cluster.jobs[name]))
            step = next_step(job, self._observe(job), self.cluster.now)
            try:
                self._carry_out(job, step)
            except Conflict:
                return
            if step.before is None and step.after is None and not isinstance(step, Steer):
                return

    def _observe(self, job: MigrationJob) -> Observed:
        cluster = self.cluster
        jobs, pods = cluster.read_jobs(), cluster.read_pods("shop")
        own = {pod.name: pod for pod in cluster.read_pods(OWN)}
        placeholder = own.get(placeholder_name(job.uid))
        place = job.node_name or (placeholder.node if placeholder else "")
        gated = [pod for pod in pods if pod.gated]
        replacements = find_replacements(jobs, pods, self._workload_of)
        # Pods of other workloads are released by their own jobs and by the sweep.
        mine = {
            pod.uid for pod in gated if job.source and self._workload_of(pod) == job.source.workload
        }
        released = gates_to_release(jobs, gated, self._workload_of, cluster.now)
        return Observed(
            victim=next((pod for pod in pods if pod.name == job.pod.name), None),
            placeholder=placeholder,
            place_exists=not place or place in cluster.slots,
            steered=self._is_steered(job),
            replacement=replacements.get(job.uid),
            siblings=young_siblings(job, pods, self._workload_of, cluster.now),
            other_gated=tuple(pod for pod in released if pod.uid in mine),
        )

    def _is_steered(self, job: MigrationJob) -> bool:
        node = job.source.node_name if job.source else ""
        match job.settings.steering:
            case Steering.GATE:
                return job.is_gating
            case Steering.SOFT | Steering.HARD:
                return node not in self.cluster.slots or node in self.cluster.taints
        return True

    def _carry_out(self, job: MigrationJob, step: Step) -> None:
        version = job.object.metadata.resource_version
        if step.before is not None:
            version = self._write(job, step.before, version)
        done = self._act(job, step, version)
        if done and step.after is not None:
            self._write(job, step.after, version)

    def _act(self, job: MigrationJob, step: Step, version: str) -> bool:
        cluster = self.cluster
        match step:
            case CreatePlaceholder():
                self._create_placeholder(job)
            case Steer(steering=Steering.GATE):
                self._label(job, "true")
                return False
            case Steer(steering=steering, node=node):
                effect = "NoSchedule" if steering is Steering.HARD else "PreferNoSchedule"
                self._request(lambda: cluster.taints.__setitem__(node, effect))
            case Evict(pod=pod):
                return self._evict(job, pod, version)
            case HandOver(pod=pod, pin=pin, ungate=ungate):
                if pin:
                    self._patch_pod(pod, lambda document: pin_patch(document, pin))
                self._delete_placeholder(job)
                if ungate:
                    self._patch_pod(pod, ungate_patch)
            case DeletePlaceholder():
                self._delete_placeholder(job)
            case ReleaseGates(pods=pods):
                for pod in pods:
                    self._patch_pod(pod, ungate_patch)
            case StopGating():
                self._label(job, None)
                return False
        return True

    def _create_placeholder(self, job: MigrationJob) -> None:
        victim = self.cluster.pods[job.pod.namespace, job.pod.name]
        plan = build_placeholder(job, victim, namespace=OWN, now=self.cluster.now)
        name = plan.priority_class["metadata"]["name"]
        self._request(lambda: self.cluster.classes.add(name))
        self._request(lambda: self.cluster.add_pod(plan.pod))

    def _delete_placeholder(self, job: MigrationJob) -> None:
        key = (OWN, placeholder_name(job.uid))
        self._request(lambda: self.cluster.pods.pop(key, None))

    def _evict(self, job: MigrationJob, pod: PodReference, version: str) -> bool:
        try:
            return self._request(lambda: self.cluster.evict(pod))
        except Conflict:
            change = note_victim_replaced(job, self.cluster.now, "no such uid")
            assert change is not None
            self._write(job, change, version)
            return False

    def _label(self, job: MigrationJob, value: str | None) -> None:
        patch = {"metadata": {"labels": {GATE_LABEL: value}}}
        self._request(lambda: self.cluster.patch_job(job.name, patch))

    def _patch_pod(self, pod: PodReference, patch_of: Callable[[Object], Object | None]) -> None:
        document = self.cluster.pods.get((pod.namespace, pod.name))
        if document is None or document["metadata"]["uid"] != pod.uid:
            return
        patch = patch_of(document)
        if patch is not None:
            merged = merge_patch(document, {"spec": patch["spec"]})
            key = (pod.namespace, pod.name)
            self._request(lambda: self.cluster.pods.__setitem__(key, merged))

    # -- what is left over -------------------------------------------------------------------------

    def _sweep(self) -> None:
        cluster = self.cluster
        jobs, placeholders = cluster.read_jobs(), cluster.read_pods(OWN)
        for pod in unneeded_placeholders(jobs, placeholders):
            key = (pod.namespace, pod.name)
            self._request(lambda key=key: cluster.pods.pop(key, None))  # type: ignore[misc]
        wanted = desired_taints(jobs)
        for node in sorted(set(cluster.taints) - set(wanted)):
            self._request(lambda node=node: cluster.taints.pop(node, None))  # type: ignore[misc]
        for name in unneeded_priority_classes(jobs, cluster.classes):
            self._request(lambda name=name: cluster.classes.discard(name))  # type: ignore[misc]
        gated = [pod for pod in cluster.read_pods("shop") if pod.gated]
        for reference in gates_to_release(jobs, gated, self._workload_of, cluster.now):
            self._patch_pod(reference, ungate_patch)


class _Busy:
    by = ""
    sentence = clause = "waits for other moves"
    temporary = True
