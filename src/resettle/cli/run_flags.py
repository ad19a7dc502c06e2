"""The flags of `resettle run`, and the settings they make."""

from __future__ import annotations

import argparse
import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from resettle.cli import serving_flags, tracing_flags
from resettle.cli.flags import (
    add_context,
    add_kubeconfig,
    add_log,
    add_policy,
    add_policy_problems,
    add_switch,
    seconds,
    truth,
)
from resettle.cli.idle_flags import add_idle_flags
from resettle.cli.lease_flags import DESCHEDULER, add_lease, lease_of
from resettle.cli.record_flags import add_recording
from resettle.errors import InputError
from resettle.texts import STDIN

if TYPE_CHECKING:
    from resettle.loop import RunSettings

_GATE = "EvictionsInBackground"
_GATES = (_GATE, "AllAlpha", "AllBeta")


def add_flags(command: argparse.ArgumentParser) -> None:
    """Adds every flag of `run`."""
    add_policy(command, "the policy; read again whenever it changes", as_peer=True)
    add_policy_problems(command)
    command.add_argument(
        "--descheduling-interval",
        metavar="TIME",
        default="0",
        help="time from the start of one cycle to the next, such as 5m; 0 runs one (%(default)s)",
    )
    add_switch(command, "--dry-run", "say what would be evicted and do nothing")
    command.add_argument(
        "--feature-gates",
        metavar="NAME=BOOL,…",
        action="append",
        default=[],
        help=f"`{_GATE}=false` has pods that others move on request treated as any other",
    )
    _add_access(command.add_argument_group("access to the cluster"))
    add_lease(command.add_argument_group("leader election"), DESCHEDULER)
    serving_flags.add(command)
    tracing_flags.add(command)
    add_log(command.add_argument_group("the log, on stderr"))
    add_recording(command)
    add_idle_flags(command)


def _add_access(group: argparse._ArgumentGroup) -> None:
    add_kubeconfig(group, as_peer=True)
    add_context(group)
    group.add_argument(
        "--client-connection-qps",
        metavar="N",
        type=_number,
        default=0.0,
        help="evictions a second; 0 means 5, a negative number no limit",
    )
    group.add_argument(
        "--client-connection-burst",
        metavar="N",
        type=int,
        default=0,
        help="evictions at once after a rest; 0 means 10",
    )


def settings_of(arguments: argparse.Namespace) -> RunSettings:
    """How to run, as the flags say."""
    from resettle.cluster.lease import new_identity
    from resettle.loop import RunSettings

    interval = seconds("--descheduling-interval", arguments.descheduling_interval)
    return RunSettings(
        policy_file=_file(arguments.policy),
        forgiving=arguments.forgiving,
        interval=interval,
        dry_run=arguments.dry_run,
        qps=arguments.client_connection_qps,
        burst=arguments.client_connection_burst,
        lease=lease_of(arguments, "" if interval else "set --descheduling-interval"),
        identity=new_identity(),
        background=_background(arguments.feature_gates),
    )


def _file(policy: str) -> str:
    if policy == STDIN:
        raise InputError("--policy: a run reads its policy before every cycle; name a file")
    return policy


def _number(word: str) -> float:
    """A number that can be reckoned with."""
    try:
        number = float(word)
    except ValueError:
        number = math.nan
    if not math.isfinite(number):
        raise argparse.ArgumentTypeError(f"`{word}` is not a number")
    return number


def _background(gates: Sequence[str]) -> bool:
    """Whether the gates leave moves in the background on."""
    from resettle.policy.problem import did_you_mean

    chosen = True
    for gate in filter(None, ",".join(gates).split(",")):
        name, _, word = (part.strip() for part in gate.partition("="))
        if name not in _GATES:
            raise InputError(
                f"--feature-gates: there is no gate `{name}`; {did_you_mean(name, _GATES)}"
            )
        try:
            value = truth(word)
        except argparse.ArgumentTypeError as error:
            raise InputError(f"--feature-gates: {name}: {error}") from None
        if name == _GATE:
            chosen = value
    return chosen
