"""What is planned from a hashed capture is what is planned from the cluster, under other names."""

from __future__ import annotations

import json
import re
from collections import Counter
from dataclasses import replace
from typing import Any

from hypothesis import given, settings

from resettle.cli.text.plan import plan_json
from resettle.dumps.anonymize import Anonymizer
from resettle.framework import Plan, build_descheduler, default_registry
from resettle.model.snapshot import Snapshot
from resettle.policy.load import load_policy
from resettle.testing import ApiServer, World
from resettle.testing.strategies import clusters
from tests.builders import Case, cases
from tests.dumps.harness import copied, strings_in

THOROUGH = settings(max_examples=60, deadline=None, derandomize=True, database=None)
DIGESTS = Anonymizer(b"salt")

# Every name that clusters and policies of chance are made with, and nothing else of theirs.
NAMES = re.compile(
    r"""[npb]\d+ | uid-.* | shop | web | db | once | agent | gone | blue | red | green | none | yes
    | [abc] | data | fast | high | v | registry\.example/app:1""",
    re.VERBOSE,
)
UNEQUAL = "pool!="


def renamed(part: Any) -> Any:
    """A document with every name in it replaced, wherever it stands; keys stay."""
    if isinstance(part, dict):
        return {key: renamed(value) for key, value in part.items()}
    if isinstance(part, list):
        return [renamed(value) for value in part]
    if isinstance(part, str) and part.startswith(UNEQUAL):
        return UNEQUAL + DIGESTS.hash_name(part.removeprefix(UNEQUAL))
    return DIGESTS.hash_name(part) if isinstance(part, str) and NAMES.fullmatch(part) else part


def planned(snapshot: Snapshot, document: dict[str, Any]) -> Plan:
    registry = default_registry()
    policy = load_policy(json.dumps(document), name="policy", plugins=registry)
    return build_descheduler(policy, registry).draw_plan(snapshot)


@THOROUGH
@given(cases())
def test_hashing_is_renaming_and_nothing_else(case: Case) -> None:
    """Lots are drawn by name, so the cluster to compare with is the one that has the new names."""
    with ApiServer(case.objects) as server:
        copy = copied(server, digests=DIGESTS)
    moving = frozenset(map(DIGESTS.hash_name, case.moving))
    document = renamed(case.document)
    hashed = planned(replace(copy.snapshot(), moving=moving), document)
    other = planned(replace(World(renamed(case.objects)).snapshot(), moving=moving), document)

    assert plan_json(hashed) == plan_json(other)
    assert [text for text in strings_in(copy.items) if NAMES.fullmatch(text)] == []


# With no limit, no budget and no place to lose, each pod is judged for itself.
EACH_FOR_ITSELF: dict[str, dict[str, Any]] = {
    "PodLifeTime": {"maxPodLifeTimeSeconds": 3600},
    "RemoveFailedPods": {},
    "RemovePodsHavingTooManyRestarts": {"podRestartThreshold": 1},
    "RemovePodsViolatingNodeTaints": {"includePreferNoSchedule": True},
    "RemovePodsViolatingNodeAffinity": {
        "nodeAffinityType": ["requiredDuringSchedulingIgnoredDuringExecution"]
    },
}
POLICY = {
    "apiVersion": "descheduler/v1alpha2",
    "kind": "DeschedulerPolicy",
    "profiles": [
        {
            "name": "main",
            "pluginConfig": [{"name": n, "args": args} for n, args in EACH_FOR_ITSELF.items()],
            "plugins": {"deschedule": {"enabled": list(EACH_FOR_ITSELF)}},
        }
    ],
}


@THOROUGH
@given(clusters(max_budgets=0))
def test_where_no_tie_decides_the_same_pods_go_for_the_same_reasons(world: World) -> None:
    with ApiServer(world.objects) as server:
        plain, hashed = copied(server), copied(server, digests=DIGESTS)
    before, after = planned(plain.snapshot(), POLICY), planned(hashed.snapshot(), POLICY)

    assert after.refused == before.refused
    assert Counter((move.plugin, move.pod.uid) for move in after.moves) == Counter(
        (move.plugin, DIGESTS.hash_name(move.pod.uid)) for move in before.moves
    )
