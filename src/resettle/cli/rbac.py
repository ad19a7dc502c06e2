"""`resettle rbac`: the manifest of a service account that may do just what a policy takes."""

from __future__ import annotations

import argparse
import json
from typing import Any

from resettle.cli.check_access import add_needs, needed_rights

Object = dict[str, Any]

_EXAMPLE = """\
examples:
  $ resettle rbac --policy policy.yaml --leader-elect > rbac.yaml
  $ resettle rbac --policy policy.yaml --dry-run | kubectl apply -f -
  $ resettle rbac --policy policy.yaml -o helm > rights.yaml
  $ resettle rbac --namespace kube-system --name descheduler --service-account descheduler-sa

exit codes:
  0 done; 1 it cannot be told; 2 the command was asked wrongly
"""


def register(subcommands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Adds `rbac` to the command line."""
    summary = "Print the service account and roles that a policy takes, and no more."
    command = subcommands.add_parser(
        "rbac",
        help=summary,
        description=f"{summary} No cluster is asked.",
        epilog=_EXAMPLE,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add_needs(
        command,
        "the descheduler policy, `-` for stdin (default: any that can be written)",
        required=False,
    )
    command.add_argument(
        "--name", default="resettle", help="of the roles and bindings (%(default)s)"
    )
    command.add_argument(
        "--namespace", default="resettle", help="of the service account (%(default)s)"
    )
    command.add_argument(
        "--service-account",
        metavar="NAME",
        default="",
        help="the service account (default: the name of the roles)",
    )
    command.add_argument(
        "-o",
        "--output",
        choices=("yaml", "json", "helm"),
        default="yaml",
        help="documents of YAML, one list in JSON, or values of our Helm chart (%(default)s)",
    )
    command.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Prints the manifest."""
    from resettle.cluster.roles import Names, manifest

    names = Names(
        name=arguments.name, namespace=arguments.namespace, account=arguments.service_account
    )
    objects = manifest(needed_rights(arguments), names.checked())
    print(_SHAPES[arguments.output](objects), end="")
    return 0


def _as_yaml(objects: list[Object]) -> str:
    import yaml

    texts = [yaml.safe_dump(it, sort_keys=False, default_flow_style=None) for it in objects]
    return "---\n".join(texts)


def _as_json(objects: list[Object]) -> str:
    return json.dumps({"apiVersion": "v1", "kind": "List", "items": objects}, indent=2) + "\n"


def _as_values(objects: list[Object]) -> str:
    """What holds everywhere; names, and the Role of the lease, are the chart's own."""
    (role,) = (it for it in objects if it["kind"] == "ClusterRole")
    return _as_yaml([{"rbac": {"rules": role["rules"]}}])


_SHAPES = {"yaml": _as_yaml, "json": _as_json, "helm": _as_values}
