"""Writes `docs/reference/metrics.md` from the catalogues of metrics.

    python -m tools.metrics_page

Run it after a change of a catalogue; a test says when that is due.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

from resettle.serving.catalogue import CATALOGUE, GROUPS, Meter
from resettle.serving.results import LIMITED
from resettle.serving.tainter_catalogue import GROUPS as OF_THE_TAINTER
from resettle.serving.tainter_catalogue import SHARED

PAGE = Path(__file__).parents[1] / "docs" / "reference" / "metrics.md"

VALUES: Mapping[str, Mapping[str, str]] = {
    "`result` of evictions": {
        "success": "granted; in a dry run, would have been asked for, as the peer counts it",
        "error": "refused or failed; also a pod that was to move in the background, or whose "
        "answer was lost, and that turned out to stay",
        "background": "somebody else moves the pod from now on; how that ends counts once more",
        **{said: f"held back by the limit for each {limit}" for limit, said in LIMITED.items()},
    },
    "`result` of cycles": {
        "done": "all of the plan was carried out",
        "plugin-failed": "the same, but for the turns of plugins that failed",
        "cut-short": "not all of the plan was sent: a stop, a lost lease, no API server",
        "skipped": "what is known of the cluster is too old, or fewer than two nodes are ready",
        "failed": "nothing was done; the log says why",
    },
    "`result` of turns": {
        "done": "the plugin came to its end",
        "stopped": "it ended early, or had nothing to do: [why](codes.md#why-a-plugin-stops)",
        "failed": "it raised an error, and its remaining proposals of that cycle are lost",
    },
    "`verdict`": {
        "admitted": "the pod moves",
        "moving": "it is on its way already",
        "refused": "it stays; `code` tells [why](codes.md#why-a-pod-stays)",
    },
    "`point`": {
        "deschedule": "strategies that look at pods",
        "balance": "strategies that look at nodes",
    },
    "`band`": {
        "under": "has room, and takes pods",
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
        "measure": "asking how busy nodes are, if the policy goes by that",
        "snapshot": "making a snapshot of what is known",
        "plan": "drawing plans from it",
        "carry-out": "asking pods to leave, at the pace of `--client-connection-qps`",
    },
    "`outcome`": {
        "evicted": "the API server granted it",
        "background": "somebody else moves the pod from now on",
        "refused-by-budget": "a disruption budget was in the way",
        "refused-by-webhook": "an admission webhook declined",
        "gone": "the pod had left, or was leaving",
        "changed": "it is not what the plan spoke of, so it was left alone",
        "unknown": "the answer was lost",
        "error": "it was not moved, because of an error",
        "shown": "a dry run",
        "unsent": "never counted: acting had to stop before",
    },
    "`stage`": {
        "evicted": "granted, and not yet seen to leave",
        "unknown": "asked to leave, and the answer was lost",
        "assumed": "somebody else said that they would move it",
        "confirmed": "they do",
    },
    "`role`": {
        "alone": "there is no leader election",
        "standby": "another leads, or nobody yet",
        "leading": "this copy acts",
        "lost": "it led, and may act no more",
    },
    "`result` of rounds": {
        "done": "every node has the taints that it should have",
        "incomplete": "the same, but for nodes that could not be written",
        "skipped": "what is known of the cluster is too old",
        "failed": "nothing was measured, or nothing could be read; taints stay as they are",
    },
    "`taint`": {
        "overutilized": "over, with both styles; the first level",
        "overutilized-2": "the second level, and so on up to the tenth",
        "appropriate": "within or over, in the style `OpenShift`",
    },
    "`outcome` of writes": {
        "set": "a taint was set or changed; others may have gone with it",
        "removed": "taints were removed, and none was set",
        "conflict": "somebody else wrote the node first; it was read again and counts once more",
        "already-so": "the node turned out to have what it should have",
        "gone": "there was no such node any more",
        "failed": "the API server declined, or others wrote the node again and again",
        "unsent": "nothing more could be sent in that round: a stop, a lost lease, no API server",
    },
}
"""The values of labels that have a fixed set of them."""

_HEAD = """\
# Metrics

<!-- Written by `python -m tools.metrics_page`; edit src/resettle/serving/catalogue.py instead. -->

What `resettle run` tells at `/metrics`, and [further down](#rounds-of-the-soft-tainter) what
`resettle soft-tainter` does: every name, its labels, and what they say. How to scrape them, what to
look at and what to be woken for stands in [monitoring](../operate/monitoring.md).

Names that begin with `descheduler_` are those of kubernetes-sigs/descheduler v0.36.0, and four of
OpenShift's build of it, with their labels, buckets and values, so their dashboards and alerts go on
working. They differ from the peer's in four points: `descheduler_build_info` reads 1 as it should;
a pod that a plan holds back because of a disruption budget is not asked for at all, and so is no
`error`; a pod that had left by itself is none either; and attempts that a limit refuses may be
fewer, for what is known to be refused need not be tried.

Metrics of ours have no labels that grow with the cluster. `namespace` and `node` of evictions are
the peer's. Those of single nodes are OpenShift's and there only while a policy has
LowNodeUtilization: one line for a node, and three more for each resource that has thresholds
([what that costs](../operate/monitoring.md#large-clusters)).
"""
_PROCESS = """\
## Of the process

`process_cpu_seconds_total`, `process_resident_memory_bytes`, `process_virtual_memory_bytes`,
`process_start_time_seconds`, `process_open_fds` and `process_max_fds`, as every Prometheus client
tells them, of both components.
"""


def page() -> str:
    """All of it."""
    parts = [_HEAD]
    parts += ["\n".join(_table(title, meters)) for title, meters in GROUPS.items()]
    parts += ["\n".join(_table(title, meters)) for title, meters in OF_THE_TAINTER.items()]
    parts += [_shared(), _PROCESS, "\n".join(_twins()), "## What labels say\n"]
    parts += ["\n".join(_values(title, values)) for title, values in VALUES.items()]
    return "\n".join(parts)


def _table(title: str, meters: tuple[Meter, ...]) -> Iterator[str]:
    yield f"## {title}\n"
    yield "| metric | kind | labels | what it says |"
    yield "|---|---|---|---|"
    for it in meters:
        labels = ", ".join(f"`{label}`" for label in it.labels)
        yield f"| `{it.name}` | {it.kind} | {labels} | {it.says} |"
    yield ""


def _shared() -> str:
    names = [f"`{it.name}`" for it in SHARED]
    return (
        "Role, policy and cache have the names that they have in a run, and are told apart by the\n"
        f"job:\n{', '.join(names[:-1])} and\n{names[-1]}.\n"
    )


def _twins() -> Iterator[str]:
    yield "## Older names\n"
    yield "The peer has renamed some of its metrics and tells both names; so does resettle.\n"
    yield "| older name | the same as |"
    yield "|---|---|"
    for it in CATALOGUE:
        if it.twin:
            yield f"| `{it.twin}` | `{it.name}` |"
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
