"""The policy of a run: a file that may change while it runs, for better or worse."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from datetime import datetime

from msgspec import Struct

from resettle.clock import SYSTEM, Clock
from resettle.errors import PolicyError, ResettleError
from resettle.framework.descheduler import Descheduler, assembled
from resettle.framework.plugin import Plugin
from resettle.log import Log
from resettle.policy.document import Policy
from resettle.policy.load import load_policy
from resettle.texts import read_text


class Loaded(Struct, frozen=True):
    """A policy, and the descheduler it makes."""

    text: str
    policy: Policy
    descheduler: Descheduler

    @property
    def kinds(self) -> frozenset[str]:
        """All that has to be watched for it."""
        return frozenset({"Node", "Pod"}) | self.descheduler.reads

    @property
    def profiles(self) -> list[str]:
        """The names of its profiles."""
        return [profile.name for profile in self.descheduler.profiles]


Allowed = Callable[[Loaded], Awaitable[None]]
"""Raises if we may not do what a policy takes."""


class PolicyFile:
    """Reads the policy, again and again."""

    def __init__(
        self,
        file: str,
        plugins: Mapping[str, Plugin],
        log: Log,
        clock: Clock = SYSTEM,
        *,
        forgiving: bool = False,
    ) -> None:
        self._file = file
        self._forgiving = forgiving
        self._plugins = plugins
        self._log = log
        self._clock = clock
        self.taken_at: datetime | None = None
        """When the policy that is in force was taken."""
        self.usable = False
        """Whether the file held a policy that can be used when it was last read."""

    def read(self) -> Loaded:
        """The policy as the file has it now; raises if it cannot be used."""
        return self._made_of(read_text(self._file))

    async def first(self, allowed: Allowed) -> Loaded:
        """The policy to begin with; raises if it cannot be used."""
        loaded = self.read()
        await allowed(loaded)
        self._taken(loaded)
        return loaded

    async def renewed(self, loaded: Loaded, allowed: Allowed) -> Loaded:
        """The policy as the file has it now; one that cannot be used changes nothing."""
        try:
            text = read_text(self._file)
            later = loaded if text == loaded.text else self._made_of(text)
            if later is not loaded:
                await allowed(later)
        except ResettleError as error:
            self.usable = False
            self._log.only_when_new("policy").error(
                "policy not taken; the last good one stays in force",
                file=self._file,
                reason=_in_a_line(error),
            )
            return loaded
        self.usable = True
        self._log.forget("policy")
        if later is not loaded:
            self._log.info("policy taken", file=self._file, profiles=later.profiles)
            self._taken(later)
        return later

    def _made_of(self, text: str) -> Loaded:
        policy = load_policy(
            text, name=self._file, plugins=self._plugins, forgiving=self._forgiving
        )
        return Loaded(text, policy, assembled(policy, self._plugins))

    def _taken(self, loaded: Loaded) -> None:
        self.taken_at, self.usable = self._clock.now(), True
        for warning in loaded.policy.warnings:
            self._log.warning("policy warning", says=warning.in_a_line)
        for caution in loaded.descheduler.cautions:
            self._log.warning("policy warning", says=caution)


def _in_a_line(error: ResettleError) -> str:
    """The error in one line, however many problems it tells of."""
    if not isinstance(error, PolicyError):
        return str(error)
    head, _, _ = str(error).partition("\n")
    return f"{head}: " + " / ".join(problem.in_a_line for problem in error.problems)
