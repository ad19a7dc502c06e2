"""Keys that `resettle/v1` adds: what they take, and that policies of the descheduler have none."""

from __future__ import annotations

import pytest

from resettle.policy.document import Limits
from tests.policy.fakes import PLUGINS
from tests.policy.harness import HEAD, IMPROVED_HEAD, OLD_HEAD, document, errors, load, with_args
from tests.policy.test_json_schema import SCHEMA

TAINTS = "RemovePodsViolatingNodeTaints"
FIX = "remove it, or convert the policy: `resettle policy convert --to resettle/v1`"
SHARES = ["maxPercentOfPodsToEvict", "maxPercentOfNodesToEvictFrom"]


@pytest.mark.parametrize("key", SHARES)
def test_a_share_belongs_to_our_own_policies(key: str) -> None:
    body = f"{key}: 10"

    assert errors(IMPROVED_HEAD + body) == []
    assert errors(HEAD + body) == [
        f"3:1: {key} `{key}` belongs to `apiVersion: resettle/v1`; {FIX}"
    ]


def test_an_argument_may_belong_to_our_own_policies() -> None:
    def problems(head: str) -> list[str]:
        return errors(with_args(TAINTS, "minTaintAge: 5m", head=head))

    place = "9:7: profiles[0].pluginConfig[0].args.minTaintAge"
    assert problems(IMPROVED_HEAD) == []
    assert problems(HEAD) == [f"{place} `minTaintAge` belongs to `apiVersion: resettle/v1`; {FIX}"]


@pytest.mark.parametrize(
    ("body", "problem"),
    [
        pytest.param(
            "maxPercentOfPodsToEvict: 5",
            "3:1: maxPercentOfPodsToEvict `maxPercentOfPodsToEvict` belongs to "
            "`apiVersion: resettle/v1`, not here",
            id="at the top level",
        ),
        pytest.param(
            f"strategies: {{{TAINTS}: {{enabled: true, params: {{minTaintAge: 5m}}}}}}",
            f"3:70: strategies.{TAINTS}.params.minTaintAge `minTaintAge` belongs to "
            "`apiVersion: resettle/v1`, not here",
            id="among the params of a strategy",
        ),
    ],
)
def test_the_oldest_policies_have_none_of_them_either(body: str, problem: str) -> None:
    assert errors(OLD_HEAD + body) == [problem]


@pytest.mark.parametrize("head", [HEAD, IMPROVED_HEAD], ids=["v1alpha2", "resettle"])
def test_without_a_value_such_a_key_counts_as_not_written(head: str) -> None:
    assert errors(document("maxPercentOfPodsToEvict:", head)) == []
    assert errors(with_args(TAINTS, "minTaintAge: null", head=head)) == []


RANGE = "write a number above 0 and up to 100"


@pytest.mark.parametrize(
    ("value", "problem"),
    [
        pytest.param("0.5", None, id="part of a percent"),
        pytest.param("100", None, id="all"),
        pytest.param("0", f"0 is not a share in percent; {RANGE}", id="zero lets nothing go"),
        pytest.param("-1", f"-1 is not a share in percent; {RANGE}", id="negative"),
        pytest.param("100.1", f"100.1 is not a share in percent; {RANGE}", id="more than all"),
        pytest.param("5%", f"`5%` is not a number; {RANGE}", id="with a sign"),
    ],
)
def test_a_share_is_above_zero_and_at_most_a_hundred(value: str, problem: str | None) -> None:
    problems = errors(f"{IMPROVED_HEAD}maxPercentOfNodesToEvictFrom: {value}")

    assert problems == ([f"3:31: maxPercentOfNodesToEvictFrom {problem}"] if problem else [])


@pytest.mark.parametrize(
    ("body", "limits"),
    [
        pytest.param("", Limits(percent_of_pods=1, percent_of_nodes=5), id="nothing written"),
        pytest.param(
            "maxNoOfPodsToEvictTotal: 7",
            Limits(total=7, percent_of_nodes=5),
            id="a number takes the place of the default share",
        ),
        pytest.param(
            "maxNoOfPodsToEvictTotal: 0",
            Limits(total=0, percent_of_nodes=5),
            id="even zero takes the place of the default share",
        ),
        pytest.param(
            "maxPercentOfPodsToEvict: 2.5",
            Limits(percent_of_pods=2.5, percent_of_nodes=5),
            id="another share",
        ),
        pytest.param(
            "maxNoOfPodsToEvictTotal: 7\nmaxPercentOfPodsToEvict: 2",
            Limits(total=7, percent_of_pods=2, percent_of_nodes=5),
            id="both stand side by side",
        ),
        pytest.param(
            "maxPercentOfNodesToEvictFrom: 100\nmaxNoOfPodsToEvictPerNode: 3",
            Limits(node=3, percent_of_pods=1, percent_of_nodes=100),
            id="other limits leave the share of pods alone",
        ),
    ],
)
def test_limits_that_are_not_written_are_shares(body: str, limits: Limits) -> None:
    assert load(IMPROVED_HEAD + body).limits == limits


def test_policies_of_the_descheduler_have_no_limit_unless_they_write_one() -> None:
    assert load(HEAD).limits == load(OLD_HEAD).limits == Limits()


def test_editors_see_which_keys_are_ours() -> None:
    top = SCHEMA["$defs"]["PolicyDocument"]["properties"]
    taints = SCHEMA["$defs"][PLUGINS[TAINTS].args.__name__]["properties"]

    ours = {key for key, schema in top.items() if "resettle/v1" in schema.get("description", "")}
    assert ours == {*SHARES, "softTaints", "deleteOptions"}
    assert "`resettle/v1` only" in taints["minTaintAge"]["description"]
