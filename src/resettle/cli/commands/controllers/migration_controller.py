"""`resettle migration-controller`: carry out PodMigrationJobs in a process of its own.

Apart from the descheduler it has a service account of its own: only this one may create placeholder
pods and write taints.
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
)
from resettle.cli.flags.daemon import MIGRATION_CONTROLLER_LEASE, add_lease_flags, lease_settings
from resettle.errors import InputError
from resettle.files import STDIN

if TYPE_CHECKING:
    from resettle.controllers.migration.runner import JobControllerComponent, JobControllerSettings
    from resettle.log import Log
    from resettle.telemetry.metrics.moves import MigrationControllerMetrics

_EXAMPLE = f"""\
examples:
  $ resettle crds | kubectl apply -f -
  $ resettle migration-controller --policy policy.yaml --leader-elect
  $ resettle move shop/cart-1 --wait

The policy is the one of `resettle run`; a profile in it has the mover MigrationController:

  plugins:
    evict:
      enabled: [MigrationController]

{SIGNALS}
exit codes:
  0 stopped by a signal; 1 could not start, or the lease was lost; 2 usage error
"""
PORT = 10262
"""Default port of metrics and health; next to the soft tainter's, so that all can share a host."""
PASS_SECONDS = 10.0
"""Time from one reading of the policy to the next."""


def register(subcommands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add `migration-controller` to the command line."""
    summary = "Carry out PodMigrationJobs: hold a place, evict the pod, hand the place over."
    command = subcommands.add_parser(
        "migration-controller",
        usage="%(prog)s --policy FILE [flags]",
        help=summary,
        description=summary,
        epilog=_EXAMPLE,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add_policy_flag(
        command,
        "the policy with the mover MigrationController; read again whenever it changes",
        with_upstream_name=True,
    )
    add_policy_problems_flag(command)
    command.add_argument(
        "--profile",
        metavar="NAME",
        default="",
        help="the profile whose arguments and filters are used, where several have the mover",
    )
    add_switch(command, "--dry-run", "watch, and carry out no jobs")
    access = command.add_argument_group("access to the cluster")
    add_kubeconfig_flag(access, with_upstream_name=True)
    add_context_flag(access)
    daemon.add_rate_flags(access, "requests", qps=50, burst=100)
    add_lease_flags(command.add_argument_group("leader election"), MIGRATION_CONTROLLER_LEASE)
    daemon.add_endpoint_flags(command, port=PORT)
    add_log_flags(command.add_argument_group("log, on stderr"))
    command.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Carry out jobs until stopped."""
    return with_log(arguments, _run)


def _run(arguments: argparse.Namespace, log: Log) -> int:
    from resettle.clock import SYSTEM
    from resettle.controllers.migration.runner import JobControllerComponent
    from resettle.framework.registry import default_registry
    from resettle.runtime.status import IGNORE_RUN
    from resettle.telemetry import build_migration_controller_metrics

    settings = job_controller_settings(arguments)
    plugins = default_registry()

    def open_component(
        metrics: MigrationControllerMetrics | None,
    ) -> AbstractContextManager[JobControllerComponent]:
        return nullcontext(
            JobControllerComponent(settings, plugins, log, SYSTEM, metrics or IGNORE_RUN)
        )

    return run_component(
        arguments,
        log,
        settings,
        daemon.endpoint_settings(arguments, optional=False),
        plugins,
        make_metrics=build_migration_controller_metrics,
        open_component=open_component,
    )


def job_controller_settings(arguments: argparse.Namespace) -> JobControllerSettings:
    """The settings of the migration controller that the flags ask for."""
    from resettle.controllers.migration.runner import JobControllerSettings
    from resettle.kube.leader_election.election import new_identity

    if arguments.policy == STDIN:
        raise InputError(
            "--policy: the policy is read again and again, so stdin cannot be used; name a file"
        )
    return JobControllerSettings(
        policy_file=arguments.policy,
        lenient=arguments.lenient,
        interval=PASS_SECONDS,
        controller_qps=arguments.client_connection_qps,
        controller_burst=arguments.client_connection_burst,
        profile=arguments.profile,
        dry_run=arguments.dry_run,
        lease=lease_settings(arguments, ""),
        identity=new_identity(),
    )
