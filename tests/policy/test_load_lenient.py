"""Mistakes that the original hides, taken as it takes them: with a warning, and no worse.

What each comes to was seen with kubernetes-sigs/descheduler v0.36.0: whether it ran, and by what.
"""

from __future__ import annotations

import pytest

from resettle.errors import PolicyError
from resettle.framework import default_registry
from resettle.policy.args import ExtensionPoint
from resettle.policy.document import Policy
from resettle.policy.load import load_policy
from tests.policy.harness import HEAD, IMPROVED_HEAD, OLD_HEAD, errors, one_line_each

KIND = "kind: DeschedulerPolicy\n"
VERSION = "apiVersion: descheduler/v1alpha2\n"
PROFILE = """\
profiles:
- name: main
  pluginConfig:
  - name: PodLifeTime
    args: {maxPodLifeTimeSeconds: 60}
  plugins:
    deschedule:
      enabled: [PodLifeTime]
"""
AT_WORK = [("PodLifeTime",)]


def forgiven(text: str) -> Policy:
    return load_policy(text, name="p", plugins=default_registry(), lenient=True)


def at_work(policy: Policy) -> list[tuple[str, ...]]:
    """What each profile deschedules with."""
    return [profile.enabled[ExtensionPoint.DESCHEDULE] for profile in policy.profiles]


@pytest.mark.parametrize(
    ("text", "works", "says"),
    [
        pytest.param(
            HEAD + "maxNoOfPodsToEvictPerNodes: 3\n" + PROFILE,
            AT_WORK,
            "3:1: maxNoOfPodsToEvictPerNodes `maxNoOfPodsToEvictPerNodes` is not a key known here; "
            "did you mean `maxNoOfPodsToEvictPerNode`?",
            id="a key misspelt",
        ),
        pytest.param(
            HEAD + "maxPercentOfPodsToEvict: 3\n" + PROFILE,
            AT_WORK,
            "3:1: maxPercentOfPodsToEvict `maxPercentOfPodsToEvict` belongs to "
            "`apiVersion: resettle/v1`; remove it, or convert the policy: "
            "`resettle policy convert --to resettle/v1`",
            id="a key that the original does not have",
        ),
        pytest.param(
            HEAD + PROFILE.replace("deschedule:", "Deschedule:"),
            [()],
            "9:5: profiles[0].plugins.Deschedule `Deschedule` is not a key known here; "
            "did you mean `deschedule`?",
            id="a key in the wrong case",
        ),
        pytest.param(
            KIND + PROFILE,
            [],
            "1:1: apiVersion `apiVersion` is missing, so nothing in this policy is used; "
            "add `apiVersion: descheduler/v1alpha2`",
            id="no apiVersion",
        ),
        pytest.param(
            VERSION + PROFILE,
            AT_WORK,
            "1:1: kind `kind` is missing; add `kind: DeschedulerPolicy`",
            id="no kind",
        ),
        pytest.param(
            HEAD + PROFILE + "---\n" + HEAD,
            AT_WORK,
            "12:1: a second document starts here, and a policy is one document; "
            "remove it and the `---` before it, or give it a file of its own",
            id="a second document",
        ),
        pytest.param(
            HEAD + PROFILE + "-\n",
            [*AT_WORK, ()],
            "11:2: profiles[1] there is nothing after this `-`; remove the line",
            id="an empty profile",
        ),
    ],
)
def test_what_the_original_hides_is_warned_of_and_taken_as_there(
    text: str, works: list[tuple[str, ...]], says: str
) -> None:
    policy = forgiven(text)

    assert at_work(policy) == works
    assert says in one_line_each(policy.warnings)
    assert errors(text, default_registry()) != [], "it is an error unless forgiven"


def test_of_a_key_written_twice_the_last_counts() -> None:
    twice = HEAD + "maxNoOfPodsToEvictTotal: 5\n" + PROFILE + "maxNoOfPodsToEvictTotal: 0\n"
    in_args = HEAD + PROFILE.replace("60}", "60, maxPodLifeTimeSeconds: 90}")

    total, args = forgiven(twice), forgiven(in_args)

    assert total.limits.total == 0
    assert one_line_each(total.warnings) == [
        "3:1: maxNoOfPodsToEvictTotal `maxNoOfPodsToEvictTotal` is written twice, "
        "and the one on line 12 counts; keep one of the two"
    ]
    lifetime = args.profiles[0].args["PodLifeTime"]
    assert getattr(lifetime, "max_pod_life_time_seconds", None) == 90
    assert len(args.warnings) == 1


@pytest.mark.parametrize("text", ["", "# nothing yet\n", "---\n---\n" + HEAD + PROFILE])
def test_a_document_without_anything_does_nothing(text: str) -> None:
    policy = forgiven(text)

    assert policy.profiles == ()
    assert one_line_each(policy.warnings)


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(HEAD + PROFILE.replace("{max", "{maxx: 1, max"), id="an unknown argument"),
        pytest.param(HEAD + PROFILE.replace("60}", '"60"}'), id="text for a number"),
        pytest.param(HEAD + PROFILE.replace("[PodLifeTime]", "[PodLifetime]"), id="no such plugin"),
        pytest.param(HEAD + PROFILE.replace("[PodLifeTime]", "[PodLifeTime, ~]"), id="no name"),
        pytest.param(HEAD + PROFILE.replace("  plugins", "  -\n  plugins"), id="an empty config"),
        pytest.param(HEAD + PROFILE.replace("- name: Pod", "- nme: Pod"), id="a misspelt name"),
        pytest.param(HEAD.replace("v1alpha2", "v1alpha3") + PROFILE, id="an unknown apiVersion"),
        pytest.param(VERSION + "kind: Policy\n" + PROFILE, id="another kind"),
        pytest.param("kind: ConfigMap\n" + PROFILE, id="a ConfigMap"),
        pytest.param(IMPROVED_HEAD + "foo: 1\n" + PROFILE, id="an unknown key of our own"),
        pytest.param(IMPROVED_HEAD + PROFILE + "---\n" + HEAD, id="a second document of our own"),
        pytest.param("{", id="no YAML"),
    ],
)
def test_what_the_original_refuses_is_never_forgiven(text: str) -> None:
    with pytest.raises(PolicyError):
        forgiven(text)


def test_an_older_document_is_forgiven_too() -> None:
    policy = forgiven(OLD_HEAD + "foo: 1\nstrategies: {RemoveDuplicates: {enabled: true}}\n")

    assert [profile.name for profile in policy.profiles] == ["strategy-RemoveDuplicates-profile"]
    assert one_line_each(policy.warnings) == [
        "3:1: foo `foo` is not a key known here; known here: " + KNOWN
    ]


KNOWN = (
    "apiVersion, evictDaemonSetPods, evictFailedBarePods, evictLocalStoragePods, "
    "evictSystemCriticalPods, ignorePvcPods, kind, maxNoOfPodsToEvictPerNamespace, "
    "maxNoOfPodsToEvictPerNode, nodeSelector, strategies"
)
