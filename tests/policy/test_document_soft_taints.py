"""`softTaints`: what may be written there, and what is so where nothing is."""

from __future__ import annotations

import pytest

from resettle.policy.document import SoftTaints
from tests.policy.harness import HEAD, IMPROVED_HEAD, OLD_HEAD, errors, load, with_args

KUBERNETES = "nodeutilization.descheduler.kubernetes.io"
OPENSHIFT = "nodeutilization.descheduler.openshift.io"
BALANCING = with_args(
    "LowNodeUtilization",
    "thresholds: {cpu: 20}\ntargetThresholds: {cpu: 50}",
    "balance",
    IMPROVED_HEAD,
)


def section(body: str) -> str:
    """A document with this under `softTaints`, on line 3."""
    return f"{IMPROVED_HEAD}softTaints: {{{body}}}\n"


def test_all_that_can_be_written_is_read() -> None:
    written = (
        "profile: it, style: Levels, prefix: example.com, levels: 3, scale: Exponential, "
        "releaseMargin: 5, maxPercentOfNodes: 30"
    )

    assert load(f"{BALANCING}\nsoftTaints: {{{written}}}\n").soft_taints == SoftTaints(
        profile="it",
        style="Levels",
        prefix="example.com",
        levels=3,
        scale="Exponential",
        release_margin=5,
        max_percent_of_nodes=30,
    )


@pytest.mark.parametrize("head", [HEAD, IMPROVED_HEAD, OLD_HEAD], ids=["v1alpha2", "ours", "old"])
def test_where_nothing_is_written_there_is_one_taint_and_no_cap(head: str) -> None:
    unsaid = load(head).soft_taints

    assert (unsaid.domain, unsaid.levels) == (KUBERNETES, 1)
    assert (unsaid.release_margin, unsaid.max_percent_of_nodes) == (0, None)


def test_a_style_has_a_prefix_of_its_own_unless_one_is_written() -> None:
    assert load(section("style: OpenShift")).soft_taints.domain == OPENSHIFT
    assert load(section("style: OpenShift, prefix: a.b")).soft_taints.domain == "a.b"


@pytest.mark.parametrize(
    ("body", "problem"),
    [
        pytest.param(
            "prefix: Not_a_domain",
            "3:22: softTaints.prefix `Not_a_domain` is not a valid prefix of a taint key; "
            f"write a domain such as `{KUBERNETES}`",
            id="a prefix that no key can have",
        ),
        pytest.param(
            "style: OpenShift, levels: 2",
            "3:40: softTaints.levels the style `OpenShift` has two taints and no levels; remove "
            "`levels`, or write `style: Levels`",
            id="levels where there are none",
        ),
        pytest.param(
            "levels: 0",
            "3:22: softTaints.levels 0 is out of range; write a whole number from 1 to 10",
            id="no level at all",
        ),
        pytest.param(
            "scale: linear",
            "3:21: softTaints.scale `linear` is not one of the words known here; did you mean "
            "`Linear`?",
            id="a word in the wrong case",
        ),
        pytest.param(
            "releaseMargin: -1",
            "3:29: softTaints.releaseMargin -1 is not a number of percentage points; write a "
            "number from 0 to 100",
            id="a margin below zero",
        ),
        pytest.param(
            "maxPercentOfNodes: 0",
            "3:33: softTaints.maxPercentOfNodes 0 is not a share in percent; write a number above "
            "0 and up to 100",
            id="a cap that lets no node through",
        ),
        pytest.param(
            "level: 2",
            "3:14: softTaints.level `level` is not a key known here; did you mean `levels`?",
            id="a key with a slip",
        ),
        pytest.param(
            "profile: main",
            "3:23: softTaints.profile no profile named `main` balances with LowNodeUtilization; "
            "nothing is known here",
            id="a profile that is not there",
        ),
    ],
)
def test_each_mistake_is_reported_with_its_place_and_fix(body: str, problem: str) -> None:
    assert errors(section(body)) == [problem]


def test_a_profile_must_have_thresholds_to_go_by() -> None:
    (problem,) = errors(f"{BALANCING}\nsoftTaints: {{profile: its}}\n")

    assert problem.endswith(
        "no profile named `its` balances with LowNodeUtilization; did you mean `it`?"
    )


def test_policies_of_the_descheduler_have_no_words_for_it() -> None:
    (problem,) = errors(f"{HEAD}softTaints: {{levels: 2}}\n")

    assert problem.startswith("3:1: softTaints `softTaints` belongs to `apiVersion: resettle/v1`")
