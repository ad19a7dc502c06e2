"""The loop of a component, with a component that only counts its passes."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping, Sequence
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from resettle.errors import ClusterError, ResettleError
from resettle.framework import default_registry
from resettle.kube.auth.access import Access
from resettle.log import Log
from resettle.rbac.permissions import ApiPermission
from resettle.runtime import Component, ComponentRunner, ComponentSettings
from resettle.runtime.policy_file import LoadedPolicy
from resettle.runtime.runner import Runtime, Session, policy_file_of
from resettle.runtime.status import ComponentStatus
from resettle.testing import ManualClock
from tests.runtime.harness import policy

ACCESS = Access(server="http://127.0.0.1:9")
INTERVAL = 60.0
DONE, FAILED, RAISED, STALE = "done", "failed", "raised", "stale"


class Counting:
    """A component without policy, cache and permissions; `plan` says how each pass ends."""

    def __init__(self, *plan: str, retry_seconds: float | None = None) -> None:
        self.retry_seconds = retry_seconds
        self.plan = list(plan)
        self.seen: list[str] = []
        self.sessions = 0
        self.refused_sessions: set[int] = set()
        self.watched: Callable[[LoadedPolicy | None], frozenset[str]] = lambda policy: frozenset()
        self.policies: list[LoadedPolicy | None] = []
        self.runtime: Runtime

    def kinds(self, policy: LoadedPolicy | None) -> frozenset[str]:
        return self.watched(policy)

    def permissions(self, policy: LoadedPolicy | None) -> Sequence[ApiPermission]:
        return ()

    def log_start(self, access: Access, policy: LoadedPolicy | None) -> None:
        self.seen.append("start")

    @asynccontextmanager
    async def open_session(
        self, policy: LoadedPolicy | None, runtime: Runtime
    ) -> AsyncIterator[Session | None]:
        self.runtime = runtime
        self.sessions += 1
        if self.sessions in self.refused_sessions:
            raise ClusterError("no list")
        self.policies.append(policy)
        yield self

    def pass_skipped(self, reason: str, seconds: float) -> None:
        self.seen.append(f"skipped: {reason}")

    def pass_failed(self, error: ResettleError, seconds: float) -> None:
        self.seen.append(f"failed: {error}")

    def session_failed(self, error: ClusterError, seconds: float) -> None:
        self.seen.append(f"no session: {error}")

    def add_details(self, status: ComponentStatus) -> ComponentStatus:
        return status

    async def run_pass(self) -> bool:
        ending = self.plan.pop(0) if self.plan else DONE
        if ending == RAISED:
            raise ResettleError("broken")
        self.seen.append("pass")
        return ending == DONE

    async def use_policy(self, policy: LoadedPolicy | None) -> None:
        self.policies.append(policy)

    def why_stale(self) -> str:
        if self.plan[:1] == [STALE]:
            return self.plan.pop(0)
        return ""

    def ages(self) -> Mapping[str, float]:
        return {}

    def log_state(self) -> None:
        self.seen.append("state")


class OnlyServing(Counting):
    """A component whose single pass lasts until a stop is requested, such as a webhook."""

    async def run_pass(self) -> bool:
        self.seen.append("serving")
        await self.runtime.stop.finished_before_stop(asyncio.sleep(3600))
        return True


def runner_of(
    component: Component, clock: ManualClock, log: list[str], file: Path | None = None, **more: Any
) -> ComponentRunner:
    settings = ComponentSettings(policy_file=str(file) if file else None, **more)
    policy_file = policy_file_of(settings, default_registry(), clock, Log.to(log))
    return ComponentRunner(component, settings, ACCESS, policy_file, clock, Log.to(log))


def play(scenario: Coroutine[Any, Any, None]) -> None:
    asyncio.run(asyncio.wait_for(scenario, 20))


@pytest.mark.parametrize(
    ("ending", "code", "seen"),
    [
        pytest.param(DONE, 0, "pass", id="it succeeds"),
        pytest.param(FAILED, 1, "pass", id="it fails"),
        pytest.param(RAISED, 1, "failed: broken", id="it raises"),
        pytest.param(STALE, 1, "skipped: stale", id="it is skipped"),
    ],
)
def test_the_exit_code_says_how_the_only_pass_ended(ending: str, code: int, seen: str) -> None:
    async def scenario() -> None:
        component = Counting(ending)

        assert await runner_of(component, ManualClock(), []).run() == code
        assert component.seen == ["start", seen]

    play(scenario())


@pytest.mark.parametrize(
    ("retry_seconds", "waits"),
    [
        pytest.param(None, [60, 60, 60, 60], id="the interval"),
        pytest.param(20.0, [20, 40, 60, 60], id="soon, then less soon, then the interval"),
    ],
)
def test_after_a_failed_pass_the_next_begins_after(
    retry_seconds: float | None, waits: list[float]
) -> None:
    async def scenario() -> None:
        clock = ManualClock()
        component = Counting(FAILED, RAISED, STALE, DONE, retry_seconds=retry_seconds)
        runner = runner_of(component, clock, [], interval=INTERVAL)
        working = asyncio.create_task(runner.run())
        for passes, wait in enumerate(waits, 1):
            await clock.wait_for_sleepers()
            clock.advance(timedelta(seconds=wait - 1))
            await asyncio.sleep(0.01)
            assert len(component.seen) == 1 + passes
            clock.advance(timedelta(seconds=1))
            while len(component.seen) == 1 + passes:
                await asyncio.sleep(0.001)
        runner.stop()

        assert await working == 0

    play(scenario())


def test_a_component_may_only_serve_until_it_is_stopped() -> None:
    async def scenario() -> None:
        component, log = OnlyServing(), list[str]()
        runner = runner_of(component, ManualClock(), log)
        runner.log_state()
        working = asyncio.create_task(runner.run())
        while "serving" not in component.seen:
            await asyncio.sleep(0.001)
        runner.log_state()
        status = runner.status()
        runner.stop()

        assert await working == 0
        assert component.seen == ["start", "serving", "state"]
        assert (status.ages, status.policy_usable, status.stopping) == ({}, True, False)
        assert runner.status().ages is None
        assert log == ["INFO nothing listed yet", "INFO stopping"]

    play(scenario())


def test_a_session_that_cannot_be_opened_ends_a_start_and_is_tried_again_later(
    tmp_path: Path,
) -> None:
    file = tmp_path / "policy.json"

    def write(name: str) -> None:
        document = policy()
        document["profiles"][0]["name"] = name
        file.write_text(str(document).replace("'", '"'))

    async def scenario() -> None:
        clock, log = ManualClock(), list[str]()
        first = Counting()
        first.refused_sessions = {1}
        with pytest.raises(ClusterError):
            await runner_of(first, clock, log, file, interval=INTERVAL).run()

        component = Counting()
        component.watched = lambda policy: frozenset(policy.profiles if policy else ())
        component.refused_sessions = {2}
        runner = runner_of(component, clock, log, file, interval=INTERVAL)
        working = asyncio.create_task(runner.run())
        await clock.wait_for_sleepers()
        write("other")  # needs other kinds, which cannot be listed
        clock.advance(timedelta(seconds=INTERVAL))
        while component.sessions < 2:
            await asyncio.sleep(0.001)
        await clock.wait_for_sleepers()
        write("third")
        clock.advance(timedelta(seconds=INTERVAL))
        while component.sessions < 3:
            await asyncio.sleep(0.001)
        await clock.wait_for_sleepers()
        runner.stop()

        assert await working == 0
        assert component.seen == ["start", "pass", "no session: no list", "pass"]
        assert [loaded.profiles for loaded in component.policies if loaded] == [["main"], ["third"]]

    write("main")
    play(scenario())


def test_a_policy_that_was_read_ahead_is_not_read_again_at_the_start(tmp_path: Path) -> None:
    file = tmp_path / "policy.json"
    file.write_text(str(policy()).replace("'", '"'))

    async def scenario() -> None:
        clock, log = ManualClock(), Log.to([])
        settings = ComponentSettings(policy_file=str(file))
        policy_file = policy_file_of(settings, default_registry(), clock, log)
        assert policy_file is not None
        policy_file.read_ahead()
        file.unlink()
        component = Counting()

        assert (
            await ComponentRunner(component, settings, ACCESS, policy_file, clock, log).run() == 0
        )
        assert [loaded.profiles for loaded in component.policies if loaded] == [["main"]]

    play(scenario())
