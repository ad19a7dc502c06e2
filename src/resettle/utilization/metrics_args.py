"""Where a policy has usage come from: `metricsUtilization`, checked, asked about, and read."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import timedelta

from msgspec import Struct

from resettle.framework.view import View
from resettle.model.measurements import (
    KUBERNETES_METRICS,
    METRICS_API,
    NODE_LABEL,
    PROMETHEUS,
    SMOOTHED,
    Question,
    Readings,
)
from resettle.policy.args import Duration, parse_duration
from resettle.policy.document import Ours
from resettle.policy.problems import Problem
from resettle.utilization.measured_usage import MEASURED, METRIC, Metered, Queried
from resettle.utilization.usage import BASIC, Requests, Usage, UsageMissingError

AT = "metricsUtilization"
MAX_AGE = timedelta(minutes=3)
"""How old a figure may be, where nothing is written."""
PEERS_MAX_AGE = timedelta(minutes=5)
"""The same for policies of the descheduler: as far back as Prometheus looks for a sample."""


class Query(Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """What is asked of Prometheus."""

    query: str = ""
    """A query that answers with a number from 0 to 1 for each node."""
    queries: Ours[dict[str, str]] = {}
    """Several such queries; thresholds then have these names."""
    node_label: Ours[str] = NODE_LABEL
    """The label of the answer that holds the name of the node."""

    @property
    def by_resource(self) -> Mapping[str, str]:
        """Each query, under the name that thresholds give to its number."""
        return self.queries or {METRIC: self.query}


class MetricsUtilization(
    Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True
):
    """Where usage comes from, if not from requests."""

    metrics_server: bool = False
    """The older word for `source: KubernetesMetrics`."""
    source: str = ""
    """Who measures."""
    prometheus: Query | None = None
    """Settings of the source `Prometheus`."""
    max_age: Ours[Duration | None] = None
    """Figures older than this are not gone by; three minutes if nothing is written."""

    @property
    def raw(self) -> bool:
        """Whether samples of the metrics API are taken as they come, peaks and all."""
        return False

    @property
    def oldest(self) -> timedelta | None:
        """How old a figure may be, if that is written."""
        return None if self.max_age is None else parse_duration(self.max_age)

    @property
    def asked(self) -> Mapping[str, Question]:
        """The questions, by the name of what they are about; empty for the metrics API."""
        if self.source != PROMETHEUS:
            return {"": METRICS_API if self.raw else SMOOTHED}
        prometheus = self.prometheus or Query()
        return {
            name: Question(PROMETHEUS, query, prometheus.node_label)
            for name, query in prometheus.by_resource.items()
        }


class RawMetrics(MetricsUtilization, frozen=True, kw_only=True):
    """The same for who looks at many samples before he acts, and evens nothing out."""

    @property
    def raw(self) -> bool:
        """Whether samples of the metrics API are taken as they come, peaks and all."""
        return True


def questions(metrics: MetricsUtilization | None) -> frozenset[Question]:
    """All that has to be measured for it."""
    return frozenset(metrics.asked.values()) if metrics else frozenset()


def usage_of(metrics: MetricsUtilization | None, view: View) -> Usage:
    """The source of figures; an error where the snapshot holds no answer from it."""
    if metrics is None:
        return Requests(view)
    usual = PEERS_MAX_AGE if view.semantics.figures_judged_together else MAX_AGE
    limit = metrics.oldest or usual
    answers = {name: _answer(question, view) for name, question in metrics.asked.items()}
    if metrics.source == PROMETHEUS:
        return Queried(view, answers, limit)
    return Metered(view, answers[""], limit)


def _answer(question: Question, view: View) -> Readings:
    readings = view.usage.get(question)
    if readings is None:
        asked = (
            f"{question.source}, asked for `{question.query}`"
            if question.query
            else (question.source)
        )
        raise UsageMissingError(
            f"the snapshot holds no usage from {asked}; nothing is moved without it"
        )
    if readings.failure:
        raise UsageMissingError(f"{readings.failure}; nothing is moved without figures")
    return readings


def metrics_problems(
    metrics: MetricsUtilization, **thresholds: Mapping[str, float]
) -> Iterator[Problem]:
    """What is wrong with it, given the thresholds by the keys they stand under."""
    match metrics.source:
        case "KubernetesMetrics":
            yield from _api_problems(metrics)
            yield from _unmeasured(thresholds)
        case "Prometheus":
            yield from _query_problems(metrics.prometheus or Query(), thresholds)
        case "" if metrics.metrics_server:
            yield from _unmeasured(thresholds)
        case _:
            yield Problem(
                what=f"`{metrics.source}` is not a source of metrics",
                fix="write `KubernetesMetrics` or `Prometheus`",
                at=(AT, "source"),
            )
    if metrics.oldest is not None and metrics.oldest <= timedelta():
        yield Problem(
            what=f"`{metrics.max_age}` is no age that a figure could have",
            fix="write one such as `3m`",
            at=(AT, "maxAge"),
        )


def _api_problems(metrics: MetricsUtilization) -> Iterator[Problem]:
    if metrics.metrics_server:
        yield Problem(
            what=f"`metricsServer` does not go together with `source: {KUBERNETES_METRICS}`",
            fix="remove `metricsServer`, which says the same",
            at=(AT, "metricsServer"),
        )
    if metrics.prometheus:
        yield Problem(
            what=f"`prometheus` does not go together with `source: {KUBERNETES_METRICS}`",
            fix=f"remove `prometheus`, or write `source: {PROMETHEUS}`",
            at=(AT, "prometheus"),
        )


def _unmeasured(thresholds: Mapping[str, Mapping[str, float]]) -> Iterator[Problem]:
    for key, names in thresholds.items():
        for name in sorted(names.keys() - set(BASIC)):
            yield Problem(
                what=f"the metrics API does not measure `{name}`",
                fix=f"keep to {', '.join(f'`{it}`' for it in MEASURED)} and `pods`",
                at=(key, name),
            )


def _query_problems(
    prometheus: Query, thresholds: Mapping[str, Mapping[str, float]]
) -> Iterator[Problem]:
    if prometheus.query and prometheus.queries:
        yield Problem(
            what="both `query` and `queries` are set",
            fix="keep one of the two",
            at=(AT, "prometheus"),
        )
        return
    if not prometheus.query and not prometheus.queries:
        yield Problem(
            what="`prometheus.query` is missing",
            fix="write the query whose result, from 0 to 1, is the use of each node",
            at=(AT, "prometheus"),
        )
    for name, query in prometheus.queries.items():
        if not query:
            yield Problem(
                what=f"the query for `{name}` is empty",
                fix="write a query whose result, from 0 to 1, is that use of each node",
                at=(AT, "prometheus", "queries", name),
            )
    if not prometheus.node_label:
        yield Problem(
            what="`nodeLabel` is empty",
            fix=f"name the label that holds the name of the node, such as `{NODE_LABEL}`",
            at=(AT, "prometheus", "nodeLabel"),
        )
    asked = set(prometheus.by_resource)
    for key, names in thresholds.items():
        if names and set(names) != asked:
            only = " and nothing else" if len(asked) == 1 else ", one for each query"
            wanted = ", ".join(f"`{it}`" for it in sorted(asked))
            yield Problem(
                what=f"with Prometheus, `{key}` must name {wanted}{only}",
                fix=f"write {', '.join(f'`{it}: <percent>`' for it in sorted(asked))}",
                at=(key,),
            )
