"""Taints and the tolerations that answer them."""

from __future__ import annotations

import pytest

from resettle.model.constraints import Taint, Toleration, is_tolerated

TAINT = Taint("gpu", "NoSchedule", "a100")
BARE = Taint("gpu", "NoSchedule")


@pytest.mark.parametrize(
    ("toleration", "taint", "yes"),
    [
        pytest.param(Toleration("gpu", "Equal", "a100", "NoSchedule"), TAINT, True, id="all equal"),
        pytest.param(
            Toleration("gpu", "", "a100", "NoSchedule"), TAINT, True, id="Equal is default"
        ),
        pytest.param(Toleration("gpu", "Equal", "a100"), TAINT, True, id="any effect"),
        pytest.param(
            Toleration("gpu", "Equal", "a100", "NoExecute"), TAINT, False, id="other effect"
        ),
        pytest.param(Toleration("gpu", "Equal", "t4"), TAINT, False, id="other value"),
        pytest.param(Toleration("gpu", "Equal"), TAINT, False, id="no value is not any value"),
        pytest.param(Toleration("gpu", "Equal"), BARE, True, id="no value on both sides"),
        pytest.param(Toleration("cpu", "Equal", "a100"), TAINT, False, id="other key"),
        pytest.param(Toleration("GPU", "Equal", "a100"), TAINT, False, id="key in another case"),
        pytest.param(Toleration("", "Equal", "a100"), TAINT, True, id="any key of that value"),
        pytest.param(Toleration("", "Equal", "t4"), TAINT, False, id="any key, other value"),
        pytest.param(Toleration("gpu", "Exists"), TAINT, True, id="Exists"),
        pytest.param(
            Toleration("gpu", "Exists", "t4"), TAINT, True, id="Exists disregards a value"
        ),
        pytest.param(
            Toleration("gpu", "Exists", "", "NoExecute"), TAINT, False, id="Exists, effect"
        ),
        pytest.param(Toleration("cpu", "Exists"), TAINT, False, id="Exists, other key"),
        pytest.param(Toleration("", "Exists"), TAINT, True, id="everything"),
        pytest.param(Toleration("gpu", "Unheard", "a100"), TAINT, False, id="unknown operator"),
        pytest.param(Toleration("gpu", "exists"), TAINT, False, id="operator in lower case"),
    ],
)
def test_a_toleration_consents_to_a_taint(toleration: Toleration, taint: Taint, yes: bool) -> None:
    assert toleration.tolerates(taint) is yes


@pytest.mark.parametrize(
    ("operator", "ours", "theirs", "yes"),
    [
        pytest.param("Lt", "10", "9", True, id="less"),
        pytest.param("Lt", "10", "10", False, id="equal is not less"),
        pytest.param("Lt", "10", "11", False, id="more is not less"),
        pytest.param("Gt", "10", "11", True, id="greater"),
        pytest.param("Gt", "10", "10", False, id="equal is not greater"),
        pytest.param("Gt", "10", "9", False, id="less is not greater"),
        pytest.param("Gt", "9", "10", True, id="numbers, not texts"),
        pytest.param("Gt", "-2", "-1", True, id="negative numbers"),
        pytest.param("Gt", "1", "9223372036854775808", False, id="theirs beyond int64"),
        pytest.param("Lt", "9223372036854775808", "1", False, id="ours beyond int64"),
        pytest.param("Lt", "ten", "1", False, id="ours no number"),
        pytest.param("Lt", "10", "one", False, id="theirs no number"),
        pytest.param("Lt", "10", "", False, id="theirs empty"),
        pytest.param("Gt", "1.0", "2.0", False, id="no fractions"),
    ],
)
def test_a_toleration_may_compare_numbers(operator: str, ours: str, theirs: str, yes: bool) -> None:
    taint = Taint("level", "NoSchedule", theirs)

    assert Toleration("level", operator, ours).tolerates(taint) is yes


def test_one_of_several_tolerations_suffices() -> None:
    other, same = Toleration("cpu", "Exists"), Toleration("gpu", "Exists")

    assert is_tolerated((other, same), TAINT)
    assert not is_tolerated((other,), TAINT)
    assert not is_tolerated((), TAINT)


@pytest.mark.parametrize(
    ("effect", "hard"), [("NoSchedule", True), ("NoExecute", True), ("PreferNoSchedule", False)]
)
def test_a_soft_taint_keeps_no_pod_away(effect: str, hard: bool) -> None:
    assert Taint("a", effect).hard is hard


def test_a_taint_is_written_as_people_write_it() -> None:
    assert str(TAINT) == "gpu=a100:NoSchedule"
    assert str(BARE) == "gpu:NoSchedule"
