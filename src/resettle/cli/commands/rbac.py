"""`resettle rbac`: the manifest of a service account that may do just what a policy takes.

The soft tainter's comes with its guard, for rights on nodes alone would grant too much.
"""

from __future__ import annotations

import argparse
import json
from typing import TYPE_CHECKING, Any

from resettle.cli.commands.check_access import add_permission_flags, read_named_policy, required_permissions
from resettle.cli.flags.common import add_switch

if TYPE_CHECKING:
    from resettle.policy.document import Policy
    from resettle.rbac.manifests import ManifestNames

Object = dict[str, Any]
_NAMES = {"descheduler": "resettle", "soft-tainter": "resettle-soft-tainter"}
"""Of the roles and bindings of each component, unless told otherwise."""

_EXAMPLE = """\
examples:
  $ resettle rbac --policy policy.yaml --leader-elect > rbac.yaml
  $ resettle rbac --policy policy.yaml --dry-run | kubectl apply -f -
  $ resettle rbac --policy policy.yaml -o helm > rights.yaml
  $ resettle rbac --policy policy.yaml --component soft-tainter --leader-elect > rbac.yaml
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
    add_permission_flags(
        command,
        "the descheduler policy, `-` for stdin (default: any that can be written)",
        required=False,
    )
    command.add_argument(
        "--name",
        default="",
        help="of the roles and bindings (resettle; resettle-soft-tainter for that component)",
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
    add_switch(
        command,
        "--without-guard",
        "print no admission policy for the soft tainter, which takes Kubernetes 1.30",
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
    from resettle.rbac.manifests import ManifestNames, manifest

    names = ManifestNames(
        name=arguments.name or _NAMES[arguments.component],
        namespace=arguments.namespace,
        account=arguments.service_account,
    ).validate()
    policy = read_named_policy(arguments)
    granted = manifest(required_permissions(arguments, policy), names)
    match arguments.output:
        case "helm":
            print(_to_helm_values(granted, arguments.component), end="")
        case "json":
            print(_to_json([*_admission_policy(arguments, policy, names), *granted]), end="")
        case _:
            print(_to_yaml([*_admission_policy(arguments, policy, names), *granted]), end="")
    return 0


def _admission_policy(arguments: argparse.Namespace, policy: Policy | None, names: ManifestNames) -> list[Object]:
    """The guard, before what it guards: nobody writes nodes before it stands."""
    from resettle.controllers.soft_taints.admission_policy import admission_policy, taint_prefixes

    if arguments.component != "soft-tainter" or arguments.without_guard:
        return []
    return admission_policy(names, taint_prefixes(policy.soft_taints if policy else None))


def _to_yaml(objects: list[Object]) -> str:
    import yaml

    class Readable(yaml.SafeDumper):
        """Writes what has several lines, or quotes of its own, as it is."""

    def text(dumper: yaml.SafeDumper, said: str) -> yaml.ScalarNode:
        style = "|" if "\n" in said or "'" in said else None
        return dumper.represent_scalar("tag:yaml.org,2002:str", said, style=style)

    Readable.add_representer(str, text)
    texts = [
        yaml.dump(it, Dumper=Readable, sort_keys=False, default_flow_style=None) for it in objects
    ]
    return "---\n".join(texts)


def _to_json(objects: list[Object]) -> str:
    return json.dumps({"apiVersion": "v1", "kind": "List", "items": objects}, indent=2) + "\n"


def _to_helm_values(granted: list[Object], component: str) -> str:
    """What holds everywhere; names, guard, and the Role of the lease, are the chart's own."""
    (role,) = (it for it in granted if it["kind"] == "ClusterRole")
    if component == "soft-tainter":
        return _to_yaml([{"softTainter": {"rules": role["rules"]}}])
    return _to_yaml([{"rbac": {"rules": role["rules"]}}])
