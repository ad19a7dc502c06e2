"""Every error a user can see, each leaf with a different remedy.

    ResettleError
    ├── InputError          correct the file or the flag that the message names
    ├── PolicyError         edit the policy; carries every problem found, each with its place
    ├── PluginError         two packages have one plugin name, or a plugin is invalid
    ├── NotNow              nothing: a stop was requested
    │   └── LeaseLost           nothing either; the new holder of the lease goes on
    ├── NotThisPod          nothing: the pod has changed since the plan was drawn, and stays
    └── ClusterError        the API server refused, or did not answer
        ├── ClusterUnreachable  look at the address and the network, or wait
        │   └── AnswerLost          check whether the request was carried out
        ├── Unauthorized        renew the credentials
        └── Forbidden           grant the verb that the message names

Expected refusals are values (`framework.verdict.Refusal`), never exceptions.
"""

from __future__ import annotations

from typing import Any


class ResettleError(Exception):
    """A problem that a user has to solve; its text says what, where and how."""


class InputError(ResettleError):
    """An input cannot be used: a file, a flag, an object in a dump.

    `what` is wrong, and `fix` says what to do about it, if that is known.
    """

    def __init__(self, what: str, fix: str = "") -> None:
        super().__init__(f"{what}; {fix}" if fix else what)
        self.what = what
        self.fix = fix


class PolicyError(ResettleError):
    """The policy cannot be used; the text lists all its problems with their places.

    `problems` and `warnings` hold them as values (`policy.problems.Located`).
    """

    def __init__(
        self,
        text: str,
        *,
        problems: tuple[Any, ...] = (),
        warnings: tuple[Any, ...] = (),
    ) -> None:
        super().__init__(text)
        self.problems = problems
        self.warnings = warnings


class PluginError(ResettleError):
    """The installed plugins cannot be used together."""


class NotNow(ResettleError):
    """No further request may be sent; the text says why."""


class LeaseLost(NotNow):
    """We are no longer the leader: another may act now, so nothing more may be written."""


class NotThisPod(ResettleError):
    """The request was not sent: the pod has left, has changed, or may not leave any more.

    `has_left` means that there is nothing to move any more.
    """

    def __init__(self, text: str, *, has_left: bool = False) -> None:
        super().__init__(text)
        self.has_left = has_left


class ClusterError(ResettleError):
    """The API server gave no usable answer."""


class ClusterUnreachable(ClusterError):
    """No answer from the address, or not in time.

    `connection_refused` means that nothing listens there now, as while a server restarts.
    """

    def __init__(self, text: str, *, connection_refused: bool = False) -> None:
        super().__init__(text)
        self.connection_refused = connection_refused


class AnswerLost(ClusterUnreachable):
    """The request was sent and no answer came: it may have been carried out."""


class Unauthorized(ClusterError):
    """The API server does not accept the credentials."""


class Forbidden(ClusterError):
    """The account lacks a permission; the text names the verb and the resource."""
