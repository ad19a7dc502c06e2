"""An API server that cannot be reached ends the carrying out of a plan, and costs no pod a line."""

from __future__ import annotations

from resettle.eviction.executor import AT_ONCE, GatedClient
from resettle.framework import MoveResult
from resettle.kube.auth.access import Access
from resettle.kube.transport.client import Client
from resettle.testing import cluster, node, pod
from tests.eviction.harness import rigged, run_with_timeout
from tools.control_plane.processes import free_ports

NAMES = [f"web-{i}" for i in range(2 * AT_ONCE)]
WORLD = cluster(node("n1").holding(*(pod(name) for name in NAMES)))


def test_no_request_is_sent_after_the_api_server_is_unreachable() -> None:
    async def run_scenario() -> None:
        (port,) = free_ports(1)
        nowhere = Access(server=f"http://127.0.0.1:{port}")
        async with rigged(WORLD) as rig, Client(nowhere) as client:
            rig.gated_client = GatedClient(client, rig.may_act)

            outcomes = await rig.carried_out(*NAMES)

            assert {outcome.result for outcome in outcomes} == {MoveResult.UNSENT}
            reasons = [outcome.message for outcome in outcomes if outcome.message]
            assert len(reasons) == AT_ONCE
            assert "cannot be reached" in reasons[0]
            assert rig.log_lines == []
            assert rig.leaving == set()

    run_with_timeout(run_scenario())
