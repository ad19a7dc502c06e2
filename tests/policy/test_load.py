"""A whole policy: what comes back, and that all of its mistakes are reported together."""

from __future__ import annotations

import json

import pytest

from resettle.errors import PolicyError
from resettle.model.selectors import EVERYTHING, parse_selector
from resettle.policy.args import ExtensionPoint
from resettle.policy.document import Limits, MetricsProvider, Prometheus
from resettle.policy.load import load_policy
from tests.policy.harness import HEAD, document, errors, load, one_profile, warnings

from .fakes import PLUGINS, EvictorArgs, LifeArgs, LowArgs

GOOD = """\
apiVersion: descheduler/v1alpha2
kind: DeschedulerPolicy
nodeSelector: pool=blue
maxNoOfPodsToEvictPerNode: 5
maxNoOfPodsToEvictPerNamespace: 0
maxNoOfPodsToEvictTotal: 50
gracePeriodSeconds: 30
evictionFailureEventNotification: true
metricsProviders:
  - source: Prometheus
    prometheus:
      url: http://prometheus:9090
profiles:
  - name: main
    pluginConfig:
      - name: DefaultEvictor
        args:
          nodeFit: true
      - name: PodLifeTime
        args:
          maxPodLifeTimeSeconds: 3600
      - name: LowNodeUtilization
        args:
          thresholds: {cpu: 20, memory: 20.5}
          targetThresholds: {cpu: 50, memory: 50}
    plugins:
      deschedule:
        enabled: [PodLifeTime]
      balance:
        enabled: [LowNodeUtilization]
"""

SIX_MISTAKES = """\
apiVersion: descheduler/v1alpha2
kind: DeschedulerPolicy
maxNoOfPodsToEvictPerNode: "5"
profiles:
  - name: main
    labelSelector: {}
    pluginConfig:
      - name: DefaultEvictor
        args:
          nodeFitt: true
      - name: LowNodeUtilization
        args:
          thresholds:
            cpu: 120
          targetThresholds:
            cpu: 50
    plugins:
      balance:
        enabled:
          - LowNodeUtilisation
      preEvictionFilter:
        enabled: [DefaultEvictor]
"""

SIX_PROBLEMS = """\
policy.yaml has 6 problems
policy.yaml:3:28: maxNoOfPodsToEvictPerNode
    `"5"` is not a whole number; remove the quotes
policy.yaml:6:5: profiles[0].labelSelector
    `labelSelector` belongs under `pluginConfig[].args`, not here
policy.yaml:10:11: profiles[0].pluginConfig[0].args.nodeFitt
    `nodeFitt` is not a key known here; did you mean `nodeFit`?
policy.yaml:14:18: profiles[0].pluginConfig[1].args.thresholds.cpu
    120 is not a percentage; write a number from 0 to 100
policy.yaml:20:13: profiles[0].plugins.balance.enabled[0]
    no plugin is named `LowNodeUtilisation`; did you mean `LowNodeUtilization`?
policy.yaml:21:7: profiles[0].plugins.preEvictionFilter
    `preEvictionFilter` is not a key known here; did you mean `preevictionfilter`?"""


def test_a_good_policy_comes_back_complete() -> None:
    policy = load(GOOD)

    (profile,) = policy.profiles
    assert policy.api_version == "descheduler/v1alpha2"
    assert not policy.improved
    assert policy.node_selector == parse_selector("pool=blue")
    assert policy.limits == Limits(total=50, node=5, namespace=0)
    assert policy.delete_options.grace_period_seconds == 30
    assert policy.eviction_failure_event_notification
    assert not policy.metrics_collector
    assert policy.metrics_providers == (
        MetricsProvider(source="Prometheus", prometheus=Prometheus(url="http://prometheus:9090")),
    )
    assert policy.warnings == ()
    assert profile.name == "main"
    assert profile.args == {
        "DefaultEvictor": EvictorArgs(node_fit=True),
        "PodLifeTime": LifeArgs(max_pod_life_time_seconds=3600),
        "LowNodeUtilization": LowArgs(
            thresholds={"cpu": 20.0, "memory": 20.5}, target_thresholds={"cpu": 50, "memory": 50}
        ),
    }
    assert profile.enabled == {
        "presort": (),
        "sort": (),
        "deschedule": ("PodLifeTime",),
        "balance": ("LowNodeUtilization",),
        "filter": ("DefaultEvictor",),
        "preevictionfilter": ("DefaultEvictor",),
        "evict": (),
        "controller": (),
    }


def test_a_policy_without_profiles_is_legal_and_says_nothing_else() -> None:
    policy = load(HEAD)

    assert policy.profiles == ()
    assert policy.limits == Limits()
    assert policy.node_selector == EVERYTHING
    assert policy.delete_options.grace_period_seconds is None


def test_six_mistakes_are_reported_together_with_their_places() -> None:
    with pytest.raises(PolicyError) as raised:
        load_policy(SIX_MISTAKES, name="policy.yaml", plugins=PLUGINS)

    assert str(raised.value) == SIX_PROBLEMS
    assert [problem.line for problem in raised.value.problems] == [3, 6, 10, 14, 20, 21]
    assert {problem.severity for problem in raised.value.problems} == {"error"}


def test_one_problem_is_counted_in_the_singular() -> None:
    with pytest.raises(PolicyError, match=r"^p has 1 problem\n"):
        load(HEAD + "profile: []\n")


def test_json_is_read_as_well() -> None:
    text = json.dumps(
        {
            "apiVersion": "descheduler/v1alpha2",
            "kind": "DeschedulerPolicy",
            "maxNoOfPodsToEvictTotal": 3,
            "profiles": [
                {
                    "name": "main",
                    "pluginConfig": [{"name": "RemoveFailedPods", "args": {"reasons": ["OOM"]}}],
                    "plugins": {"deschedule": {"enabled": ["RemoveFailedPods"]}},
                }
            ],
        },
        indent="\t",
    )

    assert load(text).limits.total == 3
    assert load(text.encode()).profiles[0].enabled[ExtensionPoint.DESCHEDULE] == (
        "RemoveFailedPods",
    )


@pytest.mark.parametrize(
    "body",
    [
        pytest.param("profiles:", id="no profiles"),
        pytest.param("profiles: null", id="profiles null"),
        pytest.param("profiles: [{name: a, pluginConfig: null, plugins: ~}]", id="empty parts"),
        pytest.param("profiles: [{name: a, plugins: {filter: null}}]", id="an empty point"),
        pytest.param("profiles: [{name: a, plugins: {sort: {enabled: null}}}]", id="no names"),
        pytest.param(
            "profiles: [{pluginConfig: [{name: DefaultEvictor, args: null}]}]", id="args null"
        ),
        pytest.param("nodeSelector: null\nmetricsCollector:", id="top-level nulls"),
    ],
)
def test_a_key_without_a_value_counts_as_not_written(body: str) -> None:
    assert errors(document(body)) == []
    assert warnings(document(body)) == []


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        pytest.param(
            "kind: DeschedulerPolicy\nprofiles: []",
            "1:1: apiVersion `apiVersion` is missing; add `apiVersion: descheduler/v1alpha2`",
            id="no apiVersion",
        ),
        pytest.param(
            "apiVersion: descheduler/v1alpha3\nkind: DeschedulerPolicy",
            "1:13: apiVersion no policy has the apiVersion `descheduler/v1alpha3`; "
            "did you mean `descheduler/v1alpha2`?",
            id="an apiVersion that does not exist",
        ),
        pytest.param(
            "apiVersion: descheduler/v1alpha2",
            "1:1: kind `kind` is missing; add `kind: DeschedulerPolicy`",
            id="no kind",
        ),
        pytest.param(
            "apiVersion: descheduler/v1alpha2\nkind: Policy",
            "2:7: kind `Policy` is not a kind of policy; write `kind: DeschedulerPolicy`",
            id="another kind",
        ),
        pytest.param(
            "apiVersion: v1\nkind: ConfigMap\ndata: {}",
            "2:7: kind this is a ConfigMap, not the policy inside it; "
            "check the text under its `data`",
            id="the ConfigMap around a policy",
        ),
        pytest.param(
            "kind: DeschedulerPolicy\nstrategies: {PodLifetime: {}}",
            "1:1: apiVersion `apiVersion` is missing; add `apiVersion: descheduler/v1alpha2`",
            id="an old document is still read as one",
        ),
    ],
)
def test_the_envelope_must_be_right(text: str, problem: str) -> None:
    assert errors(text)[0] == problem


def test_a_missing_api_version_does_not_hide_the_other_mistakes() -> None:
    assert len(errors("kind: DeschedulerPolicy\nprofils: []\nnodeSelector: '='")) == 3


def test_warnings_come_with_a_policy_that_loads_and_with_one_that_does_not() -> None:
    inert = "plugins: {sort: {enabled: [ByAge]}}\n"

    assert warnings(one_profile(inert)) == warnings(one_profile(inert + "nme: x\n"))
    assert len(warnings(one_profile(inert))) == 1
