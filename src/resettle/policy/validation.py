"""Checks of the top level: node selector, limits, delete options, metrics, soft taints.

Each function returns the value for the `Policy` and reports what is wrong with it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable

from msgspec import structs

from resettle.errors import InputError
from resettle.model.selectors import EVERYTHING, Selector, parse_selector
from resettle.policy.args import FILTER_POINTS, Args, ExtensionPoint, KnownPlugins
from resettle.policy.document import (
    BALANCER,
    AuthToken,
    Limits,
    MetricsProvider,
    PodDeleteOptions,
    PolicyDocument,
    ProfileConfig,
    Prometheus,
    SoftTaints,
)
from resettle.policy.problems import ProblemCollector, did_you_mean
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


def node_selector(document: PolicyDocument, report: ProblemCollector) -> Selector:
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


def delete_options(document: PolicyDocument, report: ProblemCollector) -> PodDeleteOptions:
    """How evicted pods are deleted, after every check of it."""
    options, grace = document.delete_options, document.grace_period_seconds
    if options.propagation_policy is not None and options.orphan_dependents is not None:
        what = "both `propagationPolicy` and `orphanDependents` are set"
        report.error(("deleteOptions", "orphanDependents"), what, "keep `propagationPolicy`")
    if grace is None:
        return options
    if options.grace_period_seconds is not None:
        what = "`gracePeriodSeconds` is set here and at the top of the policy"
        report.error(("deleteOptions", "gracePeriodSeconds"), what, "keep one of the two")
    return structs.replace(options, grace_period_seconds=grace)


def metrics_providers(
    document: PolicyDocument, report: ProblemCollector, *, improved: bool
) -> tuple[MetricsProvider, ...]:
    """The providers, after every check of them."""
    first_index: dict[str, int] = {}
    for index, provider in enumerate(document.metrics_providers):
        if provider is None:
            continue
        path: KeyPath = ("metricsProviders", index)
        source = provider.source
        if source in first_index:
            what = f"`{source}` is a source already, as `metricsProviders[{first_index[source]}]`"
            report.error((*path, "source"), what, "keep one of the two")
        first_index.setdefault(source, index)
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
    """Report a source of metrics that does not exist."""
    what = f"no source of metrics is named `{source}`" if source else "`source` is missing"
    note(path, what, did_you_mean(source, SOURCES))


def _check_prometheus(
    prometheus: Prometheus | None, path: KeyPath, report: ProblemCollector
) -> None:
    """Report what keeps a Prometheus server from being queried."""
    if prometheus is None:
        what = "the source `Prometheus` needs a `prometheus` block"
        report.error(path, what, "add `prometheus:` with its `url`")
        return
    if report.is_faulty((*path, "url")):
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


def _check_token(token: AuthToken, path: KeyPath, report: ProblemCollector) -> None:
    """Report an `authToken` that names no Secret."""
    if report.is_faulty(path):
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


def check_moves_by_controllers(
    profiles: Iterable[ProfileConfig], plugins: KnownPlugins, report: ProblemCollector
) -> None:
    """Check plugins that ask for moves as movers, and carry them out as controllers.

    One controller carries out all that is asked for, by the filters of its own profile.
    """
    profiles = list(profiles)
    for name, plugin in plugins.items():
        if not {ExtensionPoint.EVICT, ExtensionPoint.CONTROLLER} <= plugin.points:
            continue
        carrying = [
            (index, profile)
            for index, profile in enumerate(profiles)
            if name in profile.enabled[ExtensionPoint.CONTROLLER]
        ]
        for place, (index, profile) in enumerate(carrying):
            path: KeyPath = ("profiles", index, "plugins", "controller", "enabled")
            if place:
                what = f"`{name}` is a controller of profile `{carrying[0][1].name}` already"
                report.error(path, what, "keep one: it carries out the moves of all profiles")
            elif name not in profile.enabled[ExtensionPoint.EVICT]:
                what = f"`{name}` carries out moves that this profile does not know of"
                report.error(path, what, f"enable `{name}` under `evict` as well")
            else:
                _check_same_filters(name, profile, profiles, report)


def _check_same_filters(
    name: str, own: ProfileConfig, profiles: list[ProfileConfig], report: ProblemCollector
) -> None:
    for index, other in enumerate(profiles):
        if name in other.enabled[ExtensionPoint.EVICT] and filters_of(other) != filters_of(own):
            what = (
                f"`{name}` would carry out the moves of `{other.name}` by the filters of"
                f" `{own.name}`, which differ"
            )
            path: KeyPath = ("profiles", index, "plugins", "evict", "enabled")
            report.error(path, what, "give both profiles the same filters with the same arguments")


def filters_of(profile: ProfileConfig) -> list[tuple[ExtensionPoint, str, Args | None]]:
    """The filters of a profile in order, each with its arguments."""
    return [
        (point, name, profile.args.get(name))
        for point in FILTER_POINTS
        for name in profile.enabled[point]
    ]


def soft_taints(
    document: PolicyDocument, profiles: Iterable[ProfileConfig], report: ProblemCollector
) -> SoftTaints:
    """The settings of soft taints, after every check of them."""
    chosen = document.soft_taints
    for problem in chosen.problems():
        report.add(problem.under("softTaints"))
    balancing = [
        profile.name for profile in profiles if BALANCER in profile.enabled[ExtensionPoint.BALANCE]
    ]
    if chosen.profile and chosen.profile not in balancing:
        what = f"no profile named `{chosen.profile}` balances with {BALANCER}"
        report.error(("softTaints", "profile"), what, did_you_mean(chosen.profile, balancing))
    return chosen
