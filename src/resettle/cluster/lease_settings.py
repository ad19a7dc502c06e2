"""How a lease is named and timed, as the flags of leader election say."""

from __future__ import annotations

import re
from collections.abc import Iterator

from msgspec import Struct

from resettle.errors import InputError

SPREAD = 1.2
"""Who waits for a lease asks after one to 2.2 retry periods, so that contenders drift apart."""

_NAME = re.compile(r"[a-z0-9]([-a-z0-9.]*[a-z0-9])?")


class LeaseSettings(Struct, frozen=True, kw_only=True):
    """The lease to hold, and the times that go with it."""

    duration_seconds: float = 137
    """How long others wait after the last sign of life before they take over."""
    renew_deadline_seconds: float = 107
    """How long the holder acts after its last renewal."""
    retry_period_seconds: float = 26
    """How often the holder renews, and how soon after a failure anybody tries again."""
    name: str = "descheduler"
    namespace: str = "kube-system"

    def checked(self) -> LeaseSettings:
        """The settings, or an error that lists all that is wrong with them."""
        if problems := list(self._problems()):
            raise InputError("leader election cannot work so: " + "; ".join(problems))
        return self

    def _problems(self) -> Iterator[str]:
        lease, renew = self.duration_seconds, self.renew_deadline_seconds
        retry = self.retry_period_seconds
        times = {"lease-duration": lease, "renew-deadline": renew, "retry-period": retry}
        for flag, seconds in times.items():
            if seconds <= 0:
                yield f"--leader-elect-{flag} is {seconds:g}s; give it a time above zero"
        if lease <= renew:
            yield (
                f"--leader-elect-lease-duration is {lease:g}s; make it longer than "
                f"--leader-elect-renew-deadline, which is {renew:g}s"
            )
        if renew <= retry * SPREAD:
            yield (
                f"--leader-elect-renew-deadline is {renew:g}s; make it longer than {SPREAD} times "
                f"--leader-elect-retry-period, which is {retry:g}s"
            )
        for flag, name, such in (
            ("name", self.name, "descheduler"),
            ("namespace", self.namespace, "kube-system"),
        ):
            if not _NAME.fullmatch(name):
                said = f"`{name}`, which no object can be called" if name else "empty"
                yield f"--leader-elect-resource-{flag} is {said}; give it a name like `{such}`"
