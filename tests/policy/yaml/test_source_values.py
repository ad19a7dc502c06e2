"""Single values: what a bare word means, which types it fits, and what is said when it does not."""

from __future__ import annotations

from enum import Enum
from typing import Any

import pytest

from resettle.policy.args import Args, Duration, ExtensionPoint, Int32
from resettle.policy.yaml.source import unquoted_value
from tests.policy.fakes import PLUGINS, FakePlugin
from tests.policy.harness import errors, load, with_args


@pytest.mark.parametrize(
    ("word", "value"),
    [
        ("", None),
        ("~", None),
        ("Null", None),
        ("true", True),
        ("Yes", True),
        ("on", True),
        ("y", True),
        ("OFF", False),
        ("n", False),
        ("tRue", "tRue"),
        ("12", 12),
        ("-3", -3),
        ("1_000", 1000),
        ("010", 8),
        ("08", 8.0),
        ("0o10", 8),
        ("0x1F", 31),
        ("-0b11", -3),
        ("1e3", 1000.0),
        (".5", 0.5),
        ("1.", 1.0),
        (".inf", float("inf")),
        ("1:30", "1:30"),
        ("2024-01-02", "2024-01-02"),
        ("_1", "_1"),
        ("1.2.3", "1.2.3"),
        ("9" * 5000, float("inf")),
    ],
)
def test_a_bare_word_means_what_kubernetes_takes_it_for(word: str, value: Any) -> None:
    assert unquoted_value(word) == value
    assert type(unquoted_value(word)) is type(value)


class Colour(Enum):
    RED = "red"
    BLUE = "blue"


class ManyArgs(Args, frozen=True, kw_only=True):
    flag: bool = False
    count: Int32 = 0
    big: int = 0
    ratio: float = 0
    word: str = ""
    wait: Duration = "0"
    words: tuple[str, ...] = ()
    labels: dict[str, str] | None = None
    colour: Colour = Colour.RED
    either: int | str = 0
    pair: tuple[int, int] = (0, 0)
    free: Any = None


MANY = {**PLUGINS, "Many": FakePlugin("Many", ManyArgs, frozenset({ExtensionPoint.DESCHEDULE}))}


@pytest.mark.parametrize(
    ("written", "field", "value"),
    [
        ("flag: yes", "flag", True),
        ("count: 5.0", "count", 5),
        ("count: 1e3", "count", 1000),
        ("count: 010", "count", 8),
        ("ratio: 5", "ratio", 5.0),
        ("word: '5'", "word", "5"),
        ("word: !!str 5", "word", "5"),
        ("word: 1:30", "word", "1:30"),
        ("word: 2024-01-02", "word", "2024-01-02"),
        ("word: |\n  two\n  lines", "word", "two\nlines\n"),
        ("wait: 1h30m", "wait", "1h30m"),
        ("labels: {1: a, yes: b}", "labels", {"1": "a", "yes": "b"}),
        ("colour: blue", "colour", Colour.BLUE),
        ("either: 7", "either", 7),
        ("either: seven", "either", "seven"),
        ("pair: [1, 2]", "pair", (1, 2)),
        ("free: {a: [1, yes]}", "free", {"a": [1, True]}),
        ("flag:", "flag", False),
        ("apiVersion: descheduler/v1alpha2\nkind: ManyArgs", "count", 0),
    ],
)
def test_a_value_that_fits_is_taken(written: str, field: str, value: Any) -> None:
    policy = load(with_args("Many", written), MANY)

    assert getattr(policy.profiles[0].args["Many"], field) == value


@pytest.mark.parametrize(
    ("written", "problem"),
    [
        ('flag: "true"', '.flag `"true"` is not true or false; remove the quotes'),
        ("flag: 1", ".flag 1 is not true or false; write `true` or `false`"),
        ('count: "5"', '.count `"5"` is not a whole number; remove the quotes'),
        (
            "count: 1.5",
            ".count 1.5 is not a whole number; write a whole number from -2147483648 to 2147483647",
        ),
        (
            "count: 3000000000",
            ".count 3000000000 is out of range; "
            "write a whole number from -2147483648 to 2147483647",
        ),
        (
            "big: 99999999999999999999",
            ".big 99999999999999999999 is out of range; write a smaller number",
        ),
        ("ratio: half", ".ratio `half` is not a number; write a number"),
        ("ratio: .nan", ".ratio .nan is not a number; write a number"),
        ("word: 5", '.word 5 is not text; put it in quotes: `"5"`'),
        (
            "word: no",
            '.word `no` without quotes means false and is not text; put it in quotes: `"no"`',
        ),
        ("word: [a]", ".word a list is not text; write a single word or text in quotes"),
        ("wait: 5", '.wait 5 is not text; put it in quotes: `"5"`'),
        (
            "wait: 5x",
            ".wait `5x` is not a duration such as `50m`, `1h30m` or `90s`",
        ),
        ("words: a", ".words `a` is not a list; write it as a list: `[a]`"),
        ("words: {a: b}", ".words a mapping is not a list; write one `- item` a line"),
        ("words: [a, ]\nlabels: a", ".labels `a` is not a mapping; write lines of `key: value`"),
        ("words: [a, ~]", ".words[1] there is nothing after this `-`; remove the line"),
        ("labels: {a: }", ".labels.a nothing is written here; expected text; write a value"),
        ("labels: {[a]: b}", ".labels a list cannot be a key here; write a word before the `:`"),
        (
            "colour: rod",
            ".colour `rod` is not one of the words known here; did you mean `red`?",
        ),
        ("word: !secret x", ".word the tag `!secret` is not understood; remove the tag"),
        ("pair: [1]", ".pair expected `array` of length 2, got 1"),
    ],
)
def test_a_value_that_does_not_fit_is_reported_with_its_fix(written: str, problem: str) -> None:
    (only,) = errors(with_args("Many", written), MANY)

    assert only.partition(": ")[2] == "profiles[0].pluginConfig[0].args" + problem


@pytest.mark.parametrize(
    ("plugin", "written", "problem"),
    [
        (
            "PodLifeTime",
            "maxPodLifeTimeSeconds: 5\nnodeFit: true",
            "10:7: profiles[0].pluginConfig[0].args.nodeFit `nodeFit` is an argument of "
            "`DefaultEvictor`, not here",
        ),
        (
            "PodLifeTime",
            "maxPodLifeTimeSeconds: 5\nmatchLabels: {}",
            "10:7: profiles[0].pluginConfig[0].args.matchLabels `matchLabels` belongs under "
            "`pluginConfig[].args.labelSelector`, not here",
        ),
        (
            "PodLifeTime",
            "maxPodLifeTimeSeconds: 5\nlabelSelector: {matchLabel: {}}",
            "10:23: profiles[0].pluginConfig[0].args.labelSelector.matchLabel `matchLabel` is not "
            "a key known here; did you mean `matchLabels`?",
        ),
        (
            "RemoveFailedPods",
            "Reasons: []",
            "9:7: profiles[0].pluginConfig[0].args.Reasons `Reasons` is not a key known here; "
            "did you mean `reasons`?",
        ),
        (
            "RemoveFailedPods",
            "maxNoOfPodsToEvictTotal: 3",
            "9:7: profiles[0].pluginConfig[0].args.maxNoOfPodsToEvictTotal "
            "`maxNoOfPodsToEvictTotal` belongs at the top level, not here",
        ),
        (
            "RemoveFailedPods",
            "labelSelector: {matchExpressions: [{operator: Exists}]}",
            "9:42: profiles[0].pluginConfig[0].args.labelSelector.matchExpressions[0].key `key` is "
            "missing; add `key`",
        ),
        (
            "RemoveFailedPods",
            "labelSelector: {matchExpressions: [{key: a, operator: Equals}]}",
            "9:61: profiles[0].pluginConfig[0].args.labelSelector.matchExpressions[0].operator "
            "`Equals` is not an operator; write one of In, NotIn, Exists, DoesNotExist",
        ),
        (
            "RemoveFailedPods",
            "namespaces: {include: [a], exclude: [b]}",
            "9:19: profiles[0].pluginConfig[0].args.namespaces both `include` and `exclude` are "
            "set; keep one of the two lists",
        ),
    ],
)
def test_a_key_that_does_not_belong_is_reported_with_its_place(
    plugin: str, written: str, problem: str
) -> None:
    assert errors(with_args(plugin, written)) == [problem]
