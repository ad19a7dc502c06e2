"""How steps are carried out: which requests wait for others, and the last look at the place."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from resettle.controllers.migration.api import MigrationApi
from resettle.controllers.migration.apply import StepRunner
from resettle.controllers.migration.known_jobs import KnownJobs
from resettle.controllers.migration.observe import Sight
from resettle.controllers.migration.types import Evict, HandOver, Observed
from resettle.framework.controller import ControllerHandle
from resettle.framework.mover import MoveResponse, MoveResult
from resettle.kube.status import Answer
from resettle.log import Log
from resettle.model.migration_job import DEFAULTS, MigrationJob, PodReference
from resettle.testing import ManualClock
from tests.controllers.migration.builders import job, placeholder, successor
from tests.controllers.migration.fakes import ANY_POD

Object = dict[str, Any]
PLACE = "/api/v1/namespaces/resettle/pods/place-uid-j"
NEW: Object = {
    "metadata": {"namespace": "shop", "name": "web-2", "uid": "new"},
    "spec": {"schedulingGates": [{"name": "resettle.dev/place-held"}]},
}


class Requests:
    """Answers GETs from objects by path, and all else with what was sent."""

    def __init__(self, log: list[str], title: str, objects: dict[str, Object]) -> None:
        self._log, self._title, self._objects = log, title, objects

    async def send(
        self, method: str, path: str, body: bytes | None = None, *, content_type: str = ""
    ) -> Answer:
        """The answer to a request, which is noted."""
        self._log.append(f"{self._title}: {method} {path}")
        found = self._objects.get(path) if method == "GET" else json.loads(body or b"{}")
        return Answer(404, b"{}") if found is None else Answer(200, json.dumps(found).encode())


class Bench:
    """A runner of steps and the requests that it sent."""

    def __init__(self, objects: dict[str, Object]) -> None:
        self.sent: list[str] = []
        self.reported: list[MoveResponse] = []
        paced = Requests(self.sent, "paced", objects)
        unused: Any = None
        handle = ControllerHandle(
            profile="main",
            evictor=unused,
            requests=paced,
            urgent_requests=Requests(self.sent, "urgent", objects),
            requests_for=lambda pod, moving=None, *, place_held=False: paced,
            report_move=lambda move, response: self.reported.append(response),
            set_figure=unused,
            wait_for_change=unused,
            delete_options={},
            clock=ManualClock(),
            log=Log.to([]),
        )
        self.runner = StepRunner(
            MigrationApi(paced),
            handle,
            namespace="resettle",
            image="pause",
            jobs=KnownJobs(DEFAULTS),
            instance="i",
        )


def held_job() -> MigrationJob:
    """A job that has a place on n2."""
    return job(
        conditions=["ReservationScheduled=True/Scheduled"],
        status={"nodeName": "n2"},
        settings={"steering": "Hard"},
    )


def place(node: str = "n2", **meta: Any) -> Object:
    """The placeholder of that job, as the API server has it."""
    name = {"namespace": "resettle", "name": "place-uid-j", "uid": "u"}
    return {"metadata": {**name, **meta}, "spec": {"nodeName": node}, "status": {}}


def test_the_requests_of_a_hand_over_wait_for_no_others() -> None:
    bench = Bench({"/api/v1/namespaces/shop/pods/web-2": NEW})
    step = HandOver(pod=PodReference("shop", "web-2", "new"), pin="n2", nominate="n2", ungate=True)
    sight = Sight(
        observed=Observed(placeholder=placeholder(), replacement=successor(gated=True)),
        replacement=NEW,
    )

    asyncio.run(bench.runner.run(held_job(), step, sight, frozenset()))

    assert bench.sent == [
        "urgent: PATCH /api/v1/namespaces/shop/pods/web-2",
        "urgent: PATCH /api/v1/namespaces/shop/pods/web-2/status",
        f"urgent: DELETE {PLACE}",
        "urgent: GET /api/v1/namespaces/shop/pods/web-2",
        "urgent: PATCH /api/v1/namespaces/shop/pods/web-2",
    ]


@pytest.mark.parametrize(
    ("objects", "evicts"),
    [
        pytest.param({PLACE: place()}, True, id="held"),
        pytest.param({}, False, id="gone"),
        pytest.param({PLACE: place("n3")}, False, id="on another node"),
        pytest.param({PLACE: place(deletionTimestamp="2026-01-01T00:00:00Z")}, False, id="leaving"),
    ],
)
def test_a_pod_is_evicted_only_if_its_place_is_still_held_right_before(
    objects: dict[str, Object], evicts: bool
) -> None:
    bench = Bench(objects)
    step = Evict(pod=PodReference("shop", "web-1", "victim"))
    sight = Sight(observed=Observed(placeholder=placeholder()), pod=ANY_POD)

    asyncio.run(bench.runner.run(held_job(), step, sight, frozenset()))

    assert bench.sent[0] == f"urgent: GET {PLACE}"
    assert any(request.endswith("/eviction") for request in bench.sent) is evicts
    assert [response.result for response in bench.reported] == [MoveResult.EVICTED] * evicts
