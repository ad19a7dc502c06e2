"""A long run beside constant change: what it must look like in the end, and what it came to."""

from __future__ import annotations

import json
import re
import signal
import time
from collections import Counter
from collections.abc import Iterator
from hashlib import sha256
from typing import NamedTuple

from resettle.model.kinds import KINDS
from tests.e2e.cluster.workspace import pauses
from tests.e2e.processes.log_reader import Line
from tests.e2e.processes.run import Account, Policy, Run, settled
from tests.e2e.soak.workloads import Churn, Estate
from tools.control_plane.api import Api, Object

WARM = 10
"""The cycle after which memory is first looked at."""
MOST_GROWTH = 1.1
PATIENCE_SECONDS = 60
_RSS = re.compile(r"^VmRSS:\s+(\d+) kB$", re.MULTILINE)
_COUNTED = {
    "events": ("apiserver_watch_cache_events_received_total{", 'resource="pods"'),
    "made": ("apiserver_request_total{", 'code="201"', 'resource="pods"', 'subresource=""'),
}
"""Counters of the API server, each told from the others by what stands in its line."""


class Sample(NamedTuple):
    """The memory of a run after a cycle."""

    cycle: int
    rss_kb: int


class Figures(NamedTuple):
    """What a soak came to."""

    seconds: float
    cycles: int
    evictions: int
    ups: int
    downs: int
    deletions: int
    made: int
    """Pods that the API server made meanwhile, for anybody."""
    events: int
    """Changes of pods meanwhile, anybody's."""
    known: dict[str, int]
    """Objects of each kind in the end, where the run and a fresh list agree."""
    samples: list[Sample]

    @property
    def growth(self) -> float:
        """Memory in the end over memory after the tenth cycle."""
        return self.samples[-1].rss_kb / self.warm.rss_kb

    @property
    def warm(self) -> Sample:
        """The memory after the tenth cycle."""
        return next(it for it in self.samples if it.cycle >= WARM)


def soak(account: Account, estate: Estate, seconds: float, interval: str) -> Figures:
    """Runs resettle beside churn for so long; in the end it knows what the API server knows."""
    api = estate.api
    words = ("--descheduling-interval", interval, "--client-connection-qps", "50")
    with account.run(restless(estate), *words) as run:
        run.awaits("cycle done")
        before, began = _counted(api), time.monotonic()
        with Churn(estate) as churn:
            samples = list(_samples(run, began + seconds))
        after, lasted = _counted(api), time.monotonic() - began
        # The same policy with nothing to give out: no other kinds, so the same cache.
        run.policy.write_text(json.dumps(restless(estate, maxNoOfPodsToEvictTotal=0)))
        run.awaits_more("policy loaded")
        estate.rest()
        known = _agreed(run, api)
        samples += _samples(run, time.monotonic())
        assert run.stop() == 0, run.story
    settled(api, account, run)
    assert not run.told("cycle failed")
    assert not run.told("cycle skipped")
    return Figures(
        seconds=lasted,
        cycles=len(run.told("cycle done")),
        evictions=len(run.evicted),
        ups=churn.ups,
        downs=churn.downs,
        deletions=churn.deletions,
        made=after["made"] - before["made"],
        events=after["events"] - before["events"],
        known=known,
        samples=samples,
    )


def restless(estate: Estate, **top: int) -> Policy:
    """A policy that always finds somebody to move, a few at a time."""
    here = {"namespaces": {"include": [estate.name]}}
    wide = {"cpu": 20, "memory": 20, "pods": 20}
    args: dict[str, Object] = {
        "PodLifeTime": {"maxPodLifeTimeSeconds": 10, **here},
        "RemovePodsViolatingTopologySpreadConstraint": {
            "constraints": ["DoNotSchedule", "ScheduleAnyway"],
            **here,
        },
        "RemoveDuplicates": here,
        "LowNodeUtilization": {
            "thresholds": wide,
            "targetThresholds": {key: most + 10 for key, most in wide.items()},
        },
        "DefaultEvictor": {"nodeFit": True},
    }
    first, *balancing, _ = args
    return {
        "apiVersion": "descheduler/v1alpha2",
        "kind": "DeschedulerPolicy",
        "nodeSelector": f"room={estate.name}",
        "maxNoOfPodsToEvictTotal": 8,
        **top,
        "profiles": [
            {
                "name": "soak",
                "pluginConfig": [{"name": name, "args": it} for name, it in args.items()],
                "plugins": {
                    "deschedule": {"enabled": [first]},
                    "balance": {"enabled": balancing},
                },
            }
        ],
    }


# -- what the run knows ---------------------------------------------------------------------------


def _agreed(run: Run, api: Api) -> dict[str, int]:
    """How many objects of each kind the run knows, once that is what a fresh list has."""
    differs = "nothing was told"
    for _ in pauses(PATIENCE_SECONDS, 0.5):
        told = _known(run)
        fresh = {kind: digest(kind, api.items(KINDS[kind].path)) for kind in told}
        mine = {kind: line["digest"] for kind, line in told.items()}
        if mine == fresh:
            return {kind: line["objects"] for kind, line in told.items()}
        differs = ", ".join(kind for kind in mine if mine[kind] != fresh[kind])
    raise AssertionError(f"what is known is not what a fresh list has: {differs}\n{run.story}")


def _known(run: Run) -> dict[str, Line]:
    """What the run says that it knows, by kind."""
    heard = len(run.told("cache state"))
    run.signal(signal.SIGUSR1)
    run.awaits_more("in flight")
    return {line["kind"]: line for line in run.told("cache state")[heard:]}


def digest(kind: str, items: list[Object]) -> str:
    """The digest of a fresh list, reckoned from the outside as the documentation says."""
    lines = sorted(f"{_line(kind, it)}\n".encode() for it in items)
    return sha256(b"".join(lines)).hexdigest()


def _line(kind: str, item: Object) -> str:
    meta = item["metadata"]
    line = f"{meta.get('namespace', '')}/{meta['name']} {meta['resourceVersion']}"
    if kind == "Pod":
        line += f" {meta['uid']} {item['spec'].get('nodeName', '')} {item['status']['phase']}"
    return line


# -- what it took ----------------------------------------------------------------------------------


def _samples(run: Run, until: float) -> Iterator[Sample]:
    """The memory after each cycle, until the time is up."""
    seen, more = 0, True
    while more:
        more = time.monotonic() < until
        time.sleep(0.05)
        cycles = len(run.told("cycle done"))
        if cycles > seen or not more:
            assert not run.over, run.story
            seen = cycles
            yield Sample(cycles, rss_kb(run.pid))


def rss_kb(pid: int) -> int:
    """The memory that a process holds now."""
    with open(f"/proc/{pid}/status") as file:
        found = _RSS.search(file.read())
    assert found is not None
    return int(found[1])


def _counted(api: Api) -> Counter[str]:
    """What the API server has counted of pods since it came up."""
    found: Counter[str] = Counter()
    for line in str(api.get("/metrics").body).splitlines():
        for what, parts in _COUNTED.items():
            if all(part in line for part in parts):
                found[what] += int(float(line.rsplit(" ", 1)[1]))
    return found
