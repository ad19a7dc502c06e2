"""A long run while pods change all the time: its checks at the end, and its result."""

from __future__ import annotations

import json
import re
import time
from collections import Counter
from collections.abc import Iterator
from hashlib import sha256
from typing import NamedTuple

from resettle.model.kinds import KINDS
from tests.e2e.cluster.workspace import poll
from tests.e2e.processes.run import Account, Policy, Run, assert_audit_agrees
from tests.e2e.soak.workloads import Churn, SoakCluster
from tools.control_plane.api import Api, Object

WARM = 10
"""The cycle after which memory is first measured."""
MOST_GROWTH = 1.1
TIMEOUT_SECONDS = 60
_RSS = re.compile(r"^VmRSS:\s+(\d+) kB$", re.MULTILINE)
_COUNTERS = {
    "events": ("apiserver_watch_cache_events_received_total{", 'resource="pods"'),
    "made": ("apiserver_request_total{", 'code="201"', 'resource="pods"', 'subresource=""'),
}
"""Counters of the API server, each with the texts that its lines contain."""


class Sample(NamedTuple):
    """The memory of a run after a cycle."""

    cycle: int
    rss_kb: int


class SoakResult(NamedTuple):
    """The result of a soak."""

    seconds: float
    cycles: int
    evictions: int
    ups: int
    downs: int
    deletions: int
    made: int
    """Pods created during the soak, by any client."""
    events: int
    """Changes of pods during the soak, by any client."""
    known: dict[str, int]
    """Objects of each kind at the end, in the cache of the run and in a fresh list."""
    samples: list[Sample]

    @property
    def growth(self) -> float:
        """Memory at the end divided by memory after the tenth cycle."""
        return self.samples[-1].rss_kb / self.warm.rss_kb

    @property
    def warm(self) -> Sample:
        """The memory after the tenth cycle."""
        return next(sample for sample in self.samples if sample.cycle >= WARM)


def soak(account: Account, soak_cluster: SoakCluster, seconds: float, interval: str) -> SoakResult:
    """Runs resettle during churn for so long; asserts at the end that its cache is right."""
    api = soak_cluster.api
    words = ("--descheduling-interval", interval, "--client-connection-qps", "50")
    with account.run(always_moving_policy(soak_cluster), *words) as run:
        run.wait_for("cycle done")
        before, started_at = _pod_counters(api), time.monotonic()
        with Churn(soak_cluster) as churn:
            samples = list(_samples(run, started_at + seconds))
        after, seconds_taken = _pod_counters(api), time.monotonic() - started_at
        # The policy with a limit of 0: it reads the same kinds, so the cache is kept.
        run.policy.write_text(
            json.dumps(always_moving_policy(soak_cluster, maxNoOfPodsToEvictTotal=0))
        )
        run.wait_for_more("policy loaded")
        soak_cluster.wait_until_stable()
        known = _wait_until_cache_agrees(run, api)
        samples += _samples(run, time.monotonic())
        assert run.stop() == 0, run.log_text
    assert_audit_agrees(api, account, run)
    assert not run.lines_of("cycle failed")
    assert not run.lines_of("cycle skipped")
    return SoakResult(
        seconds=seconds_taken,
        cycles=len(run.lines_of("cycle done")),
        evictions=len(run.evicted),
        ups=churn.ups,
        downs=churn.downs,
        deletions=churn.deletions,
        made=after["made"] - before["made"],
        events=after["events"] - before["events"],
        known=known,
        samples=samples,
    )


def always_moving_policy(soak_cluster: SoakCluster, **top: int) -> Policy:
    """A policy that always finds pods to move, a few in each cycle."""
    in_namespace = {"namespaces": {"include": [soak_cluster.name]}}
    low_thresholds = {"cpu": 20, "memory": 20, "pods": 20}
    args: dict[str, Object] = {
        "PodLifeTime": {"maxPodLifeTimeSeconds": 10, **in_namespace},
        "RemovePodsViolatingTopologySpreadConstraint": {
            "constraints": ["DoNotSchedule", "ScheduleAnyway"],
            **in_namespace,
        },
        "RemoveDuplicates": in_namespace,
        "LowNodeUtilization": {
            "thresholds": low_thresholds,
            "targetThresholds": {key: most + 10 for key, most in low_thresholds.items()},
        },
        "DefaultEvictor": {"nodeFit": True},
    }
    first, *balancing, _ = args
    return {
        "apiVersion": "descheduler/v1alpha2",
        "kind": "DeschedulerPolicy",
        "nodeSelector": f"workspace={soak_cluster.name}",
        "maxNoOfPodsToEvictTotal": 8,
        **top,
        "profiles": [
            {
                "name": "soak",
                "pluginConfig": [
                    {"name": name, "args": plugin_args} for name, plugin_args in args.items()
                ],
                "plugins": {
                    "deschedule": {"enabled": [first]},
                    "balance": {"enabled": balancing},
                },
            }
        ],
    }


# -- the cache of the run -------------------------------------------------------------------------


def _wait_until_cache_agrees(run: Run, api: Api) -> dict[str, int]:
    """Waits until the cache equals a fresh list; returns the number of objects of each kind."""
    differs = "no cache state was logged"
    for _ in poll(TIMEOUT_SECONDS, 0.5):
        state = run.cache_state()
        fresh = {kind: digest(kind, api.items(KINDS[kind].path)) for kind in state}
        cached = {kind: line["digest"] for kind, line in state.items()}
        if cached == fresh:
            return {kind: line["objects"] for kind, line in state.items()}
        differs = ", ".join(kind for kind in cached if cached[kind] != fresh[kind])
    raise AssertionError(f"the cache differs from a fresh list: {differs}\n{run.log_text}")


def digest(kind: str, items: list[Object]) -> str:
    """The digest of a fresh list, calculated as the documentation says."""
    lines = sorted(f"{_line(kind, item)}\n".encode() for item in items)
    return sha256(b"".join(lines)).hexdigest()


def _line(kind: str, item: Object) -> str:
    meta = item["metadata"]
    line = f"{meta.get('namespace', '')}/{meta['name']} {meta['resourceVersion']}"
    if kind == "Pod":
        line += f" {meta['uid']} {item['spec'].get('nodeName', '')} {item['status']['phase']}"
    return line


# -- memory and counters ---------------------------------------------------------------------------


def _samples(run: Run, until: float) -> Iterator[Sample]:
    """The memory after each cycle, until the time is up."""
    seen, more = 0, True
    while more:
        more = time.monotonic() < until
        time.sleep(0.05)
        cycles = len(run.lines_of("cycle done"))
        if cycles > seen or not more:
            assert not run.has_ended, run.log_text
            seen = cycles
            yield Sample(cycles, rss_kb(run.pid))


def rss_kb(pid: int) -> int:
    """The resident memory of a process."""
    with open(f"/proc/{pid}/status") as file:
        match = _RSS.search(file.read())
    assert match is not None
    return int(match[1])


def _pod_counters(api: Api) -> Counter[str]:
    """The counters of pods of the API server since it started."""
    counters: Counter[str] = Counter()
    for line in str(api.get("/metrics").body).splitlines():
        for what, parts in _COUNTERS.items():
            if all(part in line for part in parts):
                counters[what] += int(float(line.rsplit(" ", 1)[1]))
    return counters
