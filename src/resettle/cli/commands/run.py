"""`resettle run`: watch a cluster and move pods, once or at an interval.

Flags are spelled as those of upstream, kubernetes-sigs/descheduler, so that its manifests work
unchanged; the command `descheduler` has them as well.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
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
    parse_bool,
    parse_seconds,
)
from resettle.cli.flags.daemon import DESCHEDULER_LEASE, add_lease_flags, lease_settings
from resettle.cli.flags.record import add_record_flags
from resettle.cli.flags.upstream import add_ignored_flags, warn_about_ignored_flags
from resettle.errors import InputError
from resettle.files import STDIN

if TYPE_CHECKING:
    from resettle.cycle import CycleObserver
    from resettle.log import Log
    from resettle.runtime import RunSettings
    from resettle.telemetry.metrics.run import RunMetrics

_GATE = "EvictionsInBackground"
_GATES = (_GATE, "AllAlpha", "AllBeta")


def add_flags(command: argparse.ArgumentParser) -> None:
    """Add every flag of `run`."""
    add_policy_flag(command, "the policy; read again whenever it changes", with_upstream_name=True)
    add_policy_problems_flag(command)
    command.add_argument(
        "--descheduling-interval",
        metavar="TIME",
        default="0",
        help="time from the start of one cycle to the next, such as 5m; 0 runs one (%(default)s)",
    )
    add_switch(command, "--dry-run", "log what would be evicted and evict nothing")
    command.add_argument(
        "--feature-gates",
        metavar="NAME=BOOL,…",
        action="append",
        default=[],
        help=f"`{_GATE}=false` evicts pods that another component moves like any other pod",
    )
    _add_access_flags(command.add_argument_group("access to the cluster"))
    add_lease_flags(command.add_argument_group("leader election"), DESCHEDULER_LEASE)
    daemon.add_endpoint_flags(command)
    daemon.add_tracing_flags(command)
    add_log_flags(command.add_argument_group("log, on stderr"))
    add_record_flags(command)
    add_ignored_flags(command)


def _add_access_flags(group: argparse._ArgumentGroup) -> None:
    add_kubeconfig_flag(group, with_upstream_name=True)
    add_context_flag(group)
    daemon.add_rate_flags(group, "evictions", qps=5, burst=10)


def run_settings(arguments: argparse.Namespace) -> RunSettings:
    """The settings of a run that the flags ask for."""
    from resettle.kube.leader_election.election import new_identity
    from resettle.runtime import RunSettings

    interval = parse_seconds("--descheduling-interval", arguments.descheduling_interval)
    return RunSettings(
        policy_file=_policy_file(arguments.policy),
        lenient=arguments.lenient,
        interval=interval,
        dry_run=arguments.dry_run,
        qps=arguments.client_connection_qps,
        burst=arguments.client_connection_burst,
        lease=lease_settings(arguments, "" if interval else "set --descheduling-interval"),
        identity=new_identity(),
        background=_background_evictions(arguments.feature_gates),
    )


def _policy_file(policy: str) -> str:
    if policy == STDIN:
        raise InputError(
            "--policy: the policy is read before every cycle, so stdin cannot be used; name a file"
        )
    return policy


def _background_evictions(gates: Sequence[str]) -> bool:
    """Whether the feature gates leave evictions in the background on."""
    from resettle.policy.problems import did_you_mean

    enabled = True
    for gate in filter(None, ",".join(gates).split(",")):
        name, _, word = (part.strip() for part in gate.partition("="))
        if name not in _GATES:
            raise InputError(
                f"--feature-gates: there is no gate `{name}`; {did_you_mean(name, _GATES)}"
            )
        try:
            value = parse_bool(word)
        except argparse.ArgumentTypeError as error:
            raise InputError(f"--feature-gates: {name}: {error}") from None
        if name == _GATE:
            enabled = value
    return enabled


_EXAMPLE = f"""\
examples:
  $ resettle run --policy policy.yaml --dry-run
  $ resettle run --policy policy.yaml
  $ resettle run --policy-config-file /policy-dir/policy.yaml --descheduling-interval 5m \\
      --leader-elect

{SIGNALS}
exit codes:
  0 done, or stopped by a signal; 1 could not start, the only cycle failed, or the lease was lost;
  2 usage error
"""
SUMMARY = "Watch a cluster and move pods to better places, once or at an interval."


def register(subcommands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add `run` to the command line."""
    command = subcommands.add_parser(
        "run",
        usage="%(prog)s --policy FILE [flags]",
        help=SUMMARY,
        description=SUMMARY,
        epilog=_EXAMPLE,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add_flags(command)
    command.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Run cycles until done or stopped."""
    return with_log(arguments, _run)


def _run(arguments: argparse.Namespace, log: Log) -> int:
    from resettle.cli.flags.record import record_writer
    from resettle.clock import SYSTEM
    from resettle.framework.registry import default_registry
    from resettle.runtime import Descheduling
    from resettle.runtime.status import IGNORE_RUN
    from resettle.telemetry import build_run_metrics

    settings = run_settings(arguments)
    endpoint_settings = daemon.endpoint_settings(arguments, optional=not settings.interval)
    writer = record_writer(arguments, log)
    warn_about_ignored_flags(arguments, log)
    if settings.lease and settings.dry_run:
        log.warning("leader election off", reason="a dry run changes nothing")
    plugins = default_registry()

    @contextmanager
    def open_component(metrics: RunMetrics | None) -> Iterator[Descheduling]:
        observers: list[CycleObserver] = [metrics.observe_cycle] if metrics else []
        if writer:
            observers.append(writer)
        run_observer = metrics or IGNORE_RUN
        with daemon.open_spans(arguments, log) as spans:
            yield Descheduling(settings, plugins, SYSTEM, log, observers, run_observer, spans)

    async def close_record() -> None:
        if writer:
            await writer.close()

    return run_component(
        arguments,
        log,
        settings,
        endpoint_settings,
        plugins,
        make_metrics=build_run_metrics,
        open_component=open_component,
        clean_up=close_record,
    )
