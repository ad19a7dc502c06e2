"""What somebody reads at a terminal who asks Kubernetes, not resettle, where a pod has gone."""

from __future__ import annotations

import re

from tests.e2e.cluster.workspace import Room, eventually
from tests.e2e.installing.terminal import Terminal
from tests.e2e.processes.run import Account, settled
from tools.control_plane.api import Api

from .test_run import old_enough, too_old


def test_kubectl_shows_who_moved_a_pod_and_why(
    account: Account, api: Api, room: Room, terminal: Terminal
) -> None:
    room.deploy("web", replicas=2)
    old_enough(room)

    with account.run(too_old(room)) as run:
        assert run.ended() == 0, run.story
    moved = {line["pod"].partition("/")[2]: line for line in run.told("evicted")}
    settled(api, account, run)

    def rows() -> list[list[str]]:
        words = ("get", "events", "-n", room.name, "--field-selector", "reason=PodLifeTime")
        return [
            re.split(r"  +", line.rstrip())
            for line in terminal.does("kubectl", *words, "--no-headers").splitlines()
        ]

    eventually("two events", lambda: len(rows()) == 2)
    assert len(moved) == 2
    for _, kind, reason, about, message in rows():
        line = moved[about.removeprefix("pod/")]
        assert (kind, reason) == ("Normal", line["plugin"])
        assert message == (
            f"pod eviction from {line['node']} node by sigs.k8s.io/descheduler; "
            f"{line['plugin']} in profile {line['profile']}: {line['reason']}"
        )
