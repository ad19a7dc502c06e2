"""The recorded cases, and the rule by which a plan agrees with one."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

from msgspec import Struct

from resettle.framework import Descheduler, build_descheduler, default_registry
from resettle.model import Snapshot
from resettle.policy.load import load_policy
from resettle.testing import World

HERE = Path(__file__).parent
FILES = sorted(path.name.removesuffix(".jsonl.gz") for path in HERE.glob("*.jsonl.gz"))


class Case(Struct, frozen=True):
    """One recorded cluster, its policy, and what upstream did."""

    id: str
    at: str
    policy: dict[str, Any]
    objects: list[dict[str, Any]]
    runs: list[list[str]]

    @property
    def choices(self) -> list[frozenset[str]]:
        """The distinct sets of pods that upstream evicted."""
        return [frozenset(run) for run in self.runs]

    @property
    def descheduler(self) -> Descheduler:
        """What the policy describes."""
        plugins = default_registry()
        policy = load_policy(json.dumps(self.policy), name=self.id, plugins=plugins)
        return build_descheduler(policy, plugins)

    @property
    def snapshot(self) -> Snapshot:
        """The cluster at the time of the decisions."""
        return World(self.objects, datetime.fromisoformat(self.at)).snapshot()

    def agrees(self, evicted: frozenset[str]) -> bool:
        """Whether evicting these pods is an answer the record supports."""
        if len(self.choices) == 1:
            return evicted == self.choices[0]
        sizes = {len(choice) for choice in self.choices}
        return len(evicted) in sizes and frozenset.intersection(*self.choices) <= evicted


def cases(file: str) -> Iterator[Case]:
    """The cases of one file."""
    with gzip.open(HERE / f"{file}.jsonl.gz") as lines:
        for line in lines:
            yield Case(**json.loads(line))
