"""The page about movers keeps its word: its lists are whole, its picture is the code's."""

from __future__ import annotations

import json
import re
from textwrap import indent
from typing import Any

import yaml

from resettle.eviction import in_flight
from resettle.eviction.eviction_api import eviction_of
from resettle.eviction.executor import AT_ONCE
from resettle.eviction.pod_events import event_of
from resettle.framework import MoveResult, Options
from resettle.kube.transport.pacing import TRIES
from resettle.testing import ManualClock
from tests.eviction.builders import seen, to_leave

from .page import doc
from .reference import DOCS

PAGE = "operate/movers.md"


def blocks(kind: str) -> list[str]:
    return re.findall(rf"^```{kind}\n(.*?)^```$", doc(PAGE).text, re.M | re.S)


def test_every_outcome_is_explained() -> None:
    assert doc(PAGE).first_column("Results") >= {str(ending) for ending in MoveResult}
    assert len(doc(PAGE).table("Results")) == len(MoveResult)


def test_the_page_says_which_outcomes_limits_count() -> None:
    counted = {row[0].strip("`"): row[-1].startswith("yes") for row in doc(PAGE).table("Results")}

    assert counted == {str(ending): ending.counts_as_leaving for ending in MoveResult}


def test_the_picture_of_the_ledger_is_the_one_beside_its_code() -> None:
    (picture,) = blocks("text")

    assert indent(picture, "    ") in (in_flight.__doc__ or "")


def test_the_numbers_are_those_of_the_code() -> None:
    text = " ".join(doc(PAGE).text.split())

    assert (AT_ONCE, "Up to 32 requests" in text) == (32, True)
    assert (TRIES, "up to six times within ten seconds" in text) == (6, True)
    assert (in_flight.PATIENCE_SECONDS, "given up after ten minutes" in text) == (600, True)
    assert (in_flight.UNKNOWN_SECONDS, "still there after two minutes" in text) == (120, True)


def test_the_request_has_the_keys_that_are_sent() -> None:
    (shown,) = blocks("json")
    options = Options(
        initiator="A", profile="b", reason="c", delete_options={"gracePeriodSeconds": 30}
    )

    assert keys(json.loads(shown)) == keys(json.loads(eviction_of(seen(), options)))


def keys(value: Any) -> Any:
    return {key: keys(obj) for key, obj in value.items()} if isinstance(value, dict) else None


def test_the_events_say_what_the_page_says() -> None:
    for column, ending in ((1, MoveResult.EVICTED), (2, MoveResult.BUDGET)):
        event = event_of(
            to_leave(seen()),
            "" if ending is MoveResult.EVICTED else "no",
            "me",
            ManualClock().now(),
        )
        fields = {row[0].strip("`"): row[column].strip("`") for row in doc(PAGE).table("Events")}

        assert fields["type"] == event.type
        assert fields["action"] == event.action
        assert fields["reportingController"] == event.reporting_controller
        assert fields["reason"] in (event.reason, "the plugin")


def test_the_policy_of_the_page_is_that_of_the_example() -> None:
    (shown,) = map(yaml.safe_load, blocks("yaml"))
    example = DOCS.parent / "examples" / "please-leave" / "policy.yaml"
    (profile,) = yaml.safe_load(example.read_text(encoding="utf-8"))["profiles"]

    assert shown["profiles"] == [{"name": profile["name"], "plugins": profile["plugins"]}]


def test_the_mover_of_the_page_passes_its_test() -> None:
    (snippet,) = blocks("python")
    namespace: dict[str, Any] = {"__name__": "snippet"}
    exec(compile(snippet, f"docs/{PAGE}", "exec"), namespace)

    tests = [obj for name, obj in namespace.items() if name.startswith("test_")]

    assert len(tests) == 1
    for test in tests:
        test()
