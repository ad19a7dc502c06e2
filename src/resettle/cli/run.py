"""`resettle run`: watches a cluster and moves pods, once or for ever.

Flags are spelled as those of kubernetes-sigs/descheduler, so that its manifests work unchanged.
"""

from __future__ import annotations

import argparse
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from resettle.cli import serving_flags, tracing_flags
from resettle.cli.daemon import run_to_the_end, with_log
from resettle.cli.idle_flags import warn_of_idle_flags
from resettle.cli.run_flags import add_flags, settings_of

if TYPE_CHECKING:
    from resettle.cycle import Witness
    from resettle.log import Log

_EXAMPLE = """\
examples:
  $ resettle run --policy policy.yaml --dry-run
  $ resettle run --policy policy.yaml
  $ resettle run --policy-config-file /policy-dir/policy.yaml --descheduling-interval 5m \\
      --leader-elect

signals:
  SIGTERM and SIGINT stop it in good order; SIGUSR1 has the log say what is known of the cluster

exit codes:
  0 done, or stopped when asked to; 1 it could not start, the only cycle failed, or the lease was
  lost; 2 the command was asked wrongly
"""
SUMMARY = "Watch a cluster and move pods to better places, once or again and again."


def register(subcommands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Adds `run` to the command line."""
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
    """Runs cycles until done or stopped."""
    return with_log(arguments, _run)


def _run(arguments: argparse.Namespace, log: Log) -> int:
    from resettle.cli.recording import scribe_of
    from resettle.clock import SYSTEM
    from resettle.cluster.kubeconfig import find_access
    from resettle.framework.registry import default_registry
    from resettle.loop import PolicyFile, Runner
    from resettle.loop.onlooker import NOBODY
    from resettle.telemetry import Endpoint, build_run_metrics

    settings = settings_of(arguments)
    serving = serving_flags.settings(arguments, optional=not settings.interval)
    scribe = scribe_of(arguments, log)
    warn_of_idle_flags(arguments, log)
    if settings.lease and settings.dry_run:
        log.warning("no lease is taken", reason="a dry run changes nothing")

    plugins = default_registry()
    # A bad policy is told before a cluster is looked for.
    PolicyFile(settings.policy_file, plugins, log, SYSTEM, forgiving=settings.forgiving).read()

    @asynccontextmanager
    async def at_work() -> AsyncIterator[Runner]:
        access = find_access(arguments.kubeconfig, arguments.context)
        endpoint = Endpoint(serving, access, SYSTEM, log, build_run_metrics)
        metrics = endpoint.metrics
        witnesses: list[Witness] = [metrics.reported] if metrics else []
        if scribe:
            witnesses.append(scribe)
        with tracing_flags.spans_of(arguments, log) as spans:
            runner = Runner(
                settings, access, plugins, SYSTEM, log, witnesses, metrics or NOBODY, spans
            )
            async with endpoint.open(runner.status):
                try:
                    yield runner
                finally:
                    if scribe:
                        await scribe.close()

    return run_to_the_end(at_work, log)
