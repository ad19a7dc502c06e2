"""Executes a plan: evicts each pod, and finds the node of its replacement."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from datetime import UTC, datetime, timedelta
from typing import NamedTuple

from resettle.dumps.collection import list_cluster
from resettle.framework import Descheduler, build_descheduler, default_registry
from resettle.framework.plan import Move
from resettle.kube.auth.kubeconfig import Access
from resettle.model.pod import Pod
from resettle.model.snapshot import Snapshot
from resettle.policy.load import load_policy
from tests.e2e.cluster.workspace import poll
from tests.e2e.random_clusters.scenario_cluster import ScenarioCluster
from tools.control_plane.api import Answer, Api, Object

TIMEOUT_SECONDS = 30
AN_HOUR = timedelta(hours=1)
REGISTRY = default_registry()


class MovedPod(NamedTuple):
    """A move of the plan, the answer to its eviction, and the node of the replacement."""

    move: Move
    answer: Answer
    node: str
    """Empty if the replacement has no node or was not created."""

    @property
    def came_back(self) -> bool:
        """Whether the replacement is on the same node as the pod was."""
        return self.node == self.move.pod.node

    @property
    def is_as_predicted(self) -> bool:
        """Whether the replacement is on the node that the plan predicted."""
        return self.node == self.move.lands_on

    def __str__(self) -> str:
        """The move in a line."""
        move = self.move
        went = f"{move.pod.key} left {move.pod.node} and is on {self.node or 'no node'}"
        return f"{went}, not on {move.lands_on} ({move.plugin}: {move.reason})"


def planner_of(policy: Object) -> Descheduler:
    """The descheduler that the policy describes."""
    return build_descheduler(
        load_policy(json.dumps(policy), name="policy", plugins=REGISTRY), REGISTRY
    )


def read_snapshot(access: Access, planner: Descheduler) -> Snapshot:
    """Reads the cluster, at a time an hour ahead, when its pods are old enough to move."""
    return list_cluster(access, planner.reads).snapshot(datetime.now(UTC) + AN_HOUR)


def evict(api: Api, pod: Pod) -> Answer:
    """Requests the eviction of the pod with this uid."""
    eviction = {
        "apiVersion": "policy/v1",
        "kind": "Eviction",
        "metadata": {"name": pod.name, "namespace": pod.namespace},
        "deleteOptions": {"preconditions": {"uid": pod.uid}},
    }
    return api.post(f"/api/v1/namespaces/{pod.namespace}/pods/{pod.name}/eviction", eviction)


def execute_plan(
    scenario_cluster: ScenarioCluster, access: Access, policy: Object, *, patient: bool
) -> list[MovedPod]:
    """Plans with this policy and evicts the pods of the plan; returns each move with its result.

    `patient` waits for the replacement of a pod before it evicts the next.
    """
    planner = planner_of(policy)
    before = read_snapshot(access, planner)
    plan = planner.draw_plan(before)
    assert not plan.errors, plan.errors
    answers = []
    for move in plan.moves:
        answers.append(evict(scenario_cluster.api, move.pod))
        if patient:
            wait_for(scenario_cluster.is_complete)
    wait_for(scenario_cluster.is_stable)
    replacement_nodes = dict(replacements(plan.moves, before, read_snapshot(access, planner)))
    return [
        MovedPod(move, answer, replacement_nodes.get(move.pod.uid, ""))
        for move, answer in zip(plan.moves, answers, strict=True)
    ]


def wait_for(check: Callable[[], bool]) -> None:
    """Returns once the check holds, or after a timeout."""
    for _ in poll(TIMEOUT_SECONDS):
        if check():
            return


def replacements(
    moves: Iterable[Move], before: Snapshot, after: Snapshot
) -> Iterator[tuple[str, str]]:
    """The uid of each moved pod that has a replacement, and the node of the replacement.

    Replacements of one owner are alike. As many as possible count as having come back, then as
    many as possible as being where predicted: two pods that swapped nodes moved without effect.
    """
    known = {pod.uid for pod in before.pods}
    new = [pod for pod in after.pods if pod.uid not in known]
    left = list(moves)
    for matches in (_is_on_same_node, _is_where_predicted, _is_anywhere):
        for move in list(left):
            for pod in new:
                if _identity(pod) == _identity(move.pod) and matches(pod, move):
                    yield move.pod.uid, pod.node
                    new.remove(pod)
                    left.remove(move)
                    break


def _identity(pod: Pod) -> tuple[object, ...]:
    """What a pod has in common with its replacement: the owners, and in a StatefulSet the name."""
    ordinal = any(owner.kind == "StatefulSet" for owner in pod.owners)
    return (pod.owners, pod.name if ordinal else "")


def _is_on_same_node(pod: Pod, move: Move) -> bool:
    return pod.node == move.pod.node


def _is_where_predicted(pod: Pod, move: Move) -> bool:
    return pod.node == move.lands_on


def _is_anywhere(pod: Pod, move: Move) -> bool:
    return True


# -- other moves of the plan -----------------------------------------------------------------------


def circumstances(moved_pod: MovedPod, all_moved: Iterable[MovedPod]) -> str:
    """Other moves of the plan that concern the same two nodes; empty if there are none.

    These are circumstances and no proof: the reason is in the log of the scheduler.
    """
    old_node, predicted = moved_pod.move.pod.node, moved_pod.move.lands_on
    others = [other for other in all_moved if other is not moved_pod]
    left = sum(other.move.pod.node == old_node for other in others)
    arrivals = sum(other.node == predicted != other.move.lands_on for other in others)
    departures = sum(other.move.pod.node == predicted for other in others)
    reasons = (
        (left, f"{left} more left {old_node}, which has more free capacity than the plan assumed"),
        (arrivals, f"{arrivals} came to {predicted} that were predicted for other nodes"),
        (departures, f"{departures} were still leaving {predicted}, where it was predicted"),
    )
    return "; ".join(text for number, text in reasons if number)
