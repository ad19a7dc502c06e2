"""Writes `docs/reference/metrics.md` from the catalogues of metrics.

    python -m tools.metrics_page

Run it after a change of a catalogue; a test says when that is due.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

from resettle.telemetry.metrics.catalogue import (
    MIGRATION_CONTROLLER_GROUPS,
    RUN_CATALOGUE,
    RUN_GROUPS,
    SHARED,
    SOFT_TAINTER_GROUPS,
    Metric,
)
from resettle.telemetry.metrics.run import LIMIT_RESULTS

_OTHER_GROUPS = {**SOFT_TAINTER_GROUPS, **MIGRATION_CONTROLLER_GROUPS}
PAGE = Path(__file__).parents[1] / "docs" / "reference" / "metrics.md"

VALUES: Mapping[str, Mapping[str, str]] = {
    "`result` of evictions": {
        "success": "granted; in a dry run, would have been requested, as upstream counts it",
        "error": "refused or failed; also a pod that should move in the background, or whose "
        "answer was lost, and that stayed",
        "background": "another component moves the pod from now on; its result counts once more",
        **{
            said: f"refused because of the limit for each {limit}"
            for limit, said in LIMIT_RESULTS.items()
        },
    },
    "`result` of cycles": {
        "done": "all of the plan was executed",
        "plugin-failed": "like `done`, except for plugins that failed",
        "cut-short": "not all of the plan was sent: a stop, a lost lease, no API server",
        "skipped": "the state of the cluster is too old, or fewer than two nodes are ready",
        "failed": "nothing was done; the log says why",
    },
    "`result` of plugin runs": {
        "done": "the plugin ran to its end",
        "stopped": "it ended early, or had nothing to do: [why](codes.md#why-a-plugin-stops)",
        "failed": "it raised an error, and its remaining proposals of that cycle are lost",
    },
    "`verdict`": {
        "admitted": "the pod moves",
        "moving": "it is moving already",
        "refused": "it stays; `code` says [why](codes.md#why-a-pod-stays)",
    },
    "`point`": {
        "deschedule": "strategies that look at pods",
        "balance": "strategies that look at nodes",
    },
    "`band`": {
        "under": "has free capacity, and takes pods",
        "within": "neither too empty nor too full",
        "over": "too full by at least one resource",
        "unknown": "was not measured, or its figure [cannot be used]"
        "(../policy/load-aware.md#when-figures-cannot-be-used)",
    },
    "`threshold_type`": {
        "low": "at or below it a node is under",
        "high": "above it a node is over",
    },
    "`phase`": {
        "measure": "measuring how busy nodes are, if the policy uses that",
        "snapshot": "making a snapshot of the cache",
        "plan": "drawing plans from it",
        "carry-out": "requesting evictions, at the rate of `--client-connection-qps`",
    },
    "`outcome`": {
        "evicted": "the API server granted it",
        "background": "another component moves the pod from now on",
        "requested": "an object was created that asks for the move",
        "refused-by-budget": "a disruption budget refused it",
        "refused-by-webhook": "an admission webhook refused it",
        "gone": "the pod had left, or was leaving",
        "changed": "it is not the planned pod any more, so it was left alone",
        "unknown": "the answer was lost",
        "error": "it was not moved, because of an error",
        "shown": "a dry run",
        "unsent": "never counted: acting had to stop before",
    },
    "`stage`": {
        "evicted": "granted, and not yet seen to leave",
        "unknown": "requested, and the answer was lost",
        "requested": "an object asks for it that the watch cache does not have yet",
        "assumed": "another component said that it would move it",
        "confirmed": "it does",
    },
    "`role`": {
        "alone": "there is no leader election",
        "standby": "another replica leads, or none yet",
        "leading": "this replica acts",
        "lost": "it led, and may no longer act",
    },
    "`result` of rounds": {
        "done": "every node has the taints that it should have",
        "incomplete": "like `done`, except for nodes that could not be written",
        "skipped": "the state of the cluster is too old",
        "failed": "nothing was measured, or nothing could be read; taints stay as they are",
    },
    "`taint`": {
        "overutilized": "over, with both styles; the first level",
        "overutilized-2": "the second level, and so on up to the tenth",
        "appropriate": "within or over, in the style `OpenShift`",
    },
    "`outcome` of writes": {
        "set": "a taint was set or changed; others may have been removed with it",
        "removed": "taints were removed, and none was set",
        "conflict": "another client wrote the node first; it was read again and counts once more",
        "already-so": "the node already had what it should have",
        "gone": "there was no such node any more",
        "failed": "the API server refused, or other clients wrote the node again and again",
        "unsent": "nothing more could be sent in that round: a stop, a lost lease, no API server",
    },
}
"""The values of labels that have a fixed set of them."""

_HEAD = """\
# Metrics

<!-- Written by `python -m tools.metrics_page`; edit telemetry/metrics/catalogue.py. -->

The metrics of `resettle run` at `/metrics`, and [further down](#rounds-of-the-soft-tainter) those
of `resettle soft-tainter`: every name, its labels, and what they mean. How to scrape them, what to
look at and what to alert on is described in [monitoring](../operate/monitoring.md).

Names that begin with `descheduler_` are those of upstream (kubernetes-sigs/descheduler v0.36.0),
and four of OpenShift's build of it, with their labels, buckets and values, so their dashboards and
alerts go on working. They differ from upstream's in four points: `descheduler_build_info` is 1 as
it should be; a pod that a plan refuses because of a disruption budget is not requested at all, and
so is no `error`; a pod that had left by itself is none either; and attempts that a limit refuses
may be fewer, because what is known to be refused is not tried.

Metrics of ours have no labels that grow with the cluster. `namespace` and `node` of evictions are
upstream's. Those of single nodes are OpenShift's and exist only while a policy has
LowNodeUtilization: one line for a node, and three more for each resource that has thresholds
([what that costs](../operate/monitoring.md#large-clusters)).
"""
_PROCESS = """\
## Of the process

`process_cpu_seconds_total`, `process_resident_memory_bytes`, `process_virtual_memory_bytes`,
`process_start_time_seconds`, `process_open_fds` and `process_max_fds`, as every Prometheus client
exports them, for both components.
"""


def page() -> str:
    """All of it."""
    parts = [_HEAD]
    parts += ["\n".join(_table(title, metrics)) for title, metrics in RUN_GROUPS.items()]
    parts += ["\n".join(_table(title, metrics)) for title, metrics in _OTHER_GROUPS.items()]
    parts += [_shared(), _PROCESS, "\n".join(_older_names()), "## Values of labels\n"]
    parts += ["\n".join(_values(title, values)) for title, values in VALUES.items()]
    return "\n".join(parts)


def _table(title: str, metrics: tuple[Metric, ...]) -> Iterator[str]:
    yield f"## {title}\n"
    yield "| metric | kind | labels | meaning |"
    yield "|---|---|---|---|"
    for it in metrics:
        labels = ", ".join(f"`{label}`" for label in it.labels)
        yield f"| `{it.name}` | {it.kind} | {labels} | {it.help} |"
    yield ""


def _shared() -> str:
    names = [f"`{it.name}`" for it in SHARED]
    return (
        "Role, policy and cache have the names that they have in a run, and are distinguished by\n"
        f"the job:\n{', '.join(names[:-1])} and\n{names[-1]}.\n"
    )


def _older_names() -> Iterator[str]:
    yield "## Older names\n"
    yield "Upstream has renamed some of its metrics and exports both names; so does resettle.\n"
    yield "| older name | the same as |"
    yield "|---|---|"
    for it in RUN_CATALOGUE:
        if it.older_name:
            yield f"| `{it.older_name}` | `{it.name}` |"
    yield ""


def _values(title: str, values: Mapping[str, str]) -> Iterator[str]:
    yield f"### {title}\n"
    yield "| value | what it means |"
    yield "|---|---|"
    for value, meaning in values.items():
        yield f"| `{value}` | {meaning} |"
    yield ""


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
