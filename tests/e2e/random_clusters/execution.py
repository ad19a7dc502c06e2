"""A plan carried out: each pod evicted, and where its replacement went."""

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
from tests.e2e.cluster.workspace import pauses
from tests.e2e.random_clusters.scenario_cluster import Settlement
from tools.control_plane.api import Answer, Api, Object

PATIENCE_SECONDS = 30
AN_HOUR = timedelta(hours=1)
REGISTRY = default_registry()


class Landed(NamedTuple):
    """A pod that was moved, what the API server said to that, and where its replacement is."""

    move: Move
    answer: Answer
    node: str
    """Empty while no node takes it, or nobody makes it."""

    @property
    def came_back(self) -> bool:
        """Whether it moved for nothing."""
        return self.node == self.move.pod.node

    @property
    def as_foretold(self) -> bool:
        """Whether it is where the plan said it would be."""
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


def look(access: Access, planner: Descheduler) -> Snapshot:
    """The cluster as it is, seen from a time at which its pods have lived long enough to move."""
    return list_cluster(access, planner.reads).snapshot(datetime.now(UTC) + AN_HOUR)


def evict(api: Api, pod: Pod) -> Answer:
    """Asks for the eviction of this very pod, and of no namesake."""
    eviction = {
        "apiVersion": "policy/v1",
        "kind": "Eviction",
        "metadata": {"name": pod.name, "namespace": pod.namespace},
        "deleteOptions": {"preconditions": {"uid": pod.uid}},
    }
    return api.post(f"/api/v1/namespaces/{pod.namespace}/pods/{pod.name}/eviction", eviction)


def carried_out(
    settlement: Settlement, access: Access, policy: Object, *, patient: bool
) -> list[Landed]:
    """What became of each move of the plan that the policy has for the cluster.

    Patience is to evict a pod only once the one before has its replacement.
    """
    planner = planner_of(policy)
    before = look(access, planner)
    plan = planner.draw_plan(before)
    assert not plan.errors, plan.errors
    answers = []
    for move in plan.moves:
        answers.append(evict(settlement.api, move.pod))
        if patient:
            wait_for(settlement.complete)
    wait_for(settlement.at_rest)
    heirs = dict(replacements(plan.moves, before, look(access, planner)))
    return [
        Landed(move, answer, heirs.get(move.pod.uid, ""))
        for move, answer in zip(plan.moves, answers, strict=True)
    ]


def wait_for(seen: Callable[[], bool]) -> None:
    """Returns once it is seen, or after a while."""
    for _ in pauses(PATIENCE_SECONDS):
        if seen():
            return


def replacements(
    moves: Iterable[Move], before: Snapshot, after: Snapshot
) -> Iterator[tuple[str, str]]:
    """The uid of each moved pod that has a replacement, and the node of that.

    Replacements of one owner are alike. As many as can be are taken to have come back, then as
    many as can be to be where they were foretold: two that changed places moved for nothing.
    """
    known = {pod.uid for pod in before.pods}
    new = [pod for pod in after.pods if pod.uid not in known]
    left = list(moves)
    for likely in (_at_home, _as_foretold, _anywhere):
        for move in list(left):
            for pod in new:
                if _lineage(pod) == _lineage(move.pod) and likely(pod, move):
                    yield move.pod.uid, pod.node
                    new.remove(pod)
                    left.remove(move)
                    break


def _lineage(pod: Pod) -> tuple[object, ...]:
    """What a pod shares with those that can stand in for it: of a StatefulSet, the name too."""
    ordinal = any(owner.kind == "StatefulSet" for owner in pod.owners)
    return (pod.owners, pod.name if ordinal else "")


def _at_home(pod: Pod, move: Move) -> bool:
    return pod.node == move.pod.node


def _as_foretold(pod: Pod, move: Move) -> bool:
    return pod.node == move.lands_on


def _anywhere(pod: Pod, move: Move) -> bool:
    return True


# -- what went on meanwhile ------------------------------------------------------------------------


def circumstances(one: Landed, all_of_them: Iterable[Landed]) -> str:
    """What the others of its plan did about the two nodes in question; empty for nothing.

    These are circumstances and no proof: why the scheduler chose as it did, its own log tells.
    """
    home, foretold = one.move.pod.node, one.move.lands_on
    others = [it for it in all_of_them if it is not one]
    left = sum(it.move.pod.node == home for it in others)
    came = sum(it.node == foretold != it.move.lands_on for it in others)
    held = sum(it.move.pod.node == foretold for it in others)
    found = (
        (left, f"{left} more left {home}, which has more room than when it was its turn"),
        (came, f"{came} came to {foretold} that were foretold for other nodes"),
        (held, f"{held} were still leaving {foretold}, where it was foretold"),
    )
    return "; ".join(says for number, says in found if number)
