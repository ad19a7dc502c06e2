"""Jobs: so many pods to the end, so many at a time."""

from __future__ import annotations

from collections.abc import Iterator

from resettle.testing.life.births import active, free_name, newborn, phase
from resettle.testing.life.moments import told_as
from resettle.testing.life.sight import Sight
from resettle.testing.life.writes import Later, Put, Write, farewell, status_of
from resettle.testing.objects import Object


def jobs(seen: Sight) -> Iterator[Write | Later]:
    """The pods that are missing, farewells to those that are too many, and what is done."""
    for owner in seen.all("Job"):
        pods = seen.owned_by(owner)
        done = _done(owner, pods)
        running = [pod for pod in pods if active(pod)]
        wanted = _at_once(owner, done)
        taken = {pod["metadata"]["name"] for pod in pods}
        for _ in range(wanted - len(running)):
            name = free_name(owner, taken, seen)
            taken.add(name)
            labels = {"job-name": owner["metadata"]["name"]}
            spec = {"restartPolicy": _restarts(owner)}
            yield Put(newborn(owner, name, seen, labels=labels, spec=spec))
        for pod in running[max(wanted, 0) :]:
            yield from farewell(pod, seen.now)
        yield from status_of(owner, _status(owner, done, min(len(running), wanted), seen))


def _done(owner: Object, pods: list[Object]) -> int:
    """Pods that have succeeded, be they there still or only counted."""
    counted = int((owner.get("status") or {}).get("succeeded", 0))
    return max(counted, sum(phase(pod) == "Succeeded" for pod in pods))


def _completions(owner: Object) -> int:
    return int(owner["spec"].get("completions", 1))


def _at_once(owner: Object, done: int) -> int:
    if owner["spec"].get("suspend"):
        return 0
    return max(min(int(owner["spec"].get("parallelism", 1)), _completions(owner) - done), 0)


def _restarts(owner: Object) -> str:
    return str(owner["spec"]["template"]["spec"].get("restartPolicy", "Never"))


def _status(owner: Object, done: int, running: int, seen: Sight) -> Object:
    before = owner.get("status") or {}
    now = told_as(seen.now)
    status: Object = {
        "active": running,
        "succeeded": done,
        "startTime": before.get("startTime", now),
    }
    if done >= _completions(owner):
        status["completionTime"] = before.get("completionTime", now)
        complete = {"type": "Complete", "status": "True", "lastTransitionTime": now}
        status["conditions"] = before.get("conditions") or [complete]
    return status
