"""Whatever is written: reading ends with a policy or a `PolicyError`, and the same one twice."""

from __future__ import annotations

from typing import Any

import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from resettle.errors import PolicyError
from tests.policy.fakes import PLUGINS
from tests.policy.harness import load
from tests.policy.test_load import GOOD, SIX_MISTAKES
from tests.policy.versions.test_upgrade import OLD, TRICKY

WORDS = st.sampled_from(
    [
        *("apiVersion", "kind", "profiles", "name", "pluginConfig", "args", "plugins", "enabled"),
        *("disabled", "deschedule", "filter", "sort", "strategies", "params", "thresholds", "<<"),
        *("DeschedulerPolicy", "descheduler/v1alpha2", "descheduler/v1alpha1", "resettle/v1"),
        *("namespaces", "labelSelector", "podLifeTime", "states", "metricsProviders", "source"),
        *PLUGINS,
    ]
)
SCALARS = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5) | WORDS
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(WORDS, inner, max_size=4),
    max_leaves=20,
)
LETTERS = st.sampled_from([*"aA1 -:?[]{}&*!|>'\"%@`#,\t\n~<.", "\n- ", ": ", "&a ", "*a ", "<<: "])


def said(text: str | bytes) -> str:
    """What reading came to; anything but a `PolicyError` escapes."""
    try:
        return repr(load(text))
    except PolicyError as error:
        return str(error)


def read(text: str | bytes) -> None:
    assert said(text) == said(text)


@given(st.text() | st.lists(LETTERS).map("".join) | st.binary())
def test_any_text_can_be_read(text: str | bytes) -> None:
    read(text)


@given(VALUES, st.booleans())
def test_any_value_can_be_read(value: Any, flow: bool) -> None:
    read(yaml.safe_dump(value, default_flow_style=flow))


@given(st.sampled_from(["v1alpha1", "v1alpha2"]), st.dictionaries(WORDS, VALUES, max_size=4))
def test_any_body_behind_a_sound_head_can_be_read(version: str, body: dict[str, Any]) -> None:
    head = {"apiVersion": f"descheduler/{version}", "kind": "DeschedulerPolicy"}

    read(yaml.safe_dump({**body, **head}))


@settings(max_examples=300)
@given(st.sampled_from([GOOD, SIX_MISTAKES, OLD, TRICKY]), st.data())
def test_a_policy_with_a_slip_of_the_pen_can_be_read(text: str, data: st.DataObject) -> None:
    at = data.draw(st.integers(0, len(text)))
    gone = data.draw(st.integers(0, 12))
    slip = data.draw(st.lists(LETTERS, max_size=3).map("".join) | WORDS | SCALARS.map(str))

    read(text[:at] + slip + text[at + gone :])


def _paths(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """The path of every part of a value, the value itself included."""
    inner: list[tuple[Any, Any]] = []
    if isinstance(value, dict):
        inner = list(value.items())
    elif isinstance(value, list):
        inner = list(enumerate(value))
    return [path, *(deeper for key, part in inner for deeper in _paths(part, (*path, key)))]


@settings(max_examples=300)
@given(st.sampled_from([GOOD, OLD, TRICKY]), VALUES, st.data())
def test_a_policy_with_one_part_replaced_can_be_read(
    text: str, new: Any, data: st.DataObject
) -> None:
    document = yaml.safe_load(text)
    path = data.draw(st.sampled_from(_paths(document)[1:]))
    target = document
    for step in path[:-1]:
        target = target[step]
    target[path[-1]] = new

    read(yaml.safe_dump(document))
