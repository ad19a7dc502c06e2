"""The point `evict` of a profile: one mover, the default one unless another is named."""

from __future__ import annotations

import msgspec
import pytest
import yaml
from jsonschema import Draft202012Validator

from resettle.policy.args import Args, ExtensionPoint, Unsigned
from resettle.policy.document import IMPROVED
from resettle.policy.json_schema import json_schema
from resettle.policy.load import read_policy
from resettle.policy.versions.upgrade import write_policy
from tests.policy.fakes import PLUGINS, FakePlugin
from tests.policy.harness import HEAD, IMPROVED_HEAD, OLD_HEAD, document, errors, load, one_profile


class PacedArgs(Args, frozen=True, kw_only=True):
    seconds_between: Unsigned = 0


EVICT = frozenset({ExtensionPoint.EVICT})
MOVERS = {
    **PLUGINS,
    "EvictionAPI": FakePlugin("EvictionAPI", Args, EVICT),
    "Courier": FakePlugin("Courier", PacedArgs, EVICT),
    "Van": FakePlugin("Van", Args, EVICT),
}
BELONGS = (
    "`evict` belongs to `apiVersion: resettle/v1`; remove it, or convert the policy: "
    "`resettle policy convert --to resettle/v1`"
)


def policy(chosen: str, head: str = IMPROVED_HEAD) -> str:
    """A document whose only profile says this of movers, at line 5."""
    return one_profile(f"plugins: {{evict: {chosen}}}", head)


def mover_of(text: str) -> tuple[str, ...]:
    (profile,) = load(text, MOVERS).profiles
    return profile.enabled[ExtensionPoint.EVICT]


@pytest.mark.parametrize(
    ("text", "mover"),
    [
        pytest.param(one_profile("plugins: {}", IMPROVED_HEAD), "EvictionAPI", id="nothing said"),
        pytest.param(one_profile("plugins: {}"), "EvictionAPI", id="in v1alpha2"),
        pytest.param(policy("{}"), "EvictionAPI", id="an empty set"),
        pytest.param(policy("null"), "EvictionAPI", id="no set"),
        pytest.param(policy("{enabled: []}"), "EvictionAPI", id="an empty list"),
        pytest.param(policy("{enabled: [EvictionAPI]}"), "EvictionAPI", id="the default, named"),
        pytest.param(policy("{disabled: [Van]}"), "EvictionAPI", id="another is disabled"),
        pytest.param(policy("{enabled: [Courier]}"), "Courier", id="another takes its place"),
        pytest.param(
            policy("{enabled: [Courier], disabled: [EvictionAPI]}"),
            "Courier",
            id="and the default is disabled for good measure",
        ),
    ],
)
def test_a_profile_has_one_mover(text: str, mover: str) -> None:
    assert mover_of(text) == (mover,)


PLACE = "profiles[0].plugins.evict"


@pytest.mark.parametrize(
    ("chosen", "problem"),
    [
        pytest.param(
            "{enabled: [Courier, Van]}",
            f"5:30: {PLACE}.enabled 2 movers are enabled, and a pod can leave in one way only; "
            "keep one",
            id="two",
        ),
        pytest.param(
            "{enabled: [Courier, EvictionAPI]}",
            f"5:30: {PLACE}.enabled 2 movers are enabled, and a pod can leave in one way only; "
            "keep one",
            id="one beside the default",
        ),
        pytest.param(
            "{enabled: [Van, Van]}",
            f"5:36: {PLACE}.enabled[1] `Van` is listed twice, so it runs twice; "
            "remove one of the two",
            id="one, two times",
        ),
        pytest.param(
            "{disabled: [EvictionAPI]}",
            f"5:31: {PLACE}.disabled `EvictionAPI` is disabled and no other mover enabled, "
            "so no pod could leave; enable one under `evict.enabled`",
            id="none, the default being disabled",
        ),
        pytest.param(
            "{enabled: [Van], disabled: [Van]}",
            f"5:47: {PLACE}.disabled `Van` is disabled and no other mover enabled, "
            "so no pod could leave; enable one under `evict.enabled`",
            id="none, the only one being disabled",
        ),
        pytest.param(
            "{enabled: [Curier]}",
            f"5:31: {PLACE}.enabled[0] no plugin is named `Curier`; did you mean `Courier`?",
            id="a name that no mover has",
        ),
        pytest.param(
            "{enabled: [PodLifeTime]}",
            f"5:31: {PLACE}.enabled[0] `PodLifeTime` cannot be enabled under `evict`; "
            "enable it under `deschedule`",
            id="a plugin that moves nothing",
        ),
    ],
)
def test_none_or_two_are_refused_with_their_place(chosen: str, problem: str) -> None:
    assert errors(policy(chosen), MOVERS) == [problem]


def test_a_mover_cannot_be_enabled_at_another_point() -> None:
    text = one_profile("plugins: {filter: {enabled: [Van]}}", IMPROVED_HEAD)

    assert errors(text, MOVERS) == [
        "5:32: profiles[0].plugins.filter.enabled[0] `Van` cannot be enabled under `filter`; "
        "enable it under `evict`"
    ]


@pytest.mark.parametrize("chosen", ["{enabled: [Courier]}", "{disabled: [EvictionAPI]}"])
def test_policies_of_the_descheduler_choose_no_mover(chosen: str) -> None:
    assert errors(policy(chosen, HEAD), MOVERS) == [f"5:13: {PLACE} {BELONGS}"]


def test_the_oldest_policies_know_nothing_of_it() -> None:
    problems = errors(document("evict: {enabled: [Courier]}", OLD_HEAD), MOVERS)

    assert len(problems) == 1
    assert problems[0].startswith("3:1: evict ")


CONFIGURED = one_profile(
    """
    plugins:
      deschedule: {enabled: [RemoveFailedPods]}
      evict: {enabled: [Courier], disabled: [EvictionAPI]}
    pluginConfig:
    - {name: RemoveFailedPods}
    - {name: Courier, args: {secondsBetween: 5}}
    """,
    IMPROVED_HEAD,
)


def test_a_mover_gets_its_arguments() -> None:
    (profile,) = load(CONFIGURED, MOVERS).profiles

    assert profile.args["Courier"] == PacedArgs(seconds_between=5)


def test_a_mover_may_live_on_its_defaults() -> None:
    (profile,) = load(policy("{enabled: [Courier]}"), MOVERS).profiles

    assert profile.args["Courier"] == PacedArgs()


def test_a_default_mover_that_is_configured_and_replaced_is_remarked_on() -> None:
    text = one_profile(
        "plugins: {evict: {enabled: [Van]}}\npluginConfig: [{name: EvictionAPI}]", IMPROVED_HEAD
    )

    (warning,) = load(text, MOVERS).warnings

    assert "`EvictionAPI` is configured and never enabled" in str(warning)


# -- conversion and schema ------------------------------------------------------------------------


def improved(text: str) -> str:
    return write_policy(read_policy(text, name="p", plugins=MOVERS, improved=True), "p", IMPROVED)


def test_a_conversion_keeps_the_mover_that_was_chosen() -> None:
    text = improved(CONFIGURED)
    (profile,) = yaml.safe_load(text)["profiles"]

    assert profile["plugins"]["evict"] == {"enabled": ["Courier"]}
    assert {"name": "Courier", "args": {"secondsBetween": 5}} in profile["pluginConfig"]
    assert msgspec.structs.replace(load(text, MOVERS), warnings=()) == load(CONFIGURED, MOVERS)


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(one_profile("plugins: {}"), id="from v1alpha2"),
        pytest.param(policy("{enabled: [EvictionAPI]}"), id="even if it was named"),
        pytest.param(CONFIGURED, id="and of course when it was replaced"),
    ],
)
def test_a_conversion_never_prints_the_default_mover(text: str) -> None:
    assert "EvictionAPI" not in improved(text)


def test_what_was_chosen_too_early_works_after_the_conversion() -> None:
    early = policy("{enabled: [Van]}", HEAD)

    assert mover_of(improved(early)) == ("Van",)


@pytest.mark.parametrize(
    ("chosen", "sound"),
    [
        pytest.param("{enabled: [Courier]}", True, id="a mover"),
        pytest.param("{enabled: [PodLifeTime]}", False, id="a plugin that moves nothing"),
        pytest.param("{enabled: [Curier]}", False, id="a name that no mover has"),
        pytest.param("{enable: [Courier]}", False, id="an unknown key"),
    ],
)
def test_editors_know_the_point(chosen: str, sound: bool) -> None:
    schema = Draft202012Validator(json_schema(MOVERS))

    assert schema.is_valid(yaml.safe_load(policy(chosen))) is sound


def test_editors_see_whose_point_it_is() -> None:
    point = json_schema(MOVERS)["$defs"]["PluginSets"]["properties"]["evict"]

    assert "`resettle/v1` only" in point["description"]
