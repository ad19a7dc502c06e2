"""The rules of the top level: limits, node selector, metrics."""

from __future__ import annotations

import pytest

from tests.policy.harness import HEAD, IMPROVED_HEAD, document, errors, load, warnings

URL_FIX = "write one such as `http://prometheus.monitoring:9090`"


@pytest.mark.parametrize(
    ("body", "problem"),
    [
        pytest.param(
            "nodeSelector: 'pool in (a'",
            "3:15: nodeSelector `pool in (a` is not a label selector: stuck at `pool in (a`; "
            "write terms such as `key=value`, `key!=value`, `key in (a,b)`, `key` or `!key`, "
            "separated by commas",
            id="node selector",
        ),
        pytest.param(
            "maxNoOfPodsToEvictTotal: -1",
            "3:26: maxNoOfPodsToEvictTotal -1 is out of range; write a whole number of 0 or more",
            id="negative limit",
        ),
        pytest.param(
            "gracePeriodSeconds: -5",
            "3:21: gracePeriodSeconds -5 is out of range; write a whole number of 0 or more",
            id="negative grace period",
        ),
        pytest.param(
            "metricsProviders: [{source: KubernetesMetrics}, {source: KubernetesMetrics}]",
            "3:58: metricsProviders[1].source `KubernetesMetrics` is a source already, "
            "as `metricsProviders[0]`; keep one of the two",
            id="rule 3: one source twice",
        ),
        pytest.param(
            "metricsCollector: {enabled: true}\nmetricsProviders: [{source: KubernetesMetrics}]",
            "4:29: metricsProviders[0].source `KubernetesMetrics` is switched on by "
            "`metricsCollector` as well; remove `metricsCollector`",
            id="rule 4: two switches for one thing",
        ),
        pytest.param(
            "metricsProviders: [{source: Prometheus}]",
            "3:20: metricsProviders[0].prometheus the source `Prometheus` needs a `prometheus` "
            "block; add `prometheus:` with its `url`",
            id="rule 5: no block",
        ),
        pytest.param(
            "metricsProviders: [{source: Prometheus, prometheus: {}}]",
            f"3:53: metricsProviders[0].prometheus.url `url` is missing; {URL_FIX}",
            id="rule 6: no url",
        ),
        pytest.param(
            "metricsProviders: [{source: Prometheus, prometheus: {url: 'prom:9090'}}]",
            f"3:59: metricsProviders[0].prometheus.url `prom:9090` is not a web address; {URL_FIX}",
            id="rule 6: not a url",
        ),
        pytest.param(
            "metricsProviders: [{source: Prometheus, "
            "prometheus: {url: 'http://p', authToken: {}}}]",
            "3:82: metricsProviders[0].prometheus.authToken.secretReference "
            "`authToken` needs a `secretReference`; add it with `namespace` and `name`",
            id="rule 7: no reference",
        ),
        pytest.param(
            "metricsProviders: [{source: Prometheus, prometheus: {url: 'http://p', "
            "authToken: {secretReference: {name: t}}}}]",
            "3:100: metricsProviders[0].prometheus.authToken.secretReference.namespace "
            "`namespace` of the Secret is missing; add `namespace`",
            id="rule 7: half a reference",
        ),
        pytest.param(
            "nodeselector: a=b",
            "3:1: nodeselector `nodeselector` is not a key known here; "
            "did you mean `nodeSelector`?",
            id="wrong case",
        ),
        pytest.param(
            "pluginConfig: []",
            "3:1: pluginConfig `pluginConfig` belongs under `profiles[]`, not here",
            id="a key of a profile",
        ),
        pytest.param(
            "nodeFit: true",
            "3:1: nodeFit `nodeFit` belongs under `pluginConfig[].args` of `DefaultEvictor`, "
            "not here",
            id="an argument",
        ),
        pytest.param(
            "strategies: {}",
            "3:1: strategies `strategies` belongs to `apiVersion: descheduler/v1alpha1`, not here",
            id="a key of the old version",
        ),
    ],
)
def test_a_mistake_at_the_top_level_is_reported(body: str, problem: str) -> None:
    assert errors(document(body)) == [problem]


@pytest.mark.parametrize(
    "body",
    [
        "nodeSelector: ''",
        "nodeSelector: 'pool in (a,b),!gpu'",
        "maxNoOfPodsToEvictTotal: 0",
        "metricsCollector: {enabled: true}\n"
        "metricsProviders: [{source: Prometheus, prometheus: {url: 'https://p/x?y'}}]",
        "metricsProviders: [{source: Prometheus, prometheus: {url: 'http://[::1]:9090', "
        "authToken: {secretReference: {name: t, namespace: ns}}}}, {source: KubernetesMetrics}]",
    ],
)
def test_what_is_legal_passes_without_a_word(body: str) -> None:
    assert errors(document(body)) == []
    assert warnings(document(body)) == []


def test_an_unknown_source_is_a_warning_for_the_original_and_a_mistake_for_ours() -> None:
    body = "metricsProviders: [{source: Prometeus}]"
    problem = (
        "3:29: metricsProviders[0].source no source of metrics is named `Prometeus`; "
        "did you mean `Prometheus`?"
    )

    assert warnings(HEAD + body) == [problem]
    assert errors(HEAD + body) == []
    assert errors(IMPROVED_HEAD + body) == [problem]


def test_limits_of_zero_are_limits() -> None:
    assert load(document("maxNoOfPodsToEvictPerNode: 0")).limits.node == 0


def test_files_for_prometheus_are_ours_and_a_token_comes_from_one_place() -> None:
    reference = "authToken: {secretReference: {name: t, namespace: ns}}"
    head = "metricsProviders: [{source: Prometheus, prometheus: {url: 'https://p'"
    files = f"{head}, caFile: /ca.pem, tokenFile: /token}}}}]"
    both = f"{head}, tokenFile: /token, {reference}}}}}]"

    assert errors(IMPROVED_HEAD + files) == []
    assert len(errors(HEAD + files)) == 2
    (problem,) = errors(IMPROVED_HEAD + both)
    assert "both `authToken` and `tokenFile` are set; keep one of the two" in problem
