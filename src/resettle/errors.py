"""Every error a person can meet, each leaf a different thing to do about it.

    ResettleError
    ├── InputError          mend the file or the flag that the message names
    ├── PolicyError         edit the policy; carries every problem found, each with its place
    ├── PluginError         two packages claim one name, or a plugin is not what it says
    ├── NotNow              nothing: we are asked to stop
    │   └── LeaseLost           nothing either; whoever holds the lease now goes on
    └── ClusterError        the cluster said no, or nothing at all
        ├── ClusterUnreachable  look at the address and the network, or wait
        │   └── AnswerLost          look whether what was asked for was done
        ├── Unauthorized        renew the credentials
        └── Forbidden           grant the verb that the message names

Expected refusals are values (`framework.verdict.Refusal`), never exceptions.
"""

from __future__ import annotations

from typing import Any


class ResettleError(Exception):
    """Something a person has to act upon; its text says what, where and how."""


class InputError(ResettleError):
    """What was given cannot be read: a file, a flag, an object in a dump.

    `what` is wrong, and `fix` says what to do about it, if that is known.
    """

    def __init__(self, what: str, fix: str = "") -> None:
        super().__init__(f"{what}; {fix}" if fix else what)
        self.what = what
        self.fix = fix


class PolicyError(ResettleError):
    """The policy cannot be used; the text lists all its problems with their places.

    `problems` and `warnings` hold the same as values (`policy.problem.Located`).
    """

    def __init__(
        self, text: str, *, problems: tuple[Any, ...] = (), warnings: tuple[Any, ...] = ()
    ) -> None:
        super().__init__(text)
        self.problems = problems
        self.warnings = warnings


class PluginError(ResettleError):
    """The set of plugins does not hold together."""


class NotNow(ResettleError):
    """Acting has to end before the next request; the text says why."""


class LeaseLost(NotNow):
    """We lead no longer: another may be acting by now, so nothing more may be written."""


class ClusterError(ResettleError):
    """The API server gave no answer that can be used."""


class ClusterUnreachable(ClusterError):
    """Nobody answers at the address, or not in time.

    `nobody_there` tells that nobody listens there now, as while a server restarts.
    """

    def __init__(self, text: str, *, nobody_there: bool = False) -> None:
        super().__init__(text)
        self.nobody_there = nobody_there


class AnswerLost(ClusterUnreachable):
    """The request was sent and its answer never came: it may have been carried out."""


class Unauthorized(ClusterError):
    """The API server does not know who is asking."""


class Forbidden(ClusterError):
    """Whoever is asking may not do so; the text names the verb and the resource."""
