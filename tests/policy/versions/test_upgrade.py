"""`resettle policy convert`: the text it writes, and that the text means the same."""

from __future__ import annotations

import msgspec
import pytest

from resettle.errors import InputError, PolicyError
from resettle.policy.document import IMPROVED, Policy
from resettle.policy.load import read_policy
from resettle.policy.versions.upgrade import write_policy
from tests.policy.fakes import PLUGINS
from tests.policy.harness import IMPROVED_HEAD, OLD_HEAD, document, load, one_profile
from tests.policy.test_load import GOOD, SIX_MISTAKES

OLD = document(
    """
    evictLocalStoragePods: true
    maxNoOfPodsToEvictPerNode: 10
    strategies:
      PodLifeTime:
        enabled: true
        params:
          podLifeTime: {maxPodLifeTimeSeconds: 604800, podStatusPhases: [Pending]}
          thresholdPriorityClassName: high
      LowNodeUtilization:
        enabled: true
        params:
          nodeResourceUtilizationThresholds:
            thresholds: {cpu: 20}
            targetThresholds: {cpu: 50.5}
    """,
    OLD_HEAD,
)

OLD_CONVERTED = """\
# Written by `resettle policy convert` from a descheduler/v1alpha1 policy.
apiVersion: descheduler/v1alpha2
kind: DeschedulerPolicy
maxNoOfPodsToEvictPerNode: 10
profiles:
  - name: strategy-LowNodeUtilization-profile
    pluginConfig:
      - name: DefaultEvictor
        args:
          evictLocalStoragePods: true
      - name: LowNodeUtilization
        args:
          thresholds:
            cpu: 20
          targetThresholds:
            cpu: 50.5
    plugins:
      balance:
        enabled:
          - LowNodeUtilization
      filter:
        enabled:
          - DefaultEvictor
      preevictionfilter:
        enabled:
          - DefaultEvictor
  - name: strategy-PodLifeTime-profile
    pluginConfig:
      - name: DefaultEvictor
        args:
          priorityThreshold:
            name: high
          evictLocalStoragePods: true
      - name: PodLifeTime
        args:
          maxPodLifeTimeSeconds: 604800
          states:
            - Pending
    plugins:
      deschedule:
        enabled:
          - PodLifeTime
      filter:
        enabled:
          - DefaultEvictor
      preevictionfilter:
        enabled:
          - DefaultEvictor
"""

TRICKY = one_profile(
    """
    plugins: {deschedule: {enabled: [RemoveFailedPods, RemovePodsViolatingNodeTaints]}}
    pluginConfig:
    - name: RemoveFailedPods
      args:
        reasons: ["yes", "y", "1e3", "010", "0o7", "1:30", "null", "", "~", "a: b", "2024-01-02"]
        labelSelector: {}
    - name: RemovePodsViolatingNodeTaints
      args: {includedTaints: []}
    """
)


def body(text: str) -> str:
    """The text without its first line, which says where it came from."""
    return text.split("\n", 1)[1]


def meaning(policy: Policy) -> Policy:
    """The policy apart from how and where it was written."""
    return msgspec.structs.replace(policy, api_version="", warnings=())


def convert(text: str) -> str:
    return write_policy(read_policy(text, name="p", plugins=PLUGINS), "p")


def improve(text: str) -> str:
    return write_policy(read_policy(text, name="p", plugins=PLUGINS, improved=True), "p", IMPROVED)


def test_an_old_policy_is_written_in_the_newer_shape() -> None:
    assert convert(OLD) == OLD_CONVERTED


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(OLD, id="v1alpha1"),
        pytest.param(GOOD, id="v1alpha2"),
        pytest.param(TRICKY, id="words that need quotes, and empty things"),
        pytest.param(
            document(
                """
                metricsCollector: {enabled: true}
                metricsProviders:
                - source: Prometheus
                  prometheus:
                    url: http://p
                    authToken: {secretReference: {name: a, namespace: b}}
                """
            ),
            id="metrics",
        ),
    ],
)
def test_the_text_written_means_the_same_and_stays_as_it_is(text: str) -> None:
    written = convert(text)

    assert meaning(load(written)) == meaning(load(text))
    assert body(convert(written)) == body(written)


def test_a_policy_with_mistakes_is_not_converted() -> None:
    with pytest.raises(PolicyError, match="p has 6 problems"):
        convert(SIX_MISTAKES)


def test_what_the_older_version_cannot_express_is_refused() -> None:
    with pytest.raises(InputError, match="`descheduler/v1alpha2` cannot express"):
        convert(IMPROVED_HEAD)


# -- to resettle/v1 -------------------------------------------------------------------------------

SORTED = one_profile(
    """
    plugins:
      presort: {enabled: [ByAge]}
      deschedule: {enabled: [RemoveFailedPods, PodLifeTime], disabled: [PodLifeTime]}
      filter: {disabled: [DefaultEvictor]}
    pluginConfig:
    - {name: DefaultEvictor, args: {nodeFit: false, minReplicas: 0}}
    - {name: RemoveFailedPods}
    """
)

SORTED_IMPROVED = """\
# Written by `resettle policy convert` from a descheduler/v1alpha2 policy.
apiVersion: resettle/v1
kind: DeschedulerPolicy
profiles:
  - name: it
    pluginConfig:
      - name: DefaultEvictor
        args:
          nodeFit: false
          minReplicas: 0
      - name: RemoveFailedPods
      - name: ByAge
    plugins:
      presort:
        enabled:
          - ByAge
      deschedule:
        enabled:
          - RemoveFailedPods
      filter:
        disabled:
          - DefaultEvictor
      preevictionfilter:
        enabled:
          - DefaultEvictor
"""


def test_what_was_inert_is_written_so_that_it_works_and_what_was_said_stays_said() -> None:
    assert improve(SORTED) == SORTED_IMPROVED


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(OLD, id="v1alpha1"),
        pytest.param(GOOD, id="v1alpha2"),
        pytest.param(TRICKY, id="words that need quotes, and empty things"),
        pytest.param(SORTED, id="what was inert"),
        pytest.param(SORTED_IMPROVED, id="resettle/v1"),
        pytest.param(IMPROVED_HEAD + "maxPercentOfPodsToEvict: 2.5", id="keys of our own"),
    ],
)
def test_the_improved_text_means_what_was_read_and_stays_as_it_is(text: str) -> None:
    improved = improve(text)
    read = read_policy(text, name="p", plugins=PLUGINS, improved=True).policy

    assert load(improved).api_version == "resettle/v1"
    assert meaning(load(improved)) == meaning(read)
    assert body(improve(improved)) == body(improved)


def test_a_key_of_our_own_in_an_older_policy_survives_its_conversion() -> None:
    early = document("maxPercentOfPodsToEvict: 5")

    assert "maxPercentOfPodsToEvict: 5\n" in improve(early)
    with pytest.raises(PolicyError, match="belongs to"):
        convert(early)


def test_what_our_own_policies_do_not_forgive_must_be_fixed_first() -> None:
    twice = one_profile("pluginConfig: [{name: RemoveFailedPods}, {name: RemoveFailedPods}]")

    assert "RemoveFailedPods" in convert(twice)
    with pytest.raises(PolicyError, match="configured twice"):
        improve(twice)
