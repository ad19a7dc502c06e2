"""Cycles of a record in place of a cluster: which one is meant, and all that it decided with."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from resettle.cli.commands.policy import print_warnings
from resettle.errors import InputError
from resettle.files import read_text, display_name
from resettle.framework.descheduler import Descheduler, build_descheduler
from resettle.framework.plan_state import NO_EARLIER_ROUNDS, EarlierRounds
from resettle.framework.plugin import Plugin
from resettle.framework.registry import default_registry
from resettle.model.kinds import Kind
from resettle.model.snapshot import Snapshot
from resettle.policy.load import load_policy
from resettle.record.entry import CycleEntry
from resettle.record.reader import RecordReader, RecordedCycle
from resettle.record.replay import Replay, build_descheduler, replay_cycle
from resettle.times import parse_time_flag


class RecordedInputs(NamedTuple):
    """A recorded cycle, who decided in it, and on what."""

    recorded: RecordedCycle
    descheduler: Descheduler
    snapshot: Snapshot


class Played(NamedTuple):
    """What one round of a recorded cycle decided with."""

    descheduler: Descheduler
    snapshot: Snapshot
    earlier_rounds: EarlierRounds


def open_record(folder: str) -> RecordReader:
    """The record, with a word on what cannot be read of it."""
    book = RecordReader(folder)
    for remark in book.warnings:
        print(f"note: {remark}", file=sys.stderr)
    return book


def named_cycle(arguments: argparse.Namespace, book: RecordReader) -> RecordedCycle | None:
    """The cycle that the flags name, if they do."""
    if arguments.cycle is not None:
        return book.cycle(arguments.cycle)
    moment = parse_time_flag(arguments.at, "--at")
    return None if moment is None else book.at(moment)


def pick_cycle(
    arguments: argparse.Namespace,
    plugins: Mapping[str, Plugin],
    pod: tuple[str, str] | None = None,
) -> RecordedInputs:
    """The cycle that is meant, told on stderr: the last one where nothing else is said."""
    book = open_record(arguments.record)
    kinds = [kind for plugin in plugins.values() for kind in plugin.kinds]
    recorded = named_cycle(arguments, book)
    if recorded is None:
        recorded = book.cycles[-1] if pod is None else _last_cycle_with(book, pod, kinds)
    told = cycle_outcome(recorded.entry) if pod is None else _pod_outcome("/".join(pod), recorded.entry)
    print(f"note: {recorded.title}: {told}", file=sys.stderr)
    snapshot = book.snapshot(recorded, kinds)
    return RecordedInputs(recorded, build_descheduler(recorded, plugins), snapshot)


def replay_inputs(arguments: argparse.Namespace, pod: tuple[str, str] | None) -> Played:
    """A round of the cycle that is meant, drawn again and found to be as it was."""
    plugins = default_registry()
    past = pick_cycle(arguments, plugins, pod)
    if arguments.policy:
        other = read_other_policy(arguments.policy, past, plugins, forgiving=arguments.forgiving)
        return Played(other, past.snapshot, NO_EARLIER_ROUNDS)
    replay = replay_cycle(*past)
    at = _round_index(getattr(arguments, "round", None), replay, "/".join(pod) if pod else "")
    if len(replay.rounds) > 1:
        print(
            f"note: this is the plan of round {at + 1}; it was drawn {len(replay.rounds)} times, "
            "each time with what had become of the moves before",
            file=sys.stderr,
        )
    return Played(past.descheduler, past.snapshot, replay.rounds[at].earlier_rounds)


def _round_index(number: int | None, replay: Replay, key: str) -> int:
    if number is None:
        return replay.deciding_round(key) if key else 0
    if number > len(replay.rounds):
        only = "one round" if len(replay.rounds) == 1 else f"{len(replay.rounds)} rounds"
        raise InputError(f"--round: {replay.recorded.title} has only {only}")
    return number - 1


def _last_cycle_with(book: RecordReader, pod: tuple[str, str], kinds: Iterable[Kind]) -> RecordedCycle:
    """The last cycle that moved the pod, else the last one that knew it."""
    key = "/".join(pod)
    for recorded in reversed(book.cycles):
        if any(move.key == key for move in recorded.entry.moves):
            return recorded
    if (found := book.last_cycle_with(pod, kinds)) is not None:
        return found
    raise InputError(
        f"no cycle of the record knew a pod `{key}`; `resettle record list {book.folder}` "
        "tells which times it covers"
    )


def read_other_policy(
    file: str, past: RecordedInputs, plugins: Mapping[str, Plugin], *, forgiving: bool = False
) -> Descheduler:
    """A policy to plan by in place of the one of then, if it reads no more than that did."""
    text, name = read_text(file), display_name(file)
    policy = load_policy(text, name=name, plugins=plugins, lenient=forgiving)
    print_warnings(policy.warnings)
    made = build_descheduler(policy, plugins)
    if unseen := sorted(made.reads - past.descheduler.reads - {"history"}):
        raise InputError(
            f"{name} reads {', '.join(unseen)}, which the policy of {past.recorded.title} did not; "
            "a record does not hold what nobody read"
        )
    print(f"note: planned by {name} in place of the policy of then", file=sys.stderr)
    return made


def _pod_outcome(key: str, entry: CycleEntry) -> str:
    """What a cycle did to one pod."""
    asked = [
        f"{key} was asked to leave by {it.plugin}: {it.ending}{f', {it.says}' if it.says else ''}"
        for it in entry.moves
        if it.key == key
    ]
    return "; ".join(asked) or f"{key} was not asked to leave"


def cycle_outcome(entry: CycleEntry) -> str:
    """What a cycle did, in a few words."""
    if entry.skipped:
        return f"skipped, {entry.skipped}"
    ends = [f"{number:,} {ending}" for ending, number in sorted(entry.endings.items())]
    return ", ".join(ends) or "nothing moved"
