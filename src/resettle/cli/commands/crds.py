"""`resettle crds`: the definitions of our custom resources, and the admission policies with them.

There is one definition today, of PodMigrationJob. It is the same for every installation; the
policies name the account of the controller. Definitions are applied before the controller starts,
and stay when it is removed: with a definition go all objects of its kind.
"""

from __future__ import annotations

import argparse

from resettle.cli.commands.check_access import (
    add_migration_flags,
    chosen_steerings,
    placeholder_namespace,
)
from resettle.cli.commands.rbac import COMPONENT_NAMES, to_json, to_yaml
from resettle.cli.flags.common import add_switch

_EXAMPLE = """\
examples:
  $ resettle crds | kubectl apply --server-side -f -
  $ resettle crds --admission-policies --namespace kube-system > crds.yaml
  $ resettle crds -o json

exit codes:
  0 success; 1 a name is none that an object can have; 2 usage error
"""


def register(subcommands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add `crds` to the command line."""
    summary = "Print the custom resource definition of PodMigrationJob."
    command = subcommands.add_parser(
        "crds",
        help=summary,
        description=f"{summary} Reads no cluster.",
        epilog=_EXAMPLE,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add_switch(
        command,
        "--admission-policies",
        "also print who may create jobs, and what the migration controller may write",
    )
    command.add_argument(
        "--namespace",
        default="resettle",
        help="namespace of the migration controller's account (%(default)s)",
    )
    command.add_argument(
        "--service-account",
        metavar="NAME",
        default=COMPONENT_NAMES["migration-controller"],
        help="its account, by which the policies are named as well (%(default)s)",
    )
    add_migration_flags(command)
    command.add_argument(
        "-o",
        "--output",
        choices=("yaml", "json"),
        default="yaml",
        help="YAML documents, or a JSON list (%(default)s)",
    )
    command.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Print the definition, and the policies if they are asked for."""
    from resettle.controllers.migration.manifests.admission_policy import admission_policies
    from resettle.controllers.migration.manifests.crd import pod_migration_job_crd
    from resettle.rbac.manifests import ManifestNames

    objects = [pod_migration_job_crd()]
    if arguments.admission_policies:
        names = ManifestNames(
            name=arguments.service_account, namespace=arguments.namespace
        ).validate()
        objects += admission_policies(
            names,
            chosen_steerings(arguments),
            placeholder_namespace=placeholder_namespace(arguments),
        )
    print(to_json(objects) if arguments.output == "json" else to_yaml(objects), end="")
    return 0
