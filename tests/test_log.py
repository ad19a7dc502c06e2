from __future__ import annotations

import io
import json
import os
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from resettle.log import QUIET, Form, Log

NOON = datetime(2026, 1, 31, 12, 0, 0, 250_000, UTC)


class Noon:
    def now(self) -> datetime:
        return NOON


class Paris:
    def now(self) -> datetime:
        return NOON.astimezone(timezone(timedelta(hours=1)))


def written(form: Form = "text", verbosity: int = 0) -> tuple[Log, io.StringIO]:
    stream = io.StringIO()
    return Log.on(stream, Noon(), form=form, verbosity=verbosity), stream


def test_a_line_for_people_has_the_time_the_level_the_event_and_its_facts() -> None:
    log, stream = written()

    log.info("evicted", pod="web/a", node="n1", reason="has lived 3h")

    assert stream.getvalue() == (
        '2026-01-31T12:00:00Z INFO evicted pod=web/a node=n1 reason="has lived 3h"\n'
    )


def test_a_line_for_programs_is_one_object() -> None:
    log, stream = written("json")

    log.warning("cycle done", evicted=12, took=1.84567, stopped_by=None, full=True)

    assert stream.getvalue() == (
        '{"ts":"2026-01-31T12:00:00.250Z","level":"warning","msg":"cycle done",'
        '"evicted":12,"took":1.846,"full":true}\n'
    )


def test_times_are_in_utc_in_every_time_zone() -> None:
    stream = io.StringIO()

    Log.on(stream, Paris()).info("awake")

    assert stream.getvalue() == "2026-01-31T12:00:00Z INFO awake\n"


@pytest.mark.parametrize(
    ("verbosity", "levels"),
    [
        pytest.param(0, ["INFO", "WARNING", "ERROR"], id="without --v there is no debug"),
        pytest.param(1, ["DEBUG", "INFO", "WARNING", "ERROR"], id="from 1 on some"),
        pytest.param(2, ["DEBUG", "INFO", "WARNING", "ERROR"], id="2 adds nothing"),
        pytest.param(3, ["DEBUG", "DEBUG", "INFO", "WARNING", "ERROR"], id="from 3 on all"),
        pytest.param(9, ["DEBUG", "DEBUG", "INFO", "WARNING", "ERROR"], id="and ever after"),
    ],
)
def test_verbosity_decides_what_is_logged(verbosity: int, levels: list[str]) -> None:
    log, stream = written(verbosity=verbosity)

    for tell in (log.debug, log.detail, log.info, log.warning, log.error):
        tell("looked")

    assert [line.split()[1] for line in stream.getvalue().splitlines()] == levels


@pytest.mark.parametrize(
    ("fact", "word"),
    [
        pytest.param("web/a", "web/a", id="a plain word stands alone"),
        pytest.param("", '""', id="nothing is quoted"),
        pytest.param("two words", '"two words"', id="spaces are quoted"),
        pytest.param('say "no"', r'"say \"no\""', id="so are quotes"),
        pytest.param("a=b", '"a=b"', id="and what looks like a fact"),
        pytest.param("a\\b", r'"a\\b"', id="and what looks like an escape"),
        pytest.param("first\nsecond", r'"first\nsecond"', id="a line never breaks"),
        pytest.param("\x1b[31mred\x7f", r'"\u001b[31mred\u007f"', id="nor is a terminal painted"),
        pytest.param("Zürich", "Zürich", id="letters are letters"),
        pytest.param("in Zürich", '"in Zürich"', id="in quotes too"),
        pytest.param("\udc80", r'"\udc80"', id="half a letter is escaped"),
        pytest.param(7, "7", id="a number"),
        pytest.param(2 / 3, "0.667", id="a fraction, to the thousandth"),
        pytest.param(float("nan"), "nan", id="no number"),
        pytest.param(True, "true", id="yes"),
        pytest.param(timedelta(minutes=1), "60", id="a while, in seconds"),
        pytest.param(NOON, "2026-01-31T12:00:00.250Z", id="a time"),
        pytest.param(["a", "b"], "a,b", id="a list"),
        pytest.param({"b", "a"}, "a,b", id="a set, in order"),
        pytest.param((), '""', id="an empty list"),
        pytest.param({"cpu": 3, "memory": [1, None]}, "cpu:3,memory:1,null", id="a table"),
    ],
)
def test_a_fact_is_one_word(fact: Any, word: str) -> None:
    lines: list[str] = []

    Log.to(lines).info("seen", it=fact)

    assert lines == [f"INFO seen it={word}"]


def test_a_fact_that_is_none_is_left_out() -> None:
    lines: list[str] = []

    Log.to(lines).error("lost", node=None, pod="a")

    assert lines == ["ERROR lost pod=a"]


def test_facts_never_take_the_place_of_the_level_or_the_event() -> None:
    log, stream = written("json")

    log.info("kept", level="high", msg="other", ts=0, event="any")

    facts = json.loads(stream.getvalue())
    assert (facts["level"], facts["msg"], facts["ts"]) == (
        "info",
        "kept",
        "2026-01-31T12:00:00.250Z",
    )
    assert (facts["level_"], facts["msg_"], facts["ts_"], facts["event"]) == (
        "high",
        "other",
        0,
        "any",
    )


anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.binary(),
    lambda more: st.lists(more) | st.dictionaries(st.text() | st.integers(), more),
)


@given(facts=st.dictionaries(st.sampled_from(["pod", "node", "level", "reason"]), anything))
def test_whatever_the_facts_it_is_one_line_and_valid_json(facts: dict[str, Any]) -> None:
    people, text = written()
    programs, objects = written("json")

    people.info("seen", **facts)
    programs.info("seen", **facts)

    assert len(text.getvalue().splitlines()) == 1
    assert len(objects.getvalue().splitlines()) == 1
    strict = json.loads(objects.getvalue(), parse_constant=pytest.fail)
    assert set(strict) == {"ts", "level", "msg"} | {
        "level_" if key == "level" else key for key, fact in facts.items() if fact is not None
    }


def test_a_reader_who_has_gone_is_no_reason_to_stop() -> None:
    reader, writer = os.pipe()
    os.close(reader)
    stream = os.fdopen(writer, "w", encoding="utf-8")
    log = Log.on(stream, Noon())

    log.info("no reader")
    log.error("still no reader")

    with pytest.raises(BrokenPipeError):
        stream.close()
    log.info("closed as well")
    assert stream.closed


def test_letters_that_the_stream_cannot_write_are_no_reason_to_stop_either() -> None:
    kept = io.BytesIO()
    stream = io.TextIOWrapper(kept, encoding="ascii")
    log = Log.on(stream, Noon())

    log.info("seen", it="Zürich")
    log.info("seen", it="Bern")

    assert kept.getvalue() == b"2026-01-31T12:00:00Z INFO seen it=Bern\n"


def test_a_repeated_problem_is_logged_once_and_again_when_it_changes() -> None:
    lines: list[str] = []
    log = Log.to(lines)

    for reason in ("refused", "refused", "timed out", "refused", "refused"):
        log.only_when_new("watch Pod").warning("watch broken", reason=reason)

    assert lines == [
        "WARNING watch broken reason=refused",
        'WARNING watch broken reason="timed out"',
        "WARNING watch broken reason=refused",
    ]


def test_a_problem_that_went_away_is_logged_when_it_comes_back() -> None:
    lines: list[str] = []
    log = Log.to(lines)

    log.only_when_new("watch Pod").warning("watch broken")
    log.forget("watch Pod")
    log.only_when_new("watch Pod").warning("watch broken")
    log.forget("unknown key")

    assert lines == ["WARNING watch broken"] * 2


def test_two_keys_have_nothing_to_do_with_each_other() -> None:
    lines: list[str] = []
    log = Log.to(lines)

    log.only_when_new("a").info("slow")
    log.only_when_new("b").info("slow")
    log.only_when_new("a").info("slow")

    assert lines == ["INFO slow", "INFO slow"]


def test_the_quiet_log_takes_everything(capsys: pytest.CaptureFixture[str]) -> None:
    QUIET.error("lost", pod="a")

    assert capsys.readouterr() == ("", "")
