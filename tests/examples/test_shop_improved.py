"""The shop's policy in `resettle/v1`: it checks, it plans, and it keeps to its shares."""

from __future__ import annotations

import json
import math

import pytest

from resettle.cli.main import run
from tests import ROOT

SHOP = ROOT / "examples" / "lopsided"
POLICY = str(SHOP / "improved.yaml")
AT = ("--cluster", str(SHOP / "cluster.yaml"), "--now", "2026-01-31T12:00:00Z", "-o", "json")


def test_the_policy_has_no_problem_and_no_warning(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["policy", "check", POLICY]) == 0
    assert capsys.readouterr() == (f"{POLICY}: no problems, 1 profile\n", "")


def test_it_plans_within_its_shares(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["plan", "--policy", POLICY, *AT]) == 0

    plan = json.loads(capsys.readouterr().out)
    whole = plan["snapshot"]
    assert 0 < len(plan["moves"]) <= math.ceil(0.2 * whole["pods"])
    assert len({move["node"] for move in plan["moves"]}) <= math.ceil(0.5 * whole["nodes"])
    assert "RemovePodsViolatingNodeTaints" in {move["plugin"] for move in plan["moves"]}


def test_the_shop_s_older_policy_can_be_converted(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["policy", "convert", "--to", "resettle/v1", str(SHOP / "policy.yaml")]) == 0

    out, err = capsys.readouterr()
    assert "apiVersion: resettle/v1\n" in out
    assert "`minPodAge` is 10m" in err
    assert "`nodeFit` is on" not in err, "it was switched on before"
