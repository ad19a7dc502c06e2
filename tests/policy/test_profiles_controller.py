"""The point `controller` of a profile, and `deleteOptions` of a policy: `resettle/v1` only."""

from __future__ import annotations

import pytest
from msgspec import to_builtins

from resettle.policy.args import Args, ExtensionPoint
from tests.policy.fakes import PLUGINS, FakePlugin
from tests.policy.harness import HEAD, IMPROVED_HEAD, OLD_HEAD, document, errors, load, one_profile

CONTROLLER = frozenset({ExtensionPoint.CONTROLLER})
WORKERS = {
    **PLUGINS,
    "Tidy": FakePlugin("Tidy", Args, CONTROLLER),
    "Watcher": FakePlugin("Watcher", Args, CONTROLLER),
}
BOTH = "evict: {enabled: [Jobs]}, controller: {enabled: [Jobs]}"
PLACE = "profiles[0].plugins.controller"


def policy(chosen: str, head: str = IMPROVED_HEAD) -> str:
    """A document whose only profile says this of controllers, at line 5."""
    return one_profile(f"plugins: {{controller: {chosen}}}", head)


# -- movers whose moves a controller carries out ---------------------------------------------------


@pytest.mark.parametrize(
    ("profiles", "problems"),
    [
        pytest.param([BOTH], [], id="mover and controller in one profile"),
        pytest.param(["evict: {enabled: [Jobs]}"], [], id="carried out by another process"),
        pytest.param([BOTH, "evict: {enabled: [Jobs]}"], [], id="for two profiles with one filter"),
        pytest.param(
            ["controller: {enabled: [Jobs]}"],
            [
                f"{PLACE}.enabled `Jobs` carries out moves that this profile does not know of; "
                "enable `Jobs` under `evict` as well"
            ],
            id="a controller without the mover",
        ),
        pytest.param(
            [BOTH, BOTH],
            [
                "profiles[1].plugins.controller.enabled `Jobs` is a controller of profile `p0`"
                " already; keep one: it carries out the moves of all profiles"
            ],
            id="two controllers",
        ),
        pytest.param(
            [BOTH, "evict: {enabled: [Jobs]}, filter: {enabled: [Guard]}"],
            [
                "profiles[1].plugins.evict.enabled `Jobs` would carry out the moves of `p1` by the"
                " filters of `p0`, which differ; give both profiles the same filters with the same"
                " arguments"
            ],
            id="another filter",
        ),
    ],
)
def test_one_controller_carries_out_the_moves_of_profiles_with_the_same_filters(
    profiles: list[str], problems: list[str]
) -> None:
    text = (
        IMPROVED_HEAD
        + "profiles:\n"
        + "".join(
            f"- name: p{index}\n  plugins: {{{plugins}}}\n"
            for index, plugins in enumerate(profiles)
        )
    )
    known = {
        **PLUGINS,
        "Jobs": FakePlugin("Jobs", Args, CONTROLLER | {ExtensionPoint.EVICT}),
        "Guard": FakePlugin("Guard", Args, frozenset({ExtensionPoint.FILTER})),
    }

    reported = errors(text, known) if problems else load(text, known).warnings

    assert [str(problem).split(": ", 1)[1] for problem in reported] == problems


# -- controllers ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("chosen", "names"),
    [
        pytest.param("{}", (), id="none by default"),
        pytest.param("{enabled: [Tidy]}", ("Tidy",), id="one"),
        pytest.param("{enabled: [Watcher, Tidy]}", ("Watcher", "Tidy"), id="two, in order"),
        pytest.param("{enabled: [Tidy, Watcher], disabled: [Tidy]}", ("Watcher",), id="one off"),
    ],
)
def test_a_profile_has_any_number_of_controllers(chosen: str, names: tuple[str, ...]) -> None:
    (profile,) = load(policy(chosen), WORKERS).profiles

    assert profile.enabled[ExtensionPoint.CONTROLLER] == names


@pytest.mark.parametrize(
    ("chosen", "problem"),
    [
        pytest.param(
            "{enabled: [PodLifeTime]}",
            f"5:36: {PLACE}.enabled[0] `PodLifeTime` cannot be enabled under `controller`; "
            "enable it under `deschedule`",
            id="a strategy",
        ),
        pytest.param(
            "{enabled: [Tydy]}",
            f"5:36: {PLACE}.enabled[0] no plugin is named `Tydy`; did you mean `Tidy`?",
            id="a name that no plugin has",
        ),
        pytest.param(
            "{enabled: [Tidy, Tidy]}",
            f"5:42: {PLACE}.enabled[1] `Tidy` is listed twice, so it runs twice; "
            "remove one of the two",
            id="one, two times",
        ),
    ],
)
def test_what_cannot_be_enabled_is_named_with_its_place(chosen: str, problem: str) -> None:
    assert errors(policy(chosen), WORKERS) == [problem]


def test_a_controller_cannot_be_enabled_at_another_point() -> None:
    text = one_profile("plugins: {filter: {enabled: [Tidy]}}", IMPROVED_HEAD)

    assert errors(text, WORKERS) == [
        "5:32: profiles[0].plugins.filter.enabled[0] `Tidy` cannot be enabled under `filter`; "
        "enable it under `controller`"
    ]


def test_policies_of_the_descheduler_have_no_controllers() -> None:
    assert errors(policy("{enabled: [Tidy]}", HEAD), WORKERS) == [
        f"5:13: {PLACE} `controller` belongs to `apiVersion: resettle/v1`; remove it, or convert "
        "the policy: `resettle policy convert --to resettle/v1`"
    ]


# -- delete options -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("body", "options"),
    [
        pytest.param("{}", {}, id="nothing said"),
        pytest.param("gracePeriodSeconds: 5", {"gracePeriodSeconds": 5}, id="at the top"),
        pytest.param(
            "deleteOptions: {gracePeriodSeconds: 0}", {"gracePeriodSeconds": 0}, id="none at all"
        ),
        pytest.param(
            "gracePeriodSeconds: 5\ndeleteOptions: {propagationPolicy: Orphan}",
            {"gracePeriodSeconds": 5, "propagationPolicy": "Orphan"},
            id="both together",
        ),
        pytest.param(
            "deleteOptions: {orphanDependents: false}", {"orphanDependents": False}, id="older form"
        ),
    ],
)
def test_delete_options_are_as_the_api_has_them(body: str, options: dict[str, object]) -> None:
    text = IMPROVED_HEAD if body == "{}" else document(body, IMPROVED_HEAD)

    assert to_builtins(load(text).delete_options) == options


@pytest.mark.parametrize(
    ("body", "problem"),
    [
        pytest.param(
            "gracePeriodSeconds: 5\ndeleteOptions: {gracePeriodSeconds: 6}",
            "4:37: deleteOptions.gracePeriodSeconds `gracePeriodSeconds` is set here and at the "
            "top of the policy; keep one of the two",
            id="two grace periods",
        ),
        pytest.param(
            "deleteOptions: {propagationPolicy: Orphan, orphanDependents: true}",
            "3:62: deleteOptions.orphanDependents both `propagationPolicy` and `orphanDependents` "
            "are set; keep `propagationPolicy`",
            id="both forms of one option",
        ),
        pytest.param(
            "deleteOptions: {gracePeriodSeconds: -1}",
            "3:37: deleteOptions.gracePeriodSeconds -1 is out of range; write a whole number of 0 "
            "or more",
            id="negative",
        ),
        pytest.param(
            "deleteOptions: {propagationPolicy: Sideways}",
            "3:36: deleteOptions.propagationPolicy",
            id="no such policy",
        ),
        pytest.param(
            "deleteOptions: {dryRun: [All]}",
            "3:17: deleteOptions.dryRun `dryRun` is not a key known here",
            id="an option that would undo everything",
        ),
    ],
)
def test_delete_options_that_cannot_be_are_named_with_their_place(body: str, problem: str) -> None:
    (found,) = errors(document(body, IMPROVED_HEAD))

    assert found.startswith(problem)


@pytest.mark.parametrize("head", [HEAD, OLD_HEAD])
def test_older_policies_know_no_delete_options(head: str) -> None:
    (problem,) = errors(document("deleteOptions: {gracePeriodSeconds: 1}", head))

    assert problem.startswith("3:1: deleteOptions ")
