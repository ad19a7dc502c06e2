"""The policy file of a component: read at the start, and again before each pass.

A file that becomes invalid while the component runs never replaces the last valid policy.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from datetime import datetime

from msgspec import Struct

from resettle.clock import SYSTEM, Clock
from resettle.errors import PolicyError, ResettleError
from resettle.files import read_text
from resettle.framework.descheduler import Descheduler, build_descheduler
from resettle.framework.plugin import Plugin
from resettle.log import Log
from resettle.policy.document import Policy
from resettle.policy.load import load_policy


class LoadedPolicy(Struct, frozen=True):
    """A policy, its text, and the descheduler that is assembled from it."""

    text: str
    policy: Policy
    descheduler: Descheduler

    @property
    def kinds(self) -> frozenset[str]:
        """The kinds that a descheduler watches for this policy."""
        return frozenset({"Node", "Pod"}) | self.descheduler.reads

    @property
    def profiles(self) -> list[str]:
        """The names of its profiles."""
        return [profile.name for profile in self.descheduler.profiles]


CheckPolicy = Callable[[LoadedPolicy], Awaitable[None]]
"""Raises if a component cannot use the policy or lacks a permission that it needs."""


class PolicyFile:
    """Reads one policy file, again and again."""

    def __init__(
        self,
        file: str,
        plugins: Mapping[str, Plugin],
        log: Log,
        clock: Clock = SYSTEM,
        *,
        lenient: bool = False,
    ) -> None:
        self._file = file
        self._lenient = lenient
        self._plugins = plugins
        self._log = log
        self._clock = clock
        self._waiting: LoadedPolicy | None = None
        """A policy that was read ahead and is not in force yet."""
        self.loaded_at: datetime | None = None
        """When the policy that is in force was loaded."""
        self.usable = False
        """Whether the file was valid when it was last read."""

    def read_ahead(self) -> None:
        """Read the policy for the start now; raise if it is invalid.

        So mistakes are reported before a cluster is looked for, and the file is read once.
        """
        self._waiting = self._read()

    async def load(self, check: CheckPolicy) -> LoadedPolicy:
        """The policy to start with; raises if it is invalid or the check fails."""
        loaded, self._waiting = self._waiting or self._read(), None
        await check(loaded)
        self._put_in_force(loaded)
        return loaded

    async def reload(self, current: LoadedPolicy, check: CheckPolicy) -> LoadedPolicy:
        """The policy that the file holds now; the current one if that is invalid."""
        try:
            text = read_text(self._file)
            later = current if text == current.text else self._parse(text)
            if later is not current:
                await check(later)
        except ResettleError as error:
            self.usable = False
            self._log.only_when_new("policy").error(
                "policy not loaded; the last good one stays in force",
                file=self._file,
                reason=_in_a_line(error),
            )
            return current
        self.usable = True
        self._log.forget("policy")
        if later is not current:
            self._log.info("policy loaded", file=self._file, profiles=later.profiles)
            self._put_in_force(later)
        return later

    def _read(self) -> LoadedPolicy:
        return self._parse(read_text(self._file))

    def _parse(self, text: str) -> LoadedPolicy:
        policy = load_policy(text, name=self._file, plugins=self._plugins, lenient=self._lenient)
        return LoadedPolicy(text, policy, build_descheduler(policy, self._plugins))

    def _put_in_force(self, loaded: LoadedPolicy) -> None:
        self.loaded_at, self.usable = self._clock.now(), True
        for warning in loaded.policy.warnings:
            self._log.warning("policy warning", says=warning.one_line)
        for caution in loaded.descheduler.cautions:
            self._log.warning("policy warning", says=caution)


def _in_a_line(error: ResettleError) -> str:
    """The error in one line, with all of its problems."""
    if not isinstance(error, PolicyError):
        return str(error)
    head, _, _ = str(error).partition("\n")
    return f"{head}: " + " / ".join(problem.one_line for problem in error.problems)
