"""`resettle rbac`: manifests of a service account with exactly the permissions a policy needs.

For the soft tainter an admission policy is added, as RBAC cannot limit writes of nodes to taints;
for the migration controller several are.
"""

from __future__ import annotations

import argparse
import json
from typing import TYPE_CHECKING, Any

from resettle.cli.commands.check_access import (
    add_permission_flags,
    chosen_steerings,
    placeholder_namespace,
    read_named_policy,
    required_permissions,
)
from resettle.cli.flags.common import add_switch

if TYPE_CHECKING:
    from resettle.policy.document import Policy
    from resettle.rbac.manifests import ManifestNames

Object = dict[str, Any]
COMPONENT_NAMES = {
    "descheduler": "resettle",
    "soft-tainter": "resettle-soft-tainter",
    "migration-controller": "resettle-migration-controller",
}
"""Default names of the roles and bindings of each component."""

_EXAMPLE = """\
examples:
  $ resettle rbac --policy policy.yaml --leader-elect > rbac.yaml
  $ resettle rbac --policy policy.yaml --dry-run | kubectl apply -f -
  $ resettle rbac --policy policy.yaml -o helm > rights.yaml
  $ resettle rbac --policy policy.yaml --component soft-tainter --leader-elect > rbac.yaml
  $ resettle rbac --component migration-controller --leader-elect --steering Gate > rbac.yaml
  $ resettle rbac --namespace kube-system --name descheduler --service-account descheduler-sa

exit codes:
  0 success; 1 the policy cannot be read or has problems; 2 usage error
"""


def register(subcommands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add `rbac` to the command line."""
    summary = "Print the service account and roles that a policy needs, and no more."
    command = subcommands.add_parser(
        "rbac",
        help=summary,
        description=f"{summary} Reads no cluster.",
        epilog=_EXAMPLE,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add_permission_flags(
        command,
        "the descheduler policy, `-` for stdin (default: enough for any policy)",
        required=False,
    )
    command.add_argument(
        "--name",
        default="",
        help="name of the roles and bindings (resettle, or `resettle-` and the component)",
    )
    command.add_argument(
        "--namespace", default="resettle", help="namespace of the service account (%(default)s)"
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
        "print no admission policies; they need Kubernetes 1.30, for --steering Gate 1.36",
    )
    command.add_argument(
        "-o",
        "--output",
        choices=("yaml", "json", "helm"),
        default="yaml",
        help="YAML documents, a JSON list, or values of our Helm chart (%(default)s)",
    )
    command.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Print the manifests."""
    from resettle.rbac.manifests import ManifestNames, manifest

    names = ManifestNames(
        name=arguments.name or COMPONENT_NAMES[arguments.component],
        namespace=arguments.namespace,
        account=arguments.service_account,
    ).validate()
    policy = read_named_policy(arguments)
    granted = manifest(required_permissions(arguments, policy), names)
    match arguments.output:
        case "helm":
            print(_to_helm_values(granted, arguments.component), end="")
        case "json":
            print(to_json([*_admission_policies(arguments, policy, names), *granted]), end="")
        case _:
            print(to_yaml([*_admission_policies(arguments, policy, names), *granted]), end="")
    return 0


def _admission_policies(
    arguments: argparse.Namespace, policy: Policy | None, names: ManifestNames
) -> list[Object]:
    """The component's admission policies, listed first: they must exist before a role is bound."""
    from resettle.controllers.migration.manifests.admission_policy import admission_policies
    from resettle.controllers.soft_taints.admission_policy import admission_policy, taint_prefixes

    if arguments.without_guard:
        return []
    match arguments.component:
        case "soft-tainter":
            return admission_policy(names, taint_prefixes(policy.soft_taints if policy else None))
        case "migration-controller":
            return admission_policies(
                names,
                chosen_steerings(arguments),
                placeholder_namespace=placeholder_namespace(arguments),
            )
        case _:
            return []


def to_yaml(objects: list[Object]) -> str:
    """The objects as YAML documents, long texts in a readable form."""
    import yaml

    class Readable(yaml.SafeDumper):
        """Writes strings with several lines or quotes as block scalars, and repeats parts."""

        def ignore_aliases(self, data: object) -> bool:
            """Write a part that occurs twice in full both times."""
            return True

    def represent_text(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
        style = "|" if "\n" in text or "'" in text else None
        return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=style)

    Readable.add_representer(str, represent_text)
    texts = [
        yaml.dump(manifest, Dumper=Readable, sort_keys=False, default_flow_style=None)
        for manifest in objects
    ]
    return "---\n".join(texts)


def to_json(objects: list[Object]) -> str:
    """The objects as a list in JSON."""
    return json.dumps({"apiVersion": "v1", "kind": "List", "items": objects}, indent=2) + "\n"


def _to_helm_values(granted: list[Object], component: str) -> str:
    """Only the ClusterRole's rules; the chart has names, admission policy and the lease's Role."""
    (role,) = (manifest for manifest in granted if manifest["kind"] == "ClusterRole")
    sections = {"soft-tainter": "softTainter", "migration-controller": "migrationController"}
    return to_yaml([{sections.get(component, "rbac"): {"rules": role["rules"]}}])
