"""Many jobs of several kinds while their leader is killed at random moments, until all have ended.

    python -m tests.e2e.migration.chaos --jobs 100 --seed 1

Uses the control plane that RESETTLE_E2E_FOLDER names, or starts one. Two controllers run with
leader election; whichever leads is killed (SIGKILL) after a random time, and another one started.
Exit status: 0 if every job has ended, nothing of them is left, no pod was evicted twice, and the
audit log equals what the jobs record; 1 if not.
"""

from __future__ import annotations

import argparse
import os
import signal
import sys
import tempfile
import time
from collections import Counter
from contextlib import ExitStack
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

from tests.e2e.cluster.workloads import create_deployment, pods_of
from tests.e2e.cluster.workspace import Workspace, poll
from tests.e2e.migration.account import ControllerAccount
from tests.e2e.migration.harness import (
    TERMINAL,
    create_job,
    job_policy,
    leftovers,
    read_job,
    start_controller,
)
from tests.e2e.migration.jobs import assert_audit_equals_record, audited
from tests.e2e.processes.run import Policy, Run
from tools.control_plane.api import Api, Object
from tools.control_plane.build import built
from tools.control_plane.papers import QUIET
from tools.control_plane.plane import Access, ControlPlane

KINDS: dict[str, dict[str, Any]] = {
    "none": {"reservationOptions": {"steering": "None"}},
    "soft": {"reservationOptions": {"steering": "Soft"}},
    "hard": {"reservationOptions": {"steering": "Hard"}},
    "gate": {"reservationOptions": {"steering": "Gate"}},
    "yield": {"reservationOptions": {"steering": "Hard", "placeholderPriority": "Yield"}},
    "direct": {"mode": "EvictDirectly"},
}
"""The spec of jobs for the pods of each Deployment."""
NODES = 12
PROCESSES = 2
LEASE = ("5s", "4s", "1s")
"""Duration, renew deadline and retry period of the lease."""
SHORTEST_LIFE, LONGEST_LIFE = 0.3, 8.0
"""Seconds from becoming the leader to being killed."""
LONGEST_SECONDS = 1800
CLEAN_SECONDS = 120


class ChaosResult(NamedTuple):
    """The result of a run."""

    seconds: float
    kills: int
    lost: int
    """Processes that ended by themselves because they could not renew their lease."""
    ends: Counter[str]
    """Jobs by phase and reason."""
    by_kind: dict[str, Counter[str]]
    """Where the replacements went, by kind of job."""
    evictions: int


class ChaosCluster(Workspace):
    """A workspace with more nodes, and a Deployment for each kind of job."""

    def __init__(self, api: Api) -> None:
        super().__init__(api)
        self.nodes = [f"{self.name}-n{i}" for i in range(NODES)]

    def __enter__(self) -> ChaosCluster:
        super().__enter__()
        return self

    def create_jobs(self, count: int) -> dict[str, str]:
        """Creates so many pods and a job for each; returns the kind of each job by its name."""
        sizes = {kind: count // len(KINDS) for kind in KINDS}
        for kind in list(KINDS)[: count % len(KINDS)]:
            sizes[kind] += 1
        for kind, size in sizes.items():
            create_deployment(self, kind, size, labels={"example.com/lingers": "yes"})
        pods = self.list_ready_pods()
        return {
            create_job(self.api, pod, **spec): kind
            for kind, spec in KINDS.items()
            for pod in pods_of(pods, kind)
        }


class Leaders:
    """Controllers that take turns: the one that leads is killed, and another one started."""

    def __init__(self, account: ControllerAccount, folder: Path, stack: ExitStack) -> None:
        self._account, self._folder, self._stack = account, folder, stack
        self._policy = chaos_policy(account)
        self.kills = self.lost = 0
        self._alive: list[Run] = []
        self.all: list[Run] = []
        for _ in range(PROCESSES):
            self._start()

    def _start(self) -> None:
        duration, deadline, retry = LEASE
        words = (
            *("--leader-elect", "--leader-elect-lease-duration", duration),
            *("--leader-elect-renew-deadline", deadline),
            *("--leader-elect-retry-period", retry),
            *("--leader-elect-resource-name", self._account.name),
            *("--leader-elect-resource-namespace", self._account.namespace),
        )
        run = start_controller(self._account, self._folder, self._policy, *words)
        self._alive.append(self._stack.enter_context(run))
        self.all.append(run)

    def replace_ended(self) -> None:
        """Starts another process for each that has ended by itself."""
        for run in [run for run in self._alive if run.has_ended]:
            self._alive.remove(run)
            self.lost += 1
            self._start()

    def find(self) -> Run | None:
        """The process that leads, as far as its log says."""
        leading = (
            run for run in self._alive if run.lines_of("lease acquired") and not run.has_ended
        )
        return next(leading, None)

    def kill(self, leader: Run) -> None:
        """Kills the leader in the middle of whatever it does, and starts another process."""
        leader.signal(signal.SIGKILL)
        leader.wait_for_exit()
        self._alive.remove(leader)
        self.kills += 1
        self._start()

    @property
    def log_text(self) -> str:
        """The logs of all processes, in the order of their starts."""
        return "\n---\n".join(run.log_text for run in self.all)


def chaos_policy(account: ControllerAccount) -> Policy:
    """A policy with limits that keep some jobs waiting for most of the time."""
    skipped = ["MaxMigratingPerWorkload", "MaxUnavailablePerWorkload", "ExpectedReplicas"]
    limits = {"maxMigratingGlobally": 20, "maxMigratingPerNode": 4, "skipEvictionGates": skipped}
    return job_policy(
        account,
        plugins={"filter": {"enabled": ["MigrationLimits"]}},
        config={"MigrationLimits": limits},
        defaultJobTTL="30m",
        reserveTimeout="5m",
    )


def run_chaos(plane: Access, api: Api, folder: Path, *, jobs: int, seed: int) -> ChaosResult:
    """Carries out so many jobs while leaders are killed; asserts that nothing was lost or left."""
    chance = Random(seed)
    with ExitStack() as stack:
        account = stack.enter_context(ControllerAccount(plane, api, folder))
        cluster = stack.enter_context(ChaosCluster(api))
        record = audited(account)
        kinds = cluster.create_jobs(jobs)
        leaders = Leaders(account, folder, stack)
        began = time.monotonic()
        _kill_until_all_end(api, kinds, leaders, chance)
        seconds = time.monotonic() - began
        try:
            _wait_until_clean(api, account, leaders)
            evictions = assert_audit_equals_record(record, api, kinds)
            ended = [read_job(api, name) for name in kinds]
        except AssertionError as error:
            raise AssertionError(f"{error}\n{leaders.log_text}") from None
    return ChaosResult(
        seconds=seconds,
        kills=leaders.kills,
        lost=leaders.lost,
        ends=Counter(f"{job['status']['phase']}/{job['status'].get('reason')}" for job in ended),
        by_kind=_by_kind(ended, kinds),
        evictions=len(evictions),
    )


def _kill_until_all_end(api: Api, names: dict[str, str], leaders: Leaders, chance: Random) -> None:
    kill_at: dict[int, float] = {}
    waiting = set(names)
    for _ in poll(LONGEST_SECONDS, 0.1):
        leaders.replace_ended()
        leader = leaders.find()
        if leader is not None:
            life = chance.uniform(SHORTEST_LIFE, LONGEST_LIFE) if leader.pid not in kill_at else 0
            due = kill_at.setdefault(leader.pid, time.monotonic() + life)
            if time.monotonic() >= due:
                leaders.kill(leader)
        waiting -= {name for name in waiting if _has_ended(api, name)}
        if not waiting:
            return
    raise AssertionError(f"{len(waiting)} jobs have not ended: {waiting}\n{leaders.log_text}")


def _has_ended(api: Api, name: str) -> bool:
    return (read_job(api, name).get("status") or {}).get("phase") in TERMINAL


def _wait_until_clean(api: Api, account: ControllerAccount, leaders: Leaders) -> None:
    left: list[str] = []
    for _ in poll(CLEAN_SECONDS, 0.5):
        leaders.replace_ended()
        left = leftovers(api, account)
        if not left:
            return
    raise AssertionError(f"left behind: {left}")


def _by_kind(jobs: list[Object], kinds: dict[str, str]) -> dict[str, Counter[str]]:
    """Where the replacements went, by kind of job."""
    places: dict[str, Counter[str]] = {kind: Counter() for kind in KINDS}
    for job in jobs:
        conditions = {entry["type"]: entry for entry in job["status"].get("conditions") or ()}
        bound = conditions.get("ReservationBound", {}).get("reason", job["status"]["phase"])
        places[kinds[job["metadata"]["name"]]][bound] += 1
    return places


# -- the command -----------------------------------------------------------------------------------


def main(words: list[str]) -> int:
    """Runs the jobs; returns the exit status."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.e2e.migration.chaos", description=__doc__
    )
    parser.add_argument("--jobs", type=int, default=100)
    parser.add_argument("--seed", type=int, default=1)
    chosen = parser.parse_args(words)
    with ExitStack() as stack:
        folder = os.environ.get("RESETTLE_E2E_FOLDER")
        plane = Access(Path(folder)) if folder else stack.enter_context(ControlPlane(built()))
        api = stack.enter_context(plane.api(QUIET))
        own = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        print(f"{chosen.jobs} jobs, seed {chosen.seed}", file=sys.stderr, flush=True)
        try:
            result = run_chaos(plane, api, own, jobs=chosen.jobs, seed=chosen.seed)
        except AssertionError as error:
            print(f"error: {error}", file=sys.stderr)
            return 1
    print(summary(result))
    return 0


def summary(result: ChaosResult) -> str:
    """The result as text."""
    ends = ", ".join(f"{count} {end}" for end, count in sorted(result.ends.items()))
    return "\n".join(
        [
            f"{sum(result.ends.values())} jobs in {result.seconds:.0f} s:"
            f" {result.kills} leaders killed, {result.lost} lost their lease",
            f"ends: {ends}",
            f"{result.evictions} evictions, none twice; the audit log equals the record;"
            " nothing is left",
            *(
                f"{kind}: " + ", ".join(f"{count} {place}" for place, count in places.items())
                for kind, places in result.by_kind.items()
            ),
        ]
    )


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
