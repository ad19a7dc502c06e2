"""TidyFinished: pods that have succeeded or failed are deleted after a while.

Kubernetes keeps finished pods until there are thousands of them. This controller deletes each one a
while after it has finished, unless a filter of the profile protects it. It works beside the cycles
of a run: a pod is deleted when its time has come, not when the next cycle begins.
"""

from __future__ import annotations

import json
from datetime import datetime, timedelta

from resettle.framework import Args as PluginArgs
from resettle.framework import (
    ClusterError,
    ControllerHandle,
    NotThisPod,
    Permission,
    Plugin,
    Unsigned,
)
from resettle.model import Pod

_LONGEST_PAUSE = timedelta(minutes=1)
"""How often pods are looked at although nothing has changed."""
_DONE = (200, 202)
_GONE = (404, 409)
"""There is no such pod, or another of its name."""


class Args(PluginArgs, frozen=True, kw_only=True):
    """Arguments of TidyFinished."""

    after_seconds: Unsigned = 3600
    """How long a finished pod is kept."""


class TidyFinished:
    """Deletes finished pods, each by one request."""

    def __init__(self, args: Args, handle: ControllerHandle) -> None:
        self._keep = timedelta(seconds=args.after_seconds)
        self._handle = handle

    async def run(self) -> None:
        pause = _LONGEST_PAUSE
        while True:
            await self._handle.wait_for_change(pause.total_seconds())
            pause = await self._tidy()

    async def _tidy(self) -> timedelta:
        """Delete the pods whose time has come, and return how long until that of the next."""
        evictor, pause = self._handle.evictor, _LONGEST_PAUSE
        problems = []
        for pod in evictor.view.pods:
            if not pod.finished or pod.terminating:
                continue
            now = self._handle.clock.now()
            left = self._keep - (now - _finished_at(pod, now))
            if left > timedelta():
                pause = min(pause, left)
            elif evictor.refusal(pod) is None and (problem := await self._delete(pod)):
                problems.append(problem)
        if problems:
            # Raised when all pods were tried: the runtime logs it, and starts again after a pause.
            raise RuntimeError(f"{len(problems)} not deleted: {problems[0]}")
        return pause

    async def _delete(self, pod: Pod) -> str:
        """Delete the pod; why that was refused, or an empty text."""
        # With the uid as a precondition, no other pod of the same name can be deleted.
        body = {**self._handle.delete_options, "preconditions": {"uid": pod.uid}}
        path = f"/api/v1/namespaces/{pod.namespace}/pods/{pod.name}"
        try:
            # The pod is checked once more as the request is written.
            requests = self._handle.requests_for(pod)
            answer = await requests.send("DELETE", path, json.dumps(body).encode())
        except (NotThisPod, ClusterError):
            return (
                ""  # it has changed, or the server is away: the next round sees what became of it
            )
        if answer.status in _GONE:
            return ""  # it was deleted before, and the watch cache does not know it yet
        if answer.status not in _DONE:
            return f"deleting {pod.key}: the API server answered {answer.status}"
        self._handle.log.info("finished pod deleted", pod=pod.key, phase=pod.state.phase)
        return ""


def _finished_at(pod: Pod, now: datetime) -> datetime:
    """When a condition of the pod last changed, else when it was created."""
    times = [condition.since for condition in pod.conditions if condition.since]
    return max(times, default=pod.created or now)


PLUGIN = Plugin(
    name="TidyFinished",
    args=Args,
    controller=TidyFinished,
    controller_reads=lambda args: frozenset({"conditions"}),
    controller_permissions=lambda args: (Permission("delete", "pods"),),
)
