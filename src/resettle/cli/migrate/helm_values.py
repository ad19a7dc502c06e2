"""Values of upstream's Helm chart: the flags and the policy they give, and mistakes in them."""

from __future__ import annotations

import re
from collections.abc import Iterator

from yaml import MappingNode, Node, ScalarNode

from resettle.cli.migrate.inventory import (
    FindingKind,
    HelmValues,
    MigrationFinding,
    PolicyInput,
    pairs,
)
from resettle.policy.document import KIND, V1ALPHA1, V1ALPHA2
from resettle.policy.problems import did_you_mean
from resettle.policy.yaml.parse import as_node
from resettle.policy.yaml.source import child, scalar_value
from resettle.policy.yaml.typed_walk import is_null, plain_value

POLICY, VERSION, OPTIONS = "deschedulerPolicy", "deschedulerPolicyAPIVersion", "cmdOptions"
CRON_JOB, DEPLOYMENT = "CronJob", "Deployment"
LEASE_FLAGS = {
    "enabled": "leader-elect",
    "leaseDuration": "leader-elect-lease-duration",
    "renewDeadline": "leader-elect-renew-deadline",
    "retryPeriod": "leader-elect-retry-period",
    "resourceLock": "leader-elect-resource-lock",
    "resourceName": "leader-elect-resource-name",
    "resourceNamespace": "leader-elect-resource-namespace",
    "resourceNamescape": "leader-elect-resource-namespace",  # a misspelling that the chart accepts
}
FOR_CRON_JOBS = frozenset(
    "schedule suspend timeZone cronJobApiVersion startingDeadlineSeconds "
    "successfulJobsHistoryLimit failedJobsHistoryLimit ttlSecondsAfterFinished "
    "activeDeadlineSeconds jobLabels jobAnnotations cronJobLabels cronJobAnnotations".split()
)
FOR_DEPLOYMENTS = frozenset(
    "deschedulingInterval replicas leaderElection podDisruptionBudget service serviceMonitor "
    "deploymentLabels deploymentAnnotations".split()
)
FOR_BOTH = frozenset(
    f"kind image imagePullSecrets {POLICY} {VERSION} {OPTIONS} command rbac serviceAccount "
    "automountServiceAccountToken extraServiceAccountVolumes extraServiceAccountVolumeMounts "
    "resources podSecurityContext securityContext ports livenessProbe priorityClassName "
    "nodeSelector affinity tolerations topologySpreadConstraints dnsConfig initContainers "
    "nameOverride fullnameOverride namespaceOverride commonLabels podLabels "
    "podAnnotations".split()
)
KNOWN = FOR_CRON_JOBS | FOR_DEPLOYMENTS | FOR_BOTH
_NOT_OF_THE_CHART = frozenset(("global", "enabled", "USER-SUPPLIED VALUES", "COMPUTED VALUES"))
"""What a larger chart sets for its parts, and what `helm get values` prints above."""
_OLDER_CHART = re.compile(r"v?0\.(1?\d|2\d)\.")


def kind_of(values: HelmValues) -> str:
    """The kind of workload that the chart creates from the values."""
    node = child(values.root, "kind")
    return str(node.value) if isinstance(node, ScalarNode) else CRON_JOB


def words_of(values: HelmValues) -> list[tuple[str, Node]]:
    """The flags that the chart passes to descheduler, in its order."""
    words: list[tuple[str, Node]] = [("--policy-config-file=/policy-dir/policy.yaml", values.root)]
    if kind_of(values) == DEPLOYMENT:
        interval = child(values.root, "deschedulingInterval") or as_node("5m")
        words.append((f"--descheduling-interval={_text(interval)}", interval))
    options = dict(pairs(child(values.root, OPTIONS)))
    for key, node in {"v": as_node(3), **options}.items():
        words.append((f"--{key}" if is_null(node) else f"--{key}={_text(node)}", node))
    lease = dict(pairs(child(values.root, "leaderElection")))
    if kind_of(values) == DEPLOYMENT and "enabled" in lease and meaning_of(lease["enabled"]):
        words += [
            (f"--{LEASE_FLAGS[key]}={_text(node)}", node)
            for key, node in lease.items()
            if key in LEASE_FLAGS and _text(node)
        ]
    return words


def policy_of(values: HelmValues) -> PolicyInput | None:
    """The policy in the values; None if the chart's default policy is used."""
    written = child(values.root, POLICY)
    if not isinstance(written, MappingNode) or not written.value:
        return None
    version = _text(child(values.root, VERSION)) or V1ALPHA2
    if _is_old(written):
        version = V1ALPHA1
    header = [(as_node("apiVersion"), as_node(version)), (as_node("kind"), as_node(KIND))]
    own = [(key, value) for key, value in written.value if key.value not in ("apiVersion", "kind")]
    root = MappingNode(
        written.tag, [*header, *own], written.start_mark, written.end_mark, written.flow_style
    )
    return PolicyInput(f"{POLICY} of {values.title}", values.source, root)


def assess_values(values: HelmValues) -> Iterator[MigrationFinding]:
    """The findings about the values, apart from the policy and the flags in them."""
    yield from _unknown_keys(values)
    yield from _keys_of_the_other_kind(values)
    yield from _policy_left_out(values)
    yield from _old_strategies(values)


def _unknown_keys(values: HelmValues) -> Iterator[MigrationFinding]:
    for parent, known in (("", KNOWN), ("leaderElection", LEASE_FLAGS.keys())):
        node = child(values.root, parent) if parent else values.root
        for key, value in pairs(node):
            if key not in known and not (not parent and key in _NOT_OF_THE_CHART):
                about = f"{parent}.{key}" if parent else key
                says = "the chart has no such value and ignores it silently"
                yield values.source.finding(
                    FindingKind.MISTAKE, about, says, did_you_mean(key, known), at=value
                )


def _keys_of_the_other_kind(values: HelmValues) -> Iterator[MigrationFinding]:
    kind = kind_of(values)
    other = FOR_CRON_JOBS if kind == DEPLOYMENT else FOR_DEPLOYMENTS
    for key, node in pairs(values.root):
        if key in other and plain_value(node) not in (None, "", {}, []):
            default = "" if child(values.root, "kind") else ", the default of the chart"
            says = f"without effect for a {kind}{default}"
            yield values.source.finding(FindingKind.IDLE, key, says, at=node)


def _policy_left_out(values: HelmValues) -> Iterator[MigrationFinding]:
    if policy_of(values) is None:
        yield values.source.finding(
            FindingKind.STAYS,
            POLICY,
            "not set, so the default policy of the chart is used",
            "to see it: `helm template …` with these values, then `resettle migrate` on that",
        )


def _old_strategies(values: HelmValues) -> Iterator[MigrationFinding]:
    """Strategies under a newer apiVersion: the chart merges its own profiles in, and those run."""
    written = child(values.root, POLICY)
    named = child(values.root, VERSION)
    if written is None or not _is_old(written) or _text(named) == V1ALPHA1:
        return
    if named is None and _OLDER_CHART.match(values.chart):
        return
    since = "" if named is not None else "charts from v0.30 on write " + f"`{V1ALPHA2}`, so "
    yield values.source.finding(
        FindingKind.MISTAKE,
        f"{POLICY}.strategies",
        f"{since}descheduler ignores them and runs the default profile of the chart",
        f"write `{VERSION}: {V1ALPHA1}`, which still works here, or upgrade it with `--write`",
        at=child(written, "strategies"),
    )


def _is_old(policy: Node) -> bool:
    return child(policy, "strategies") is not None and child(policy, "profiles") is None


def meaning_of(node: Node) -> object:
    """The value of a scalar."""
    return scalar_value(node) if isinstance(node, ScalarNode) else None


def _text(node: Node | None) -> str:
    """A scalar as Helm prints it."""
    value = meaning_of(node) if node is not None else None
    if isinstance(value, bool):
        return "true" if value else "false"
    return "" if value is None else str(node.value) if isinstance(node, ScalarNode) else ""
