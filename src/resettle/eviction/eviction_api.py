"""EvictionAPI: evicts pods through the eviction API, which respects their disruption budgets.

A request names the uid of the pod, so that a new pod of the same name is never evicted. For a pod
whose annotation says that another controller moves it on request, a refusal may mean that the move
has begun and goes on in the background.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from resettle.errors import AnswerLost, ClusterError, ClusterUnreachable, NotNow
from resettle.framework.mover import (
    ApiRequests,
    ApiResponse,
    Evictor,
    MoveResponse,
    MoveResult,
    Options,
)
from resettle.framework.plan import Move
from resettle.framework.plugin import Permission, Plugin
from resettle.kube.failures import role_rule
from resettle.kube.status import Answer, Status, budget_of, status_of
from resettle.model.pod import ON_REQUEST, Pod
from resettle.policy.args import Args

REQUESTED_BY = "sigs.k8s.io/descheduler"
BEGUN = "Eviction triggered evacuation"
"""Part of the refusal by a webhook whose controller moves the pod from now on."""
_SEVERAL_BUDGETS = "more than one PodDisruptionBudget"
_BUSY_BUDGET = "couldn't update PodDisruptionBudget"
_BUDGET = "poddisruptionbudget"
_NOT_ALLOWED = "cannot create resource"


class EvictionAPI:
    """Evicts pods by `policy/v1`."""

    async def move(self, move: Move, options: Options, requests: ApiRequests) -> MoveResponse:
        """Request the eviction of the pod, and return what the API server answered."""
        pod = move.pod
        path = f"/api/v1/namespaces/{pod.namespace}/pods/{pod.name}/eviction"
        try:
            reply = await requests.send("POST", path, eviction_of(pod, options))
        except AnswerLost as error:
            return MoveResponse(MoveResult.UNKNOWN, str(error))
        except ClusterUnreachable as error:
            # The next pod would fail as well: the rest of the plan waits for the next cycle.
            raise NotNow(str(error)) from None
        except ClusterError as error:
            return MoveResponse(MoveResult.ERROR, str(error))
        return move_response(reply, pod, options)


def eviction_of(pod: Pod, options: Options) -> bytes:
    """The body of the eviction request, with who requests it and why."""
    why = f"triggered by {options.profile}/{options.initiator}: {options.reason}"
    return msgspec.json.encode(
        {
            "apiVersion": "policy/v1",
            "kind": "Eviction",
            "metadata": {
                "name": pod.name,
                "namespace": pod.namespace,
                "annotations": {"requested-by": REQUESTED_BY, "reason": why},
            },
            "deleteOptions": delete_options_for(pod, options.delete_options),
        }
    )


def delete_options_for(pod: Pod, options: Mapping[str, Any]) -> dict[str, Any]:
    """The options with the uid of the pod as a precondition, so that no other pod is deleted."""
    preconditions = {**options.get("preconditions", {}), "uid": pod.uid}
    return {**options, "preconditions": preconditions}


def move_response(reply: ApiResponse, pod: Pod, options: Options) -> MoveResponse:
    """What an answer to an eviction means, as the response of a mover."""
    if reply.status < 300:
        return MoveResponse(MoveResult.EVICTED)
    answer = Answer(reply.status, reply.body)
    status = status_of(answer)
    return MoveResponse(_result_of(answer, pod, options), _message(status))


def _message(status: Status) -> str:
    """The server's message, with the missing rule if it is about a permission."""
    if _NOT_ALLOWED in status.message:
        return f"{status.message}; add to its role: {role_rule('create', 'pods/eviction')}"
    causes = " ".join(cause.message for cause in status.causes if cause.message)
    return causes or status.message


def _result_of(answer: Answer, pod: Pod, options: Options) -> MoveResult:
    """The result that a refusal means; the first row that applies counts.

    | status        | cause                                                  | result     |
    |---------------|--------------------------------------------------------|------------|
    | 404           | there is no such pod                                   | GONE       |
    | 409           | precondition: another pod has the name by now          | GONE       |
    | 429           | evacuation began, the pod has the annotation           |            |
    |               | `request-evict-only`, and `in_background` is off       | WEBHOOK    |
    |               | ... `in_background` is on, and the pod has finished    | GONE       |
    |               | ... `in_background` is on                              | BACKGROUND |
    | 429           | cause DisruptionBudget: the budget is spent            | BUDGET     |
    | any           | an admission webhook denied the request, 429 too       | WEBHOOK    |
    | 500           | more than one budget selects the pod                   | BUDGET     |
    | 403           | the budget's status is invalid, or too many pods that  |            |
    |               | it has let go are still there                          | BUDGET     |
    | 500           | a webhook could not be called                          | ERROR      |
    | 504           | the budget could not be updated; that precedes the pod | ERROR      |
    | 500, 502-504  | anything else: the pod may be evicted nevertheless     | UNKNOWN    |
    | 429           | the server is overloaded, after the retries of         |            |
    |               | `kube.transport.pacing`                                | ERROR      |
    | others        |                                                        | ERROR      |

    `kube.status` distinguishes the meanings of a 429.
    """
    status = status_of(answer)
    match answer.status:
        case 404:
            return MoveResult.GONE
        case 409 if "UID" in status.message:
            # The precondition failed: another pod has the name by now.
            return MoveResult.GONE
        case 429 if BEGUN in status.message and pod.has_annotation(ON_REQUEST):
            if not options.in_background:
                return MoveResult.WEBHOOK
            return MoveResult.GONE if pod.finished else MoveResult.BACKGROUND
        case 429 if budget_of(answer) is not None:
            return MoveResult.BUDGET
        case _ if status.webhook is not None:
            return MoveResult.WEBHOOK
        case 500 if _SEVERAL_BUDGETS in status.message:
            return MoveResult.BUDGET
        case 403 if _BUDGET in status.message:
            # Its status makes no sense, or too many pods that it has let go are still there.
            return MoveResult.BUDGET
        case 500 if "failed calling webhook" in status.message:
            return MoveResult.ERROR
        case 504 if _BUSY_BUDGET in status.message:
            # The budget is written before the pod is touched, and was not.
            return MoveResult.ERROR
        case 500 | 502 | 503 | 504:
            # The server, or a proxy before it, gave up midway; the pod may be evicted nevertheless.
            return MoveResult.UNKNOWN
        case _:
            return MoveResult.ERROR


def make(args: Args, evictor: Evictor) -> EvictionAPI:
    """The mover of one profile."""
    return EvictionAPI()


def acts(args: Args) -> tuple[Permission, ...]:
    """The one permission that evictions need."""
    return (Permission("create", "pods/eviction"),)


PLUGIN = Plugin(name="EvictionAPI", evict=make, permissions=acts)
