"""Label selectors: as an object, as a string, and what each operator means."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from resettle.errors import InputError
from resettle.model.selectors import (
    EVERYTHING,
    NOTHING,
    LabelSelector,
    Requirement,
    Selector,
    as_int64,
    is_label_key,
    is_label_value,
    parse_selector,
)

BLUE = {"pool": "blue", "size": "10"}


def written(selector: dict[str, Any]) -> LabelSelector:
    return msgspec.convert(selector, LabelSelector)


def expression(key: str, operator: str, *values: str) -> dict[str, Any]:
    return {"matchExpressions": [{"key": key, "operator": operator, "values": list(values)}]}


@pytest.mark.parametrize(
    ("selector", "selected"),
    [
        pytest.param({}, True, id="empty selects everything"),
        pytest.param({"matchLabels": {}, "matchExpressions": []}, True, id="empty parts"),
        pytest.param({"matchLabels": {"pool": "blue"}}, True, id="label equal"),
        pytest.param({"matchLabels": {"pool": "red"}}, False, id="label differs"),
        pytest.param({"matchLabels": {"zone": "a"}}, False, id="label absent"),
        pytest.param({"matchLabels": {"pool": "blue", "zone": "a"}}, False, id="one of two labels"),
        pytest.param(expression("pool", "In", "red", "blue"), True, id="In"),
        pytest.param(expression("pool", "In", "red"), False, id="In, not listed"),
        pytest.param(expression("zone", "In", ""), False, id="In never holds for an absent label"),
        pytest.param(expression("pool", "NotIn", "red"), True, id="NotIn"),
        pytest.param(expression("pool", "NotIn", "blue"), False, id="NotIn, listed"),
        pytest.param(expression("zone", "NotIn", "a"), True, id="NotIn holds for an absent label"),
        pytest.param(expression("pool", "Exists"), True, id="Exists"),
        pytest.param(expression("zone", "Exists"), False, id="Exists, absent"),
        pytest.param(expression("pool", "DoesNotExist"), False, id="DoesNotExist, present"),
        pytest.param(expression("zone", "DoesNotExist"), True, id="DoesNotExist"),
        pytest.param(
            {"matchLabels": {"pool": "blue"}, **expression("zone", "Exists")},
            False,
            id="labels and expressions must both agree",
        ),
    ],
)
def test_a_selector_object_selects_by_labels(selector: dict[str, Any], selected: bool) -> None:
    compiled = written(selector).compile()

    assert compiled is not None
    assert compiled.matches(BLUE) is selected


@pytest.mark.parametrize(
    "selector",
    [
        pytest.param(expression("a", "Like", "b"), id="unknown operator"),
        pytest.param(expression("a", "in", "b"), id="operator in lower case"),
        pytest.param(expression("a", "Gt", "1"), id="Gt is for nodes"),
        pytest.param(expression("a", "In"), id="In without values"),
        pytest.param(expression("a", "NotIn"), id="NotIn without values"),
        pytest.param(expression("a", "Exists", "b"), id="Exists with values"),
        pytest.param(expression("a", "DoesNotExist", "b"), id="DoesNotExist with values"),
        pytest.param(expression("", "Exists"), id="empty key"),
        pytest.param(expression("a b", "Exists"), id="key with a blank"),
        pytest.param(expression("a", "In", "b c"), id="value with a blank"),
        pytest.param({"matchLabels": {"-a": "b"}}, id="key of a label"),
        pytest.param({"matchLabels": {"a": "b-"}}, id="value of a label"),
    ],
)
def test_a_selector_that_kubernetes_rejects_does_not_compile(selector: dict[str, Any]) -> None:
    assert written(selector).compile() is None
    assert len(list(written(selector).problems())) == 1


@pytest.mark.parametrize(
    ("text", "selected"),
    [
        ("", True),
        ("  ", True),
        ("pool=blue", True),
        ("pool==blue", True),
        (" pool = blue ", True),
        ("pool=red", False),
        ("pool!=red", True),
        ("pool!=blue", False),
        ("zone!=a", True),
        ("pool in (red,blue)", True),
        ("pool in ( red , blue )", True),
        ("pool in (red)", False),
        ("zone in (a)", False),
        ("pool notin (red)", True),
        ("pool notin (red, blue)", False),
        ("zone notin (a)", True),
        ("pool", True),
        ("zone", False),
        ("!pool", False),
        ("! zone", True),
        ("size>9", True),
        ("size > 10", False),
        ("size<11", True),
        ("size<10", False),
        ("pool>1", False),
        ("zone<1", False),
        ("pool=blue,size>5", True),
        ("pool=blue , !size", False),
        ("pool in (red,blue),size notin (1,2),!zone", True),
        ("example.com/pool!=x,pool", True),
        ("zone=", False),
        ("pool!=", True),
    ],
)
def test_a_selector_string_selects_by_labels(text: str, selected: bool) -> None:
    assert parse_selector(text).matches(BLUE) is selected


@pytest.mark.parametrize(
    "text",
    [
        "=a",
        "a=b=c",
        "a==b==c",
        "a b",
        "a,,b",
        ",a",
        "a,",
        "a in",
        "a in b",
        "a in (b",
        "a in b)",
        "a in (b))",
        "a notin b",
        "a >",
        "a>b",
        "a>1.5",
        "a=b c",
        "!a=b",
        "!",
        "(a)",
        "a=-b",
        "-a=b",
        "a.b/c/d=e",
        "a in (b c)",
        "UPPER.example/a",
        "a=" + "b" * 64,
        "a&b",
    ],
)
def test_an_invalid_selector_is_an_input_error(text: str) -> None:
    with pytest.raises(InputError):
        parse_selector(text)


def test_both_forms_of_one_selector_are_the_same_value() -> None:
    text = parse_selector("a=b,c in (e,d),!f")
    rows = [
        {"key": "c", "operator": "In", "values": ["d", "e"]},
        {"key": "f", "operator": "DoesNotExist"},
    ]

    assert written({"matchLabels": {"a": "b"}, "matchExpressions": rows}).compile() == text
    assert hash(text) == hash(parse_selector("a=b,c in (d,e),!f"))


def test_everything_is_everything_and_nothing_stays_nothing() -> None:
    more = (Requirement("a", "Exists"),)

    assert EVERYTHING.matches({})
    assert not NOTHING.matches({"a": "b"})
    assert NOTHING.narrow(more) is NOTHING
    assert EVERYTHING.narrow(more) == Selector(more)
    assert not EVERYTHING.narrow(more).matches({})


@pytest.mark.parametrize(
    ("key", "sound"),
    [
        ("a", True),
        ("A_b-c.d", True),
        ("9", True),
        ("example.com/a", True),
        ("a" * 63, True),
        ("a" * 64, False),
        ("", False),
        ("-a", False),
        ("a-", False),
        ("a/", False),
        ("/a", False),
        ("a/b/c", False),
        ("Example.com/a", False),
        ("a..b/c", False),
        ("x" * 254 + "/a", False),
        ("ä", False),
        ("a\n", False),
    ],
)
def test_keys_of_labels_follow_the_rules_of_kubernetes(key: str, sound: bool) -> None:
    assert is_label_key(key) is sound


@pytest.mark.parametrize(
    ("value", "sound"),
    [
        ("", True),
        ("a", True),
        ("1.0_x-Y", True),
        ("a" * 63, True),
        ("a" * 64, False),
        ("-", False),
        ("a b", False),
        ("a/b", False),
        ("a.", False),
        ("a\n", False),
    ],
)
def test_values_of_labels_follow_the_rules_of_kubernetes(value: str, sound: bool) -> None:
    assert is_label_value(value) is sound


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("0", 0),
        ("-5", -5),
        ("+5", 5),
        ("007", 7),
        ("9223372036854775807", 2**63 - 1),
        ("-9223372036854775808", -(2**63)),
        ("9223372036854775808", None),
        ("", None),
        ("1.0", None),
        ("1e3", None),
        (" 1", None),
        ("1_0", None),
        ("0x1", None),
        ("٣", None),
        ("1\n", None),
    ],
)
def test_whole_numbers_are_read_as_kubernetes_reads_them(text: str, number: int | None) -> None:
    assert as_int64(text) == number
