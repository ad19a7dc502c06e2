"""A run inside the process of the test, with a clock that the test steps."""

from __future__ import annotations

import asyncio
import json
import threading
import time
from datetime import UTC, datetime, timedelta
from types import TracebackType
from typing import Any

from resettle.framework.registry import default_registry
from resettle.kube.auth.kubeconfig import find_access
from resettle.log import Log
from resettle.runtime import ComponentRunner, RunSettings, descheduling_runner
from tests.e2e.processes.log_reader import LogReader
from tests.e2e.processes.run import Account, Policy

_TICK_SECONDS = 0.05


class SteppedClock:
    """The clock of the machine with an offset; `sleep` follows the steady clock and its offset."""

    def __init__(self) -> None:
        self.wall_ahead = timedelta(0)
        self.steady_ahead = 0.0

    def now(self) -> datetime:
        """The wall clock, as stepped."""
        return datetime.now(UTC) + self.wall_ahead

    def steady(self) -> float:
        """The steady clock, as stepped."""
        return time.monotonic() + self.steady_ahead

    async def sleep(self, seconds: float) -> None:
        """Returns once the steady clock shows so many more seconds."""
        until = self.steady() + seconds
        while (remaining := until - self.steady()) > 0:
            await asyncio.sleep(min(remaining, _TICK_SECONDS))


class InProcessRun(LogReader):
    """`resettle run` in a thread of the test."""

    def __init__(self, account: Account, policy: Policy, **settings: Any) -> None:
        super().__init__()
        file = account.kubeconfig.with_suffix(".policy.json")
        file.write_text(json.dumps(policy))
        self.clock = SteppedClock()
        self.code: int | None = None
        self._settings = RunSettings(policy_file=str(file), identity=account.name, **settings)
        self._access = find_access(str(account.kubeconfig))
        self._loop = asyncio.new_event_loop()
        self._runner: ComponentRunner | None = None
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> InProcessRun:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()

    @property
    def has_ended(self) -> bool:
        """Whether the run has ended."""
        return not self._thread.is_alive()

    def stop(self) -> int | None:
        """Stops the run; returns its exit code."""
        if not self.has_ended and self._runner is not None:
            self._loop.call_soon_threadsafe(self._runner.stop)
        self._thread.join(60)
        assert self.has_ended, self.log_text
        return self.code

    def _run(self) -> None:
        with asyncio.Runner(loop_factory=lambda: self._loop) as loop:
            self.code = loop.run(self._main())

    async def _main(self) -> int:
        registry, log = default_registry(), Log(self._note)
        self._runner = descheduling_runner(self._settings, self._access, registry, self.clock, log)
        return await self._runner.run()

    def _note(self, level: str, event: str, facts: Any) -> None:
        known_facts = {key: fact for key, fact in facts.items() if fact is not None}
        self.lines.append({"level": level, "msg": event, **known_facts})
