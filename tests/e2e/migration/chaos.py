"""Many jobs of several kinds while their leader is killed at random moments, until all have ended.

    python -m tests.e2e.migration.chaos --jobs 100 --seed 1

Uses the control plane that RESETTLE_E2E_FOLDER names, or starts one. Two controllers run with
leader election; whichever leads is killed (SIGKILL) after a random time, or as soon as a job is in
a state in which none was killed yet, and another one started.
Exit status: 0 if a leader was killed in every state, every job has ended, nothing of them is left,
no pod was evicted twice, and the audit log equals what the jobs record; 1 if not.
"""

from __future__ import annotations

import argparse
import copy
import os
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

from resettle.model.migration_job import JOBS_PATH
from tests.e2e.cluster.workloads import cordon_all_but, create_deployment, pods_of
from tests.e2e.cluster.workspace import Workspace, poll
from tests.e2e.migration.account import ControllerAccount
from tests.e2e.migration.harness import (
    TERMINAL,
    conditions_of,
    create_job,
    job_policy,
    leftovers,
    read_job,
    start_controller,
)
from tests.e2e.migration.jobs import assert_audit_equals_record, audited
from tests.e2e.migration.watching import Objects, ObjectWatch
from tests.e2e.processes.run import Policy, Run
from tools.control_plane.api import Api, Object
from tools.control_plane.build import built
from tools.control_plane.papers import QUIET
from tools.control_plane.plane import Access, ControlPlane

STEERINGS = ("None", "Soft", "Hard", "Gate")
KINDS: dict[str, dict[str, Any]] = {
    **{each.lower(): {"reservationOptions": {"steering": each}} for each in STEERINGS},
    "yield": {"reservationOptions": {"steering": "Hard", "placeholderPriority": "Yield"}},
    "direct": {"mode": "EvictDirectly"},
    "nowhere": {"reservationOptions": {"steering": "Hard", "reserveTimeout": "3s"}},
}
"""The spec of jobs for the pods of each Deployment; the last get a node that takes no pods."""
STATES = (
    "waiting",
    "accepted",
    "placeholder created",
    "place held",
    "steered",
    "about to be evicted",
    "evicted",
    "replaced",
    "replacement has a node",
    "ending",
)
"""The states of a job that has not ended, in their order."""
LINGERS = {"example.com/lingers": "yes"}
STARTS_SLOWLY = {"example.com/starts-in": "700ms"}
"""Pods take their time, so that jobs are in each state for a while."""
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
    kills_by_state: Counter[str]
    """Kills that left a job in this state."""
    lost: int
    """Processes that ended by themselves because they could not renew their lease."""
    ends: Counter[str]
    """Jobs by phase and reason."""
    by_kind: dict[str, Counter[str]]
    """Where the replacements went, by kind of job; else how the jobs ended."""
    granted: int
    """Evictions that the API server granted."""
    unanswered: int
    """Evictions whose requests were cut off by a kill, and that jobs record nevertheless."""
    recorded: int
    """Evictions that jobs record."""

    @property
    def missed_states(self) -> list[str]:
        """The states in which no leader was killed."""
        return [state for state in STATES if not self.kills_by_state[state]]


class ChaosCluster(Workspace):
    """A workspace with more nodes, one of which takes no pods, and a Deployment for each kind."""

    def __init__(self, api: Api) -> None:
        super().__init__(api)
        self.nodes = [f"{self.name}-n{i}" for i in range(NODES + 1)]

    def __enter__(self) -> ChaosCluster:
        super().__enter__()
        cordon_all_but(self, *self.nodes[:-1])
        return self

    def create_jobs(self, count: int) -> dict[str, str]:
        """Creates so many pods and a job for each; returns the kind of each job by its name."""
        sizes = Counter(list(KINDS)[i % len(KINDS)] for i in range(count))
        for kind, size in sizes.items():
            create_deployment(self, kind, size, labels=LINGERS, annotations=STARTS_SLOWLY)
        pods = self.list_ready_pods()
        kinds = copy.deepcopy(KINDS)
        kinds["nowhere"]["reservationOptions"]["nodeName"] = self.nodes[-1]
        return {
            create_job(self.api, pod, **spec): kind
            for kind, spec in kinds.items()
            for pod in pods_of(pods, kind)
        }


def state_of(job: Object) -> str:
    """How far a job is: one of `STATES`, or its phase if it has ended."""
    status = job.get("status") or {}
    if status.get("phase") in TERMINAL:
        return str(status["phase"])
    conditions = {kind: entry[0] for kind, entry in conditions_of(status).items()}
    reached = {
        "waiting": True,
        "accepted": conditions.get("Arbitrated") == "True",
        "placeholder created": conditions.get("ReservationCreated") == "True",
        "place held": conditions.get("ReservationScheduled") == "True",
        "steered": conditions.get("Steered") == "True",
        "about to be evicted": conditions.get("Eviction") == "Unknown",
        "evicted": "evictionRequestedAt" in status,
        "replaced": "podRef" in status,
        "replacement has a node": conditions.get("ReservationBound") == "True",
        "ending": "ending" in status,
    }
    return next(state for state in reversed(STATES) if reached[state])


class JobStates(ObjectWatch):
    """How far the jobs are, as of the last change of one of them."""

    def __init__(self, api: Api) -> None:
        super().__init__(api, JOBS_PATH)
        self.changes = 0
        self.now: Counter[str] = Counter()
        """Jobs by state."""

    def _note_change(self, objects: Objects) -> None:
        self.now = Counter(map(state_of, objects.values()))
        self.changes += 1

    @property
    def all_ended(self) -> bool:
        """Whether no job is in any of the states before its end."""
        return not self.now.keys() & set(STATES)


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
    with ExitStack() as stack:
        account = stack.enter_context(ControllerAccount(plane, api, folder))
        cluster = stack.enter_context(ChaosCluster(api))
        record = audited(account)
        kinds = cluster.create_jobs(jobs)
        states = stack.enter_context(JobStates(api))
        leaders = Leaders(account, folder, stack)
        began = time.monotonic()
        kills_by_state = _kill_until_all_end(api, states, leaders, Random(seed))
        seconds = time.monotonic() - began
        try:
            _wait_until_clean(api, account, leaders)
            recorded = assert_audit_equals_record(record, api, kinds)
            ended = [read_job(api, name) for name in kinds]
        except AssertionError as error:
            raise AssertionError(f"{error}\n{leaders.log_text}") from None
    return ChaosResult(
        seconds=seconds,
        kills=leaders.kills,
        kills_by_state=kills_by_state,
        lost=leaders.lost,
        ends=Counter(f"{job['status']['phase']}/{job['status'].get('reason')}" for job in ended),
        by_kind=_by_kind(ended, kinds),
        granted=len(record.evictions()),
        unanswered=len(recorded.keys() - {eviction.uid for eviction in record.evictions()}),
        recorded=len(recorded),
    )


def _kill_until_all_end(
    api: Api, states: JobStates, leaders: Leaders, chance: Random
) -> Counter[str]:
    """Kills leaders until all jobs have ended; returns the kills that left a job in each state.

    A leader that has not changed any job is not killed: jobs get on however slow the machine is.
    """
    kills: Counter[str] = Counter()
    due: dict[int, tuple[float, int]] = {}
    for _ in poll(LONGEST_SECONDS, 0.02):
        leaders.replace_ended()
        if states.all_ended:
            return kills
        leader = leaders.find()
        if leader is None:
            continue
        if leader.pid not in due:
            life = chance.uniform(SHORTEST_LIFE, LONGEST_LIFE)
            due[leader.pid] = (time.monotonic() + life, states.changes)
        at, changes = due[leader.pid]
        is_new = any(not kills[state] for state in states.now.keys() & set(STATES))
        if states.changes > changes and (is_new or time.monotonic() >= at):
            leaders.kill(leader)
            left = {state_of(job) for job in api.items(JOBS_PATH)}
            kills.update(left & set(STATES))
    raise AssertionError(f"not all jobs have ended: {states.now}\n{leaders.log_text}")


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
        bound = conditions.get("ReservationBound", {}).get("reason", job["status"]["reason"])
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
    if result.missed_states:
        print(f"error: no leader was killed in {result.missed_states}", file=sys.stderr)
        return 1
    return 0


def summary(result: ChaosResult) -> str:
    """The result as text."""
    return "\n".join(
        [
            f"{sum(result.ends.values())} jobs in {result.seconds:.0f} s:"
            f" {result.kills} leaders killed, {result.lost} lost their lease",
            f"ends: {_counts(result.ends)}",
            "kills while a job was "
            + _counts({state: result.kills_by_state[state] for state in STATES}),
            f"evictions: {result.granted} granted in the audit log, {result.unanswered} cut off by"
            f" a kill, {result.recorded} recorded by jobs, none twice",
            "left: no placeholder, taint, gate or PriorityClass",
            *(f"{kind}: {_counts(places)}" for kind, places in result.by_kind.items()),
        ]
    )


def _counts(figures: Mapping[str, int]) -> str:
    return ", ".join(f"{name}: {count}" for name, count in figures.items())


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
