"""`metricsUtilization` of a policy: its checks, what has to be measured for it, and its `Usage`."""

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
    MetricsQuery,
    Readings,
)
from resettle.policy.args import Duration, parse_duration
from resettle.policy.document import ResettleOnly
from resettle.policy.problems import Problem
from resettle.utilization.measured_usage import MEASURED, METRIC, MetricsApiUsage, PrometheusUsage
from resettle.utilization.usage import BASIC, RequestedUsage, Usage, UsageMissingError

AT = "metricsUtilization"
MAX_AGE = timedelta(minutes=3)
"""How old a figure may be, where the policy does not say."""
UPSTREAM_MAX_AGE = timedelta(minutes=5)
"""The default for policies in upstream's format: how far back Prometheus looks for a sample."""


class Query(Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """What Prometheus is asked."""

    query: str = ""
    """A query that answers with a number from 0 to 1 for each node."""
    queries: ResettleOnly[dict[str, str]] = {}
    """Several such queries; thresholds then have these names."""
    node_label: ResettleOnly[str] = NODE_LABEL
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
    """Older form of `source: KubernetesMetrics`."""
    source: str = ""
    """`KubernetesMetrics` (the metrics API) or `Prometheus`."""
    prometheus: Query | None = None
    """Settings of the source `Prometheus`."""
    max_age: ResettleOnly[Duration | None] = None
    """Figures older than this are not used; three minutes by default."""

    @property
    def raw(self) -> bool:
        """Whether samples of the metrics API are taken as they come, peaks and all."""
        return False

    @property
    def max_age_set(self) -> timedelta | None:
        """How old a figure may be, if the policy says so."""
        return None if self.max_age is None else parse_duration(self.max_age)

    @property
    def questions(self) -> Mapping[str, MetricsQuery]:
        """The questions, by the resource they measure; the name is empty for the metrics API."""
        if self.source != PROMETHEUS:
            return {"": METRICS_API if self.raw else SMOOTHED}
        prometheus = self.prometheus or Query()
        return {
            name: MetricsQuery(PROMETHEUS, query, prometheus.node_label)
            for name, query in prometheus.by_resource.items()
        }


class RawMetricsUtilization(MetricsUtilization, frozen=True, kw_only=True):
    """Like MetricsUtilization, but raw samples: for plugins that do their own smoothing."""

    @property
    def raw(self) -> bool:
        """Whether samples of the metrics API are taken as they come, peaks and all."""
        return True


def usage_questions(metrics: MetricsUtilization | None) -> frozenset[MetricsQuery]:
    """All that has to be measured for these arguments."""
    return frozenset(metrics.questions.values()) if metrics else frozenset()


def usage_of(metrics: MetricsUtilization | None, view: View) -> Usage:
    """The source of figures; an error where the snapshot holds no answer from it."""
    if metrics is None:
        return RequestedUsage(view)
    usual = UPSTREAM_MAX_AGE if view.semantics.figures_judged_together else MAX_AGE
    limit = metrics.max_age_set or usual
    answers = {name: _answer(question, view) for name, question in metrics.questions.items()}
    if metrics.source == PROMETHEUS:
        return PrometheusUsage(view, answers, limit)
    return MetricsApiUsage(view, answers[""], limit)


def _answer(question: MetricsQuery, view: View) -> Readings:
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
    """What is wrong with it, given the thresholds by their keys."""
    match metrics.source:
        case "KubernetesMetrics":
            yield from _api_problems(metrics)
            yield from _unmeasured_problems(thresholds)
        case "Prometheus":
            yield from _query_problems(metrics.prometheus or Query(), thresholds)
        case "" if metrics.metrics_server:
            yield from _unmeasured_problems(thresholds)
        case _:
            yield Problem(
                what=f"`{metrics.source}` is not a source of metrics",
                fix="write `KubernetesMetrics` or `Prometheus`",
                at=(AT, "source"),
            )
    if metrics.max_age_set is not None and metrics.max_age_set <= timedelta():
        yield Problem(
            what=f"`{metrics.max_age}` is not a possible age of a figure",
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


def _unmeasured_problems(thresholds: Mapping[str, Mapping[str, float]]) -> Iterator[Problem]:
    for key, names in thresholds.items():
        for name in sorted(names.keys() - set(BASIC)):
            yield Problem(
                what=f"the metrics API does not measure `{name}`",
                fix=f"keep to {', '.join(f'`{resource}`' for resource in MEASURED)} and `pods`",
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
            wanted = ", ".join(f"`{resource}`" for resource in sorted(asked))
            yield Problem(
                what=f"with Prometheus, `{key}` must name {wanted}{only}",
                fix=f"write {', '.join(f'`{name}: <percent>`' for name in sorted(asked))}",
                at=(key,),
            )
