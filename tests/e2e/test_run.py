"""`resettle run` on a real control plane: the first cycle of a newcomer, and the one after it."""

from __future__ import annotations

from tests.e2e.cluster.workspace import Room, eventually
from tests.e2e.processes.command import lifetime
from tests.e2e.processes.run import Account, settled
from tools.control_plane.api import Api


def too_old(room: Room, seconds: int = 1, **more: object) -> dict[str, object]:
    """A policy by which pods of the room are too old after this time."""
    policy = lifetime("descheduler/v1alpha2", room.name, **more)
    policy["profiles"][0]["pluginConfig"][0]["args"]["maxPodLifeTimeSeconds"] = seconds
    return policy


def old_enough(room: Room) -> None:
    """Returns once the pods of the room are older than the policy allows."""
    eventually("old pods", lambda: _seconds_old(room) > 2)


def test_one_cycle_evicts_what_the_policy_names_and_ends(
    account: Account, api: Api, room: Room
) -> None:
    room.deploy("web", replicas=6)
    before = {pod["metadata"]["uid"] for pod in room.running()}
    old_enough(room)

    with account.run(too_old(room)) as run:
        assert run.ended() == 0, run.story

    assert run.evicted == before
    settled(api, account, run)
    events = api.items(f"/apis/events.k8s.io/v1/namespaces/{room.name}/events")
    ours = [it for it in events if it.get("reportingController") == "sigs.k8s.io.descheduler"]
    assert {it["regarding"]["uid"] for it in ours} == before
    assert {(it["type"], it["reason"], it["action"]) for it in ours} == {
        ("Normal", "PodLifeTime", "Descheduled")
    }
    eventually("replacements", lambda: len(room.ready()) == 6)


def test_a_dry_run_tells_and_does_nothing(account: Account, api: Api, room: Room) -> None:
    room.deploy("web", replicas=6)
    old_enough(room)

    with account.run(too_old(room), "--dry-run") as run:
        assert run.ended() == 0, run.story

    assert len(run.told("would evict")) == 6
    asked = [it for it in account.audited() if it["verb"] not in ("list", "watch")]
    assert {it["objectRef"]["resource"] for it in asked} <= {"selfsubjectaccessreviews"}


def _seconds_old(room: Room) -> float:
    from datetime import UTC, datetime

    made = [datetime.fromisoformat(it["metadata"]["creationTimestamp"]) for it in room.running()]
    return min(((datetime.now(UTC) - it).total_seconds() for it in made), default=0.0)
