"""The rules of a profile: who runs where, and with which arguments."""

from __future__ import annotations

import pytest

from resettle.policy.args import ExtensionPoint
from tests.policy.harness import HEAD, IMPROVED_HEAD, errors, load, one_profile, profile, warnings

from .fakes import PLUGINS, EvictorArgs, FailedArgs, LifeArgs, SortArgs

CONFIGS = """
pluginConfig:
- {name: PodLifeTime, args: {maxPodLifeTimeSeconds: 5}}
- {name: RemoveFailedPods}
"""


def test_the_guard_is_put_first_where_it_is_not_listed() -> None:
    plain = profile(one_profile("plugins: {}"))

    assert plain.enabled[ExtensionPoint.FILTER] == ("DefaultEvictor",)
    assert plain.enabled[ExtensionPoint.PRE_EVICTION_FILTER] == ("DefaultEvictor",)
    assert plain.args == {"DefaultEvictor": EvictorArgs()}


def test_default_arguments_of_the_guard_come_first() -> None:
    assert next(iter(profile(one_profile(CONFIGS)).args)) == "DefaultEvictor"


def test_the_guard_keeps_its_place_where_it_is_listed() -> None:
    guards = {**PLUGINS, "Other": PLUGINS["DefaultEvictor"]}
    text = one_profile(
        """
        pluginConfig: [{name: Other}]
        plugins:
          filter: {enabled: [Other, DefaultEvictor]}
          preevictionfilter: {enabled: [Other]}
        """
    )
    (only,) = load(text, guards).profiles

    assert only.enabled[ExtensionPoint.FILTER] == ("Other", "DefaultEvictor")
    assert only.enabled[ExtensionPoint.PRE_EVICTION_FILTER] == ("DefaultEvictor", "Other")


def test_plugins_run_in_the_order_they_are_listed() -> None:
    text = one_profile(
        CONFIGS + "plugins: {deschedule: {enabled: [RemoveFailedPods, PodLifeTime]}}"
    )

    assert profile(text).enabled[ExtensionPoint.DESCHEDULE] == ("RemoveFailedPods", "PodLifeTime")


def test_without_arguments_a_plugin_has_its_defaults() -> None:
    assert profile(one_profile(CONFIGS)).args["RemoveFailedPods"] == FailedArgs()


def test_a_name_for_a_profile_is_not_required_and_may_be_repeated() -> None:
    names = [config.name for config in load(HEAD + "profiles: [{}, {name: a}, {name: a}]").profiles]

    assert names == ["", "a", "a"]


@pytest.mark.parametrize(
    ("body", "problem"),
    [
        pytest.param(
            "pluginConfig: [{name: PodLifetim}]",
            "5:25: profiles[0].pluginConfig[0].name no plugin is named `PodLifetim`; "
            "did you mean `PodLifeTime`?",
            id="rule 1: configures a plugin that does not exist",
        ),
        pytest.param(
            "pluginConfig: [{name: PodLifeTime, args: {}}]\n"
            "plugins: {deschedule: {enabled: [PodLifeTime]}}",
            "5:44: profiles[0].pluginConfig[0].args with no criterion set, every pod would match; "
            "set `maxPodLifeTimeSeconds`, `states`, or both",
            id="rule 2: the plugin objects",
        ),
        pytest.param(
            "pluginConfig: [{name: PodLifeTime}]\nplugins: {deschedule: {enabled: [PodLifeTime]}}",
            "5:18: profiles[0].pluginConfig[0].args with no criterion set, every pod would match; "
            "set `maxPodLifeTimeSeconds`, `states`, or both",
            id="rule 2: without any arguments",
        ),
        pytest.param(
            "plugins: {balance: {enabled: [Mystery]}}",
            "5:33: profiles[0].plugins.balance.enabled[0] no plugin is named `Mystery`; "
            f"known here: {', '.join(sorted(PLUGINS))}",
            id="enables a plugin that does not exist",
        ),
        pytest.param(
            "pluginConfig: [{name: RemoveFailedPods}]\n"
            "plugins: {balance: {enabled: [RemoveFailedPods]}}",
            "6:33: profiles[0].plugins.balance.enabled[0] `RemoveFailedPods` cannot be "
            "enabled under `balance`; enable it under `deschedule`",
            id="a point where the plugin cannot be enabled",
        ),
        pytest.param(
            "plugins: {deschedule: {enabled: [DefaultEvictor]}}",
            "5:36: profiles[0].plugins.deschedule.enabled[0] `DefaultEvictor` cannot be "
            "enabled under `deschedule`; enable it under `filter` and `preevictionfilter`",
            id="a filter among strategies",
        ),
        pytest.param(
            "plugins: {deschedule: {enabled: [RemoveFailedPods]}}",
            "5:36: profiles[0].plugins.deschedule.enabled[0] `RemoveFailedPods` is enabled without "
            "a `pluginConfig` entry; add `- name: RemoveFailedPods` under `pluginConfig`",
            id="enabled, not configured",
        ),
        pytest.param(
            "pluginConfig: [{name: RemoveFailedPods}]\n"
            "plugins: {deschedule: {enabled: [{name: RemoveFailedPods}]}}",
            "6:36: profiles[0].plugins.deschedule.enabled[0] a mapping is not a name; "
            "write the bare name `- RemoveFailedPods`",
            id="a mapping in place of a name",
        ),
        pytest.param(
            "pluginConfig: [{name: RemoveFailedPods}]\n"
            "plugins: {deschedule: {enabled: RemoveFailedPods}}",
            "6:35: profiles[0].plugins.deschedule.enabled `RemoveFailedPods` is not a list; "
            "write it as a list: `[RemoveFailedPods]`",
            id="a name in place of a list",
        ),
        pytest.param(
            "plugins: {preEvictionFilter: {enabled: [DefaultEvictor]}}",
            "5:13: profiles[0].plugins.preEvictionFilter `preEvictionFilter` is not a key known "
            "here; did you mean `preevictionfilter`?",
            id="a point in mixed case",
        ),
        pytest.param(
            "deschedule: {enabled: []}",
            "5:3: profiles[0].deschedule `deschedule` belongs under `plugins`, not here",
            id="a point outside plugins",
        ),
        pytest.param(
            "plugins: {enabled: []}",
            "5:13: profiles[0].plugins.enabled `enabled` belongs under `plugins.deschedule`, "
            "not here",
            id="a list without its point",
        ),
        pytest.param(
            "pluginConfig: [{args: {}}]",
            "5:18: profiles[0].pluginConfig[0].name `name` is missing; add `name`",
            id="arguments without a plugin",
        ),
        pytest.param(
            "pluginConfig: [{nme: RemoveFailedPods}]",
            "5:19: profiles[0].pluginConfig[0].nme `nme` is not a key known here; "
            "did you mean `name`?",
            id="a misspelt name is reported once",
        ),
        pytest.param(
            "pluginConfigs: [{name: RemoveFailedPods}]\n"
            "plugins: {deschedule: {enabled: [RemoveFailedPods]}}",
            "5:3: profiles[0].pluginConfigs `pluginConfigs` is not a key known here; "
            "did you mean `pluginConfig`?",
            id="what follows from a misspelt list is not reported",
        ),
        pytest.param(
            "pluginConfig: [{name: RemoveFailed}]\n"
            "plugins: {deschedule: {enabled: [RemoveFailedPods]}}",
            "5:25: profiles[0].pluginConfig[0].name no plugin is named `RemoveFailed`; "
            "did you mean `RemoveFailedPods`?",
            id="what follows from a misspelt entry is not reported",
        ),
    ],
)
def test_a_mistake_in_a_profile_is_reported_once(body: str, problem: str) -> None:
    assert errors(one_profile(body)) == [problem]
    assert warnings(one_profile(body)) == []


INERT = "it works in `apiVersion: resettle/v1`"


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        pytest.param(
            "pluginConfig: [{name: RemoveFailedPods}]\n"
            "plugins: {deschedule: {enabled: [RemoveFailedPods, RemoveFailedPods]}}",
            [
                "6:54: profiles[0].plugins.deschedule.enabled[1] `RemoveFailedPods` is listed "
                "twice, so it runs twice; remove one of the two"
            ],
            id="listed twice",
        ),
        pytest.param(
            "pluginConfig: [{name: RemoveFailedPods}, {name: RemoveFailedPods}]\n"
            "plugins: {deschedule: {enabled: [RemoveFailedPods]}}",
            [
                "5:51: profiles[0].pluginConfig[1].name `RemoveFailedPods` is configured twice "
                "and only the first counts; keep one"
            ],
            id="configured twice",
        ),
        pytest.param(
            "pluginConfig: [{name: RemoveFailedPods}]",
            [
                "5:25: profiles[0].pluginConfig[0].name `RemoveFailedPods` is configured and never "
                "enabled, so it does not run; list it under `deschedule`, or remove the entry"
            ],
            id="never enabled",
        ),
        pytest.param(
            "plugins: {filter: {disabled: [DefaultEvictor]}}",
            [
                "5:32: profiles[0].plugins.filter.disabled `disabled` has no effect in "
                f"`descheduler/v1alpha2`; everything listed runs; {INERT}"
            ],
            id="disabled",
        ),
        pytest.param(
            "plugins: {filter: {disabled: [Defaultevictor]}}",
            [
                "5:32: profiles[0].plugins.filter.disabled `disabled` has no effect in "
                f"`descheduler/v1alpha2`; everything listed runs; {INERT}",
                "5:33: profiles[0].plugins.filter.disabled[0] no plugin is named "
                "`Defaultevictor`; did you mean `DefaultEvictor`?",
            ],
            id="disabled, and unknown",
        ),
        pytest.param(
            "plugins: {sort: {enabled: [ByAge]}, presort: {enabled: [ByAgee]}}",
            [
                "5:19: profiles[0].plugins.sort `sort` has no effect in `descheduler/v1alpha2`; "
                + INERT,
                "5:48: profiles[0].plugins.presort `presort` has no effect in "
                f"`descheduler/v1alpha2`; {INERT}",
                "5:59: profiles[0].plugins.presort.enabled[0] no plugin is named `ByAgee`; "
                "did you mean `ByAge`?",
            ],
            id="sorting",
        ),
    ],
)
def test_what_the_original_accepts_in_silence_is_a_warning(body: str, expected: list[str]) -> None:
    assert errors(one_profile(body)) == []
    assert warnings(one_profile(body)) == expected


def test_what_has_no_effect_has_none() -> None:
    config = profile(
        one_profile("plugins: {sort: {enabled: [ByAge]}, filter: {disabled: [DefaultEvictor]}}")
    )

    assert config.enabled[ExtensionPoint.SORT] == ()
    assert config.enabled[ExtensionPoint.FILTER] == ("DefaultEvictor",)


def test_of_two_configurations_the_first_counts_and_both_are_checked() -> None:
    second = "- {name: PodLifeTime, args: {maxPodLifeTimeSeconds: %s}}\n"
    plugins = "plugins: {deschedule: {enabled: [PodLifeTime, RemoveFailedPods]}}"

    counted = profile(one_profile(CONFIGS + second % 9 + plugins))
    assert counted.args["PodLifeTime"] == LifeArgs(max_pod_life_time_seconds=5)
    assert len(errors(one_profile(CONFIGS + second % -9 + plugins))) == 1


def test_listed_twice_runs_twice() -> None:
    text = one_profile(CONFIGS + "plugins: {deschedule: {enabled: [PodLifeTime, PodLifeTime]}}")

    assert profile(text).enabled[ExtensionPoint.DESCHEDULE] == ("PodLifeTime", "PodLifeTime")


def test_default_evictor_must_be_installed() -> None:
    unguarded = {name: plugin for name, plugin in PLUGINS.items() if name != "DefaultEvictor"}

    assert errors(one_profile("plugins: {}"), unguarded) == [
        "4:3: profiles[0] `DefaultEvictor` is the filter of every profile and is not "
        "installed; install resettle's own plugins again"
    ]


class TestImproved:
    """`resettle/v1`: the same shape, and everything in it works."""

    def test_disabled_removes_names_and_even_the_guard(self) -> None:
        config = profile(
            one_profile(
                CONFIGS
                + "plugins:\n"
                + "  filter: {disabled: [DefaultEvictor]}\n"
                + "  deschedule: {enabled: [PodLifeTime, RemoveFailedPods], "
                + "disabled: [PodLifeTime]}\n",
                IMPROVED_HEAD,
            )
        )

        assert config.enabled[ExtensionPoint.FILTER] == ()
        assert config.enabled[ExtensionPoint.PRE_EVICTION_FILTER] == ("DefaultEvictor",)
        assert config.enabled[ExtensionPoint.DESCHEDULE] == ("RemoveFailedPods",)

    def test_sorting_works_and_needs_no_configuration(self) -> None:
        config = profile(one_profile("plugins: {sort: {enabled: [ByAge]}}", IMPROVED_HEAD))

        assert config.enabled[ExtensionPoint.SORT] == ("ByAge",)
        assert config.args["ByAge"] == SortArgs()

    @pytest.mark.parametrize(
        ("body", "problem"),
        [
            pytest.param(
                "plugins: {deschedule: {enabled: [PodLifeTime]}}",
                "5:36: profiles[0].plugins.deschedule.enabled[0] `PodLifeTime` has no "
                "`pluginConfig` entry and needs one: with no criterion set, every pod would "
                "match; set `maxPodLifeTimeSeconds`, `states`, or both",
                id="defaults that will not do",
            ),
            pytest.param(
                "plugins: {filter: {disabled: [Mystery]}}",
                "5:33: profiles[0].plugins.filter.disabled[0] no plugin is named `Mystery`; "
                f"known here: {', '.join(sorted(PLUGINS))}",
                id="an unknown name in disabled",
            ),
            pytest.param(
                "plugins: {deschedule: {enabled: [RemoveFailedPods, RemoveFailedPods]}}",
                "5:54: profiles[0].plugins.deschedule.enabled[1] `RemoveFailedPods` is listed "
                "twice, so it runs twice; remove one of the two",
                id="listed twice",
            ),
            pytest.param(
                "pluginConfig: [{name: RemoveFailedPods}, {name: RemoveFailedPods}]\n"
                "plugins: {deschedule: {enabled: [RemoveFailedPods]}}",
                "5:51: profiles[0].pluginConfig[1].name `RemoveFailedPods` is configured twice "
                "and only the first counts; keep one",
                id="configured twice",
            ),
        ],
    )
    def test_what_was_a_warning_is_a_mistake(self, body: str, problem: str) -> None:
        assert errors(one_profile(body, IMPROVED_HEAD)) == [problem]

    def test_says_that_it_is_improved(self) -> None:
        policy = load(IMPROVED_HEAD)

        assert policy.improved
        assert policy.api_version == "resettle/v1"
