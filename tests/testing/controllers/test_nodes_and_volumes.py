"""Taints that pods leave for: who goes, and when."""

from __future__ import annotations

from typing import Any

import pytest

from resettle.testing import node, pod
from resettle.testing.controllers import deployment
from tests.testing.controllers.harness import Living

SOUR = {"key": "sour", "value": "very", "effect": "NoExecute", "timeAdded": "2026-01-31T12:00:00Z"}
EXISTS = {"key": "sour", "operator": "Exists"}


@pytest.mark.parametrize(
    ("tolerations", "taint", "gone_after"),
    [
        pytest.param([], SOUR, 0, id="leaves at once"),
        pytest.param([], {**SOUR, "effect": "NoSchedule"}, None, id="stays for one that only bars"),
        pytest.param([EXISTS], SOUR, None, id="stays if it tolerates the taint"),
        pytest.param([{"operator": "Exists"}], SOUR, None, id="or any taint"),
        pytest.param(
            [{"key": "sour", "value": "very"}], SOUR, None, id="or the taint by its value"
        ),
        pytest.param([{"key": "sour", "value": "a bit"}], SOUR, 0, id="but not by another value"),
        pytest.param([{**EXISTS, "effect": "NoSchedule"}], SOUR, 0, id="nor by another effect"),
        pytest.param([{**EXISTS, "tolerationSeconds": 60}], SOUR, 60, id="or for a while"),
        pytest.param(
            [{**EXISTS, "tolerationSeconds": 60}, {**EXISTS, "tolerationSeconds": 10}],
            SOUR,
            10,
            id="the shortest while counts",
        ),
        pytest.param(
            [{**EXISTS, "tolerationSeconds": 60}],
            {key: value for key, value in SOUR.items() if key != "timeAdded"},
            0,
            id="no while at all if the taint does not say when it came",
        ),
    ],
)
def test_a_pod_under_a_taint(tolerations: Any, taint: Any, gone_after: int | None) -> None:
    living = Living(node("n1").holding(pod("p", owner=None, tolerations=tolerations)))
    living.store.merge("Node", "n1", {"spec": {"taints": [taint]}})

    if gone_after is None:
        assert living.after(3600).pods
        return
    # Two seconds to stop.
    assert living.after(gone_after + 1).pods
    assert not living.after(1).pods


def test_replacements_go_elsewhere() -> None:
    living = Living(node("n1"), deployment("web", replicas=2)).after(5)

    living.store.merge("Node", "n1", {"spec": {"taints": [SOUR]}})
    living.store.put(node("n2").node)
    living.after(10)

    assert living.nodes == ["n2", "n2"]
