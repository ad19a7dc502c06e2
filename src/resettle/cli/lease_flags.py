"""The flags of leader election, and the lease they make."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from resettle.cli.flags import add_switch, seconds
from resettle.errors import InputError

if TYPE_CHECKING:
    from resettle.cluster.lease_settings import LeaseSettings

DESCHEDULER, SOFT_TAINTER = "descheduler", "resettle-soft-tainter"
"""What the lease of each is called unless told otherwise."""
_NAMESPACE = "kube-system"
_TIMES = {
    "leader_elect_lease_duration": "duration_seconds",
    "leader_elect_renew_deadline": "renew_deadline_seconds",
    "leader_elect_retry_period": "retry_period_seconds",
}


def add_lease(group: argparse._ActionsContainer, name: str) -> None:
    """Adds all flags of leader election by a lease of this name."""
    add_switch(group, "--leader-elect", "act only while holding a lease")
    for part, default, says in (
        ("lease-duration", "137s", "how long others wait for a leader that has gone silent"),
        ("renew-deadline", "107s", "how long a leader goes on without renewing its lease"),
        ("retry-period", "26s", "time between two tries to get or renew the lease"),
    ):
        group.add_argument(
            f"--leader-elect-{part}", metavar="TIME", default=default, help=f"{says} (%(default)s)"
        )
    group.add_argument(
        "--leader-elect-resource-lock",
        choices=("leases",),
        default="leases",
        help="leases are the only lock there is",
    )
    add_lease_name(group, name)


def add_lease_name(group: argparse._ActionsContainer, name: str | None) -> None:
    """Adds the flags that name the lease; None where its name depends on what is run."""
    for part, default in (("name", name), ("namespace", _NAMESPACE)):
        group.add_argument(
            f"--leader-elect-resource-{part}",
            metavar="NAME",
            default=default,
            help=f"{part} of the lease ({default or 'that of the component'})",
        )


def lease_of(arguments: argparse.Namespace, pointless: str) -> LeaseSettings | None:
    """The lease to hold, if one is asked for.

    `pointless` is how to mend a command line by which there is nothing to lead.
    """
    from resettle.cluster.lease_settings import LeaseSettings

    if not arguments.leader_elect:
        return None
    if pointless:
        raise InputError(f"--leader-elect makes no sense for a single cycle; {pointless}")
    return LeaseSettings(
        name=arguments.leader_elect_resource_name,
        namespace=arguments.leader_elect_resource_namespace,
        **{
            field: seconds(f"--{flag.replace('_', '-')}", getattr(arguments, flag))
            for flag, field in _TIMES.items()
        },
    ).checked()
