"""The rules of a whole document: node selector, limits, providers of metrics, soft taints."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable

from resettle.errors import InputError
from resettle.model.selectors import EVERYTHING, Selector, parse_selector
from resettle.policy.args import ExtensionPoint
from resettle.policy.document import (
    BALANCER,
    AuthToken,
    Limits,
    MetricsProvider,
    PolicyDocument,
    Profile,
    Prometheus,
    SoftTaints,
)
from resettle.policy.problems import Report, did_you_mean
from resettle.policy.versions.upstream_differences import PERCENT_OF_NODES, PERCENT_OF_PODS
from resettle.policy.yaml.source import KeyPath

_WEB_ADDRESS = re.compile(
    r"https?://"
    r"([^\s/?#@]*@)?"  # user and password
    r"([^\s/?#@:\[\]]+|\[[0-9A-Fa-f:.]+\])"  # host, or an IPv6 address in brackets
    r"(:\d{1,5})?"
    r"([/?#]\S*)?",
    re.IGNORECASE,
)
SOURCES = ("KubernetesMetrics", "Prometheus")


def node_selector(document: PolicyDocument, report: Report) -> Selector:
    """The nodes the policy keeps to; all of them when it does not say."""
    if document.node_selector is None:
        return EVERYTHING
    try:
        return parse_selector(document.node_selector)
    except InputError as error:
        report.error(("nodeSelector",), str(error))
        return EVERYTHING


def limits(document: PolicyDocument, *, improved: bool) -> Limits:
    """The limits of a cycle; in `resettle/v1` shares of the cluster where nothing is written."""
    total = document.max_no_of_pods_to_evict_total
    pods = document.max_percent_of_pods_to_evict
    nodes = document.max_percent_of_nodes_to_evict_from
    if improved and pods is None and total is None:
        pods = PERCENT_OF_PODS
    if improved and nodes is None:
        nodes = PERCENT_OF_NODES
    return Limits(
        total=total,
        node=document.max_no_of_pods_to_evict_per_node,
        namespace=document.max_no_of_pods_to_evict_per_namespace,
        percent_of_pods=pods,
        percent_of_nodes=nodes,
    )


def metrics_providers(
    document: PolicyDocument, report: Report, *, improved: bool
) -> tuple[MetricsProvider, ...]:
    """The providers, once each rule about them was asked."""
    found: dict[str, int] = {}
    for index, provider in enumerate(document.metrics_providers):
        if provider is None:
            continue
        path: KeyPath = ("metricsProviders", index)
        source = provider.source
        if source in found:
            what = f"`{source}` is a source already, as `metricsProviders[{found[source]}]`"
            report.error((*path, "source"), what, "keep one of the two")
        found.setdefault(source, index)
        if source not in SOURCES:
            note = report.error if improved else report.warn
            _check_known(source, (*path, "source"), note)
        if source == "KubernetesMetrics" and document.metrics_collector.enabled:
            what = "`KubernetesMetrics` is switched on by `metricsCollector` as well"
            report.error((*path, "source"), what, "remove `metricsCollector`")
        if source == "Prometheus":
            _check_prometheus(provider.prometheus, (*path, "prometheus"), report)
    return tuple(filter(None, document.metrics_providers))


def _check_known(source: str, path: KeyPath, note: Callable[[KeyPath, str, str], None]) -> None:
    """Notes a source nobody reads from."""
    what = f"no source of metrics is named `{source}`" if source else "`source` is missing"
    note(path, what, did_you_mean(source, SOURCES))


def _check_prometheus(prometheus: Prometheus | None, path: KeyPath, report: Report) -> None:
    """Reports what keeps a Prometheus server from being asked."""
    if prometheus is None:
        what = "the source `Prometheus` needs a `prometheus` block"
        report.error(path, what, "add `prometheus:` with its `url`")
        return
    if report.faulty((*path, "url")):
        pass
    elif not prometheus.url:
        fix = "write one such as `http://prometheus.monitoring:9090`"
        report.error((*path, "url"), "`url` is missing", fix)
    elif not _WEB_ADDRESS.fullmatch(prometheus.url):
        what = f"`{prometheus.url}` is not a web address"
        report.error((*path, "url"), what, "write one such as `http://prometheus.monitoring:9090`")
    if prometheus.auth_token is not None and prometheus.token_file:
        what = "both `authToken` and `tokenFile` are set"
        report.error((*path, "tokenFile"), what, "keep one of the two")
    if prometheus.auth_token is not None:
        _check_token(prometheus.auth_token, (*path, "authToken"), report)


def _check_token(token: AuthToken, path: KeyPath, report: Report) -> None:
    """Reports an `authToken` that names no Secret."""
    if report.faulty(path):
        return
    reference = token.secret_reference
    if reference is None:
        what = "`authToken` needs a `secretReference`"
        report.error((*path, "secretReference"), what, "add it with `namespace` and `name`")
        return
    for key, value in (("namespace", reference.namespace), ("name", reference.name)):
        if not value:
            what = f"`{key}` of the Secret is missing"
            report.error((*path, "secretReference", key), what, f"add `{key}`")


def soft_taints(
    document: PolicyDocument, profiles: Iterable[Profile], report: Report
) -> SoftTaints:
    """How nodes are marked, once each rule about it was asked."""
    chosen = document.soft_taints
    for problem in chosen.problems():
        report.add(problem.under("softTaints"))
    balancing = [it.name for it in profiles if BALANCER in it.enabled[ExtensionPoint.BALANCE]]
    if chosen.profile and chosen.profile not in balancing:
        what = f"no profile named `{chosen.profile}` balances with {BALANCER}"
        report.error(("softTaints", "profile"), what, did_you_mean(chosen.profile, balancing))
    return chosen
