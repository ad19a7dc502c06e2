"""`resettle soft-tainter`: taint nodes that are too full, so that new pods go elsewhere.

The taints are PreferNoSchedule, so no pod is evicted by them and a full cluster still schedules.
"""

from __future__ import annotations

import argparse
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING

from resettle.cli.daemon import SIGNALS, run_component, with_log
from resettle.cli.flags import daemon
from resettle.cli.flags.common import (
    add_context_flag,
    add_kubeconfig_flag,
    add_log_flags,
    add_policy_flag,
    add_policy_problems_flag,
    add_switch,
    parse_seconds,
)
from resettle.cli.flags.daemon import SOFT_TAINTER_LEASE, add_lease_flags, lease_settings
from resettle.errors import InputError
from resettle.files import STDIN

if TYPE_CHECKING:
    from resettle.controllers.soft_taints.runner import TaintSettings
    from resettle.log import Log
    from resettle.telemetry.metrics.soft_tainter import SoftTainterMetrics

_EXAMPLE = f"""\
examples:
  $ resettle soft-tainter --policy policy.yaml --interval 1m --leader-elect
  $ resettle soft-tainter --policy policy.yaml --dry-run
  $ resettle soft-tainter --remove-only --once

The taints are those of `softTaints` in the policy. They are soft (PreferNoSchedule): the scheduler
still uses a tainted node when no other will do, and no pod has to leave.

{SIGNALS}
exit codes:
  0 done, or stopped by a signal; 1 could not start, the only round failed, or the lease was lost;
  2 usage error
"""
PORT = 10261
"""Default port of metrics and health; next to the descheduler's, so that both can share a host."""


def register(subcommands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add `soft-tainter` to the command line."""
    summary = "Taint nodes softly while they are too full, so that new pods go elsewhere."
    command = subcommands.add_parser(
        "soft-tainter",
        usage="%(prog)s --policy FILE [flags]",
        help=summary,
        description=summary,
        epilog=_EXAMPLE,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add_policy_flag(
        command,
        "the policy whose thresholds are used, the same as for `run`; read again whenever it "
        "changes. Optional with --remove-only",
        required=False,
        with_upstream_name=True,
    )
    add_policy_problems_flag(command)
    command.add_argument(
        "--interval",
        metavar="TIME",
        default="1m",
        help="time from the start of one round to the next (%(default)s)",
    )
    add_switch(command, "--once", "run one round and exit")
    add_switch(
        command,
        "--dry-run",
        "log which taints would be set and set none; existing ones are removed",
    )
    add_switch(command, "--remove-only", "remove all of our taints, whatever the policy says")
    command.add_argument(
        "--prefix",
        metavar="DOMAIN",
        action="append",
        default=[],
        help="with --remove-only, also remove taints under this prefix; may be given several times",
    )
    access = command.add_argument_group("access to the cluster")
    add_kubeconfig_flag(access, with_upstream_name=True)
    add_context_flag(access)
    add_lease_flags(command.add_argument_group("leader election"), SOFT_TAINTER_LEASE)
    daemon.add_endpoint_flags(command, port=PORT)
    add_log_flags(command.add_argument_group("log, on stderr"))
    command.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Run rounds until done or stopped."""
    return with_log(arguments, _run)


def _run(arguments: argparse.Namespace, log: Log) -> int:
    from resettle.clock import SYSTEM
    from resettle.controllers.soft_taints.runner import IGNORE_ROUNDS, SoftTainting
    from resettle.framework.registry import default_registry
    from resettle.telemetry import build_soft_tainter_metrics

    settings = taint_settings(arguments)

    def open_component(metrics: SoftTainterMetrics | None) -> AbstractContextManager[SoftTainting]:
        return nullcontext(SoftTainting(settings, SYSTEM, log, metrics or IGNORE_ROUNDS))

    return run_component(
        arguments,
        log,
        settings,
        daemon.endpoint_settings(arguments, optional=not settings.interval),
        default_registry(),
        make_metrics=build_soft_tainter_metrics,
        open_component=open_component,
    )


def taint_settings(arguments: argparse.Namespace) -> TaintSettings:
    """The settings of the soft tainter that the flags ask for."""
    from resettle.controllers.soft_taints.reconcile import Mode
    from resettle.controllers.soft_taints.runner import TaintSettings
    from resettle.kube.leader_election.election import new_identity
    from resettle.policy.document import SoftTaints

    if arguments.dry_run and arguments.remove_only:
        raise InputError("--dry-run and --remove-only cannot be used together; keep one of them")
    if arguments.policy is None and not arguments.remove_only:
        raise InputError("--policy is missing; it is optional only with --remove-only")
    if arguments.policy == STDIN:
        raise InputError(
            "--policy: the policy is read before every round, so stdin cannot be used; name a file"
        )
    if arguments.prefix and not arguments.remove_only:
        raise InputError(
            "--prefix is for --remove-only; the prefix of new taints is `softTaints.prefix` of the "
            "policy"
        )
    for prefix in arguments.prefix:
        for problem in SoftTaints(prefix=prefix).problems():
            raise InputError(f"--prefix: {problem}")
    interval = 0.0 if arguments.once else parse_seconds("--interval", arguments.interval)
    if not interval and not arguments.once:
        raise InputError("--interval is 0; give it a time such as 1m, or --once for a single round")
    mode = Mode.TAINT
    if arguments.dry_run or arguments.remove_only:
        mode = Mode.DRY_RUN if arguments.dry_run else Mode.REMOVE_ONLY
    return TaintSettings(
        policy_file=arguments.policy,
        lenient=arguments.lenient,
        interval=interval,
        mode=mode,
        prefixes=tuple(arguments.prefix),
        lease=lease_settings(arguments, "remove --once" if arguments.once else ""),
        identity=new_identity(),
    )
