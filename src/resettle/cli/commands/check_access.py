"""`resettle check-access`: the permissions a policy needs, and which of them are missing.

Each permission is checked with a SelfSubjectAccessReview, as the user of the kubeconfig.
"""

from __future__ import annotations

import argparse
import json
from typing import TYPE_CHECKING, Any

from resettle.cli.flags.common import (
    add_context_flag,
    add_kubeconfig_flag,
    add_policy_flag,
    add_policy_problems_flag,
    add_switch,
)
from resettle.cli.flags.daemon import (
    DESCHEDULER_LEASE,
    MIGRATION_CONTROLLER_LEASE,
    SOFT_TAINTER_LEASE,
    add_lease_name_flags,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from resettle.framework.plugin import Plugin
    from resettle.kube.leader_election.lease import LeaseSettings
    from resettle.policy.document import Policy
    from resettle.rbac.permissions import ApiPermission, PolicyRule
    from resettle.rbac.reviews import AccessReview

_LEASE_NAMES = {
    "descheduler": DESCHEDULER_LEASE,
    "soft-tainter": SOFT_TAINTER_LEASE,
    "migration-controller": MIGRATION_CONTROLLER_LEASE,
}
"""The components, with the default name of the lease of each."""
STEERINGS = ("None", "Soft", "Hard", "Gate")
DEFAULT_STEERINGS = ("Soft", "Hard")
_EXAMPLE = """\
examples:
  $ resettle check-access --policy policy.yaml
  $ resettle check-access --policy policy.yaml --leader-elect --context staging
  $ resettle check-access --policy policy.yaml --component soft-tainter
  $ resettle check-access --component migration-controller --steering Gate
  $ resettle check-access --policy policy.yaml -o json

exit codes:
  0 everything is allowed; 1 a permission is missing, or the API server could not be asked;
  2 usage error
"""


def register(subcommands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add `check-access` to the command line."""
    summary = "Show which permissions a policy needs, and which are missing."
    command = subcommands.add_parser(
        "check-access",
        help=summary,
        description=summary,
        epilog=_EXAMPLE,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add_permission_flags(command)
    add_kubeconfig_flag(command, with_upstream_name=True)
    add_context_flag(command)
    command.add_argument(
        "-o",
        "--output",
        choices=("table", "json"),
        default="table",
        help="for people (%(default)s) or for programs",
    )
    command.set_defaults(run=run)


def add_permission_flags(
    command: argparse.ArgumentParser,
    policy_help: str = "the descheduler policy; `-` for stdin",
    *,
    required: bool = True,
) -> None:
    """Add the flags on which the needed permissions depend."""
    add_policy_flag(command, policy_help, required=required, with_upstream_name=True)
    add_policy_problems_flag(command)
    add_switch(command, "--dry-run", "for a run that evicts no pods")
    add_switch(command, "--leader-elect", "for a run that holds a lease")
    add_lease_name_flags(command, None)
    command.add_argument(
        "--component",
        choices=tuple(_LEASE_NAMES),
        default="descheduler",
        help="the component: `resettle run` or the command of that name (%(default)s)",
    )
    add_migration_flags(command)
    add_switch(command, "--protect-metrics", "for a run with --protect-metrics")


def add_migration_flags(command: argparse.ArgumentParser) -> None:
    """Add the flags about what the migration controller writes."""
    command.add_argument(
        "--steering",
        action="append",
        choices=STEERINGS,
        help="for a migration controller that steers so; may be repeated (Soft and Hard)",
    )
    command.add_argument(
        "--placeholder-namespace",
        metavar="NAME",
        default="",
        help="where the migration controller holds places (the namespace of its account, resettle)",
    )


def run(arguments: argparse.Namespace) -> int:
    """Check each permission and print the results; return 1 if one is missing."""
    import asyncio

    from resettle.kube.auth.kubeconfig import find_access
    from resettle.kube.transport.client import Client
    from resettle.rbac.reviews import review_permissions

    rights = required_permissions(arguments, read_named_policy(arguments))
    access = find_access(arguments.kubeconfig, arguments.context)

    async def ask() -> tuple[AccessReview, ...]:
        async with Client(access) as client:
            return await review_permissions(client, rights)

    reviews = asyncio.run(ask())
    if arguments.output == "json":
        print(reviews_json(reviews))
    else:
        print("\n".join(reviews_text(reviews)))
    return 0 if all(review.allowed for review in reviews) else 1


def required_permissions(
    arguments: argparse.Namespace, policy: Policy | None
) -> Sequence[ApiPermission]:
    """The permissions that a run with these flags needs."""
    from resettle.rbac.permissions import METRICS_AUTHORIZATION

    return (
        *_policy_permissions(arguments, policy),
        *(METRICS_AUTHORIZATION if arguments.protect_metrics else ()),
    )


def _policy_permissions(
    arguments: argparse.Namespace, policy: Policy | None
) -> Sequence[ApiPermission]:
    """The permissions that the policy needs, or that any policy can need if none is named."""
    from resettle.framework.descheduler import build_descheduler
    from resettle.framework.registry import default_registry
    from resettle.kube.leader_election.lease import LeaseSettings
    from resettle.rbac.permissions import permissions_for_any_policy, required_permissions

    plugins = default_registry()
    name = arguments.leader_elect_resource_name
    chosen = LeaseSettings(
        name=_LEASE_NAMES[arguments.component] if name is None else name,
        namespace=arguments.leader_elect_resource_namespace,
    )
    lease = chosen.validate() if arguments.leader_elect else None
    if arguments.component == "soft-tainter":
        return _soft_tainter_permissions(policy, plugins, lease)
    if arguments.component == "migration-controller":
        return _migration_controller_permissions(arguments, policy, plugins, lease)
    if policy is None:
        return permissions_for_any_policy(plugins.values(), dry_run=arguments.dry_run, lease=lease)
    kinds = [kind for plugin in plugins.values() for kind in plugin.kinds]
    return required_permissions(
        build_descheduler(policy, plugins), kinds, dry_run=arguments.dry_run, lease=lease
    )


def read_named_policy(arguments: argparse.Namespace) -> Policy | None:
    """Read the policy that the flags name, or return None without one."""
    from resettle.cli.commands.policy import print_warnings
    from resettle.files import display_name, read_text
    from resettle.framework.registry import default_registry
    from resettle.policy.load import load_policy

    if arguments.policy is None:
        return None
    policy = load_policy(
        read_text(arguments.policy),
        name=display_name(arguments.policy),
        plugins=default_registry(),
        lenient=arguments.lenient,
    )
    print_warnings(policy.warnings)
    return policy


def _soft_tainter_permissions(
    policy: Policy | None, plugins: Mapping[str, Plugin], lease: LeaseSettings | None
) -> Sequence[ApiPermission]:
    """The permissions that the soft tainter needs for this policy, or for any."""
    from resettle.controllers.soft_taints.reconcile import EVERY_KIND, Mode, task_of
    from resettle.framework.descheduler import build_descheduler
    from resettle.rbac.permissions import soft_tainter_permissions

    if policy is None:
        return soft_tainter_permissions(EVERY_KIND, lease=lease)
    task = task_of(build_descheduler(policy, plugins), Mode.TAINT)
    return soft_tainter_permissions(task.kinds, task.measuring, lease=lease)


def _migration_controller_permissions(
    arguments: argparse.Namespace,
    policy: Policy | None,
    plugins: Mapping[str, Plugin],
    lease: LeaseSettings | None,
) -> Sequence[ApiPermission]:
    """The permissions that the migration controller needs for this policy, or for any.

    It reads what the filters of the policy read, to ask them again right before it evicts.
    """
    from resettle.controllers.migration.plugin import process_permissions
    from resettle.framework.descheduler import build_descheduler
    from resettle.model.kinds import KINDS

    kinds = [*(kind for plugin in plugins.values() for kind in plugin.kinds), *KINDS.values()]
    if policy is not None:
        reads = build_descheduler(policy, plugins).reads
        kinds = [kind for kind in kinds if kind.name in reads]
    return process_permissions(
        kinds, chosen_steerings(arguments), placeholder_namespace(arguments), lease
    )


def chosen_steerings(arguments: argparse.Namespace) -> Sequence[str]:
    """The ways of steering that the flags name."""
    return arguments.steering or DEFAULT_STEERINGS


def placeholder_namespace(arguments: argparse.Namespace) -> str:
    """Where the migration controller creates placeholders."""
    named: str = arguments.placeholder_namespace
    return named or getattr(arguments, "namespace", "resettle")


def reviews_text(reviews: Sequence[AccessReview]) -> Iterator[str]:
    """A table of the needed permissions, and RBAC rules for the missing ones."""
    from resettle.cli.text.terminal import align_columns
    from resettle.rbac.permissions import policy_rules

    rows = [("ALLOWED", "VERB", "RESOURCE", "NAMESPACE")]
    for review in reviews:
        right = review.permission
        answer = "yes" if review.allowed else "NO"
        rows.append((answer, right.verb, right.title, right.namespace or "all"))
    yield from align_columns(rows, indent=0)
    missing = [review.permission for review in reviews if not review.allowed]
    if not missing:
        return
    yield ""
    yield f"# {len(missing)} of {len(reviews)} are missing"
    for namespace, granted in policy_rules(missing).items():
        role = f"a Role in the namespace {namespace}" if namespace else "a ClusterRole"
        yield f"# for {role}:"
        yield "rules:"
        for rule in granted:
            yield from _rule_yaml(rule)


def reviews_json(reviews: Sequence[AccessReview]) -> str:
    """The reviews as JSON, with RBAC rules for the missing permissions."""
    from msgspec import to_builtins

    from resettle.rbac.permissions import policy_rules

    missing = [review.permission for review in reviews if not review.allowed]
    document: dict[str, Any] = {
        "allowed": not missing,
        "rights": [
            {**to_builtins(review.permission), "allowed": review.allowed, "reason": review.reason}
            for review in reviews
        ],
        "missing": [
            {"namespace": namespace, "rules": to_builtins(granted)}
            for namespace, granted in policy_rules(missing).items()
        ],
    }
    return json.dumps(document, indent=2, ensure_ascii=False)


def _rule_yaml(rule: PolicyRule) -> Iterator[str]:
    yield f"- apiGroups: {json.dumps(rule.api_groups)}"
    yield f"  resources: {json.dumps(rule.resources)}"
    if rule.resource_names:
        yield f"  resourceNames: {json.dumps(rule.resource_names)}"
    yield f"  verbs: {json.dumps(rule.verbs)}"
