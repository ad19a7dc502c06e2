"""PleaseLeave: pods are asked to leave by a label, and go by themselves when they are ready.

For pods that know best when they can be spared: a game server finishes its match, a runner its job,
an operator hands a database over first. Until the pod has gone it is on its way to resettle: it is
not asked again, and every limit counts it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator

from resettle.framework import (
    AnswerLost,
    ApiRequests,
    ClusterError,
    Evictor,
    Move,
    MoveResponse,
    MoveResult,
    Options,
    Permission,
    Plugin,
    Problem,
)
from resettle.framework import Args as PluginArgs

_LABEL = re.compile(r"([a-z0-9.-]+/)?[A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?")
_LONGEST_VALUE = 63


class Args(PluginArgs, frozen=True, kw_only=True):
    """Arguments of PleaseLeave."""

    label: str = "resettle.example/please-leave"
    """The label that asks a pod to leave; its value names the plugin that would have it go."""

    def problems(self) -> Iterator[Problem]:
        if not _LABEL.fullmatch(self.label):
            yield Problem(
                what=f"`{self.label}` cannot be a label",
                fix="write one such as `example.com/please-leave`",
                at=("label",),
            )


class PleaseLeave:
    """Labels pods, each by one request."""

    def __init__(self, args: Args, evictor: Evictor) -> None:
        self._label = args.label

    async def move(self, move: Move, options: Options, requests: ApiRequests) -> MoveResponse:
        pod = move.pod
        # The uid makes sure that it is this pod: for a namesake the API server answers 409.
        wanted = {
            "uid": pod.uid,
            "labels": {self._label: options.initiator[:_LONGEST_VALUE]},
            "annotations": {f"{self._label}-because": options.reason},
        }
        try:
            reply = await requests.send(
                "PATCH",
                f"/api/v1/namespaces/{pod.namespace}/pods/{pod.name}",
                json.dumps({"metadata": wanted}).encode(),
                content_type="application/merge-patch+json",
            )
        except AnswerLost as error:
            return MoveResponse(MoveResult.UNKNOWN, str(error))
        except ClusterError as error:
            return MoveResponse(MoveResult.ERROR, str(error))
        match reply.status:
            case 200:
                return MoveResponse(MoveResult.BACKGROUND)
            case 404 | 409:
                return MoveResponse(MoveResult.GONE)
            case code:
                return MoveResponse(MoveResult.ERROR, f"the API server answered {code}")


def acts(args: Args) -> tuple[Permission, ...]:
    return (Permission("patch", "pods"),)


PLUGIN = Plugin(name="PleaseLeave", args=Args, evict=PleaseLeave, permissions=acts)
