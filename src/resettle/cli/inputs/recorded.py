"""Inputs from a record in place of a cluster: which cycle to read, and what it decided with.

A plan is replayed before it is shown, and must come out as recorded; with another policy it is new.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from resettle.cli.commands.policy import print_warnings
from resettle.errors import InputError
from resettle.files import display_name, read_text
from resettle.framework.descheduler import Descheduler, build_descheduler
from resettle.framework.plan_state import NO_EARLIER_ROUNDS, EarlierRounds
from resettle.framework.plugin import Plugin
from resettle.framework.registry import default_registry
from resettle.model.kinds import Kind
from resettle.model.snapshot import Snapshot
from resettle.policy.load import load_policy
from resettle.record.entry import CycleEntry
from resettle.record.reader import RecordedCycle, RecordReader
from resettle.record.replay import Replay, rebuild_descheduler, replay_cycle
from resettle.times import parse_time_flag


class RecordedInputs(NamedTuple):
    """A recorded cycle, with its policy as a descheduler and the snapshot it saw."""

    recorded: RecordedCycle
    descheduler: Descheduler
    snapshot: Snapshot


class ReplayedInputs(NamedTuple):
    """What one round of a recorded cycle decided with: policy, snapshot and earlier rounds."""

    descheduler: Descheduler
    snapshot: Snapshot
    earlier_rounds: EarlierRounds


def open_record(folder: str) -> RecordReader:
    """Open a record, and print a note on stderr for each part that cannot be read."""
    record = RecordReader(folder)
    for remark in record.warnings:
        print(f"note: {remark}", file=sys.stderr)
    return record


def named_cycle(arguments: argparse.Namespace, record: RecordReader) -> RecordedCycle | None:
    """The cycle that `--cycle` or `--at` names, or None without them."""
    if arguments.cycle is not None:
        return record.cycle(arguments.cycle)
    moment = parse_time_flag(arguments.at, "--at")
    return None if moment is None else record.at(moment)


def pick_cycle(
    arguments: argparse.Namespace,
    plugins: Mapping[str, Plugin],
    pod: tuple[str, str] | None = None,
) -> RecordedInputs:
    """Read the cycle that the flags name, else the last one, and say on stderr which it is."""
    record = open_record(arguments.record)
    kinds = [kind for plugin in plugins.values() for kind in plugin.kinds]
    recorded = named_cycle(arguments, record)
    if recorded is None:
        recorded = record.cycles[-1] if pod is None else _last_cycle_with(record, pod, kinds)
    outcome = (
        cycle_outcome(recorded.entry)
        if pod is None
        else _pod_outcome("/".join(pod), recorded.entry)
    )
    print(f"note: {recorded.title}: {outcome}", file=sys.stderr)
    snapshot = record.snapshot(recorded, kinds)
    return RecordedInputs(recorded, rebuild_descheduler(recorded, plugins), snapshot)


def replay_inputs(arguments: argparse.Namespace, pod: tuple[str, str] | None) -> ReplayedInputs:
    """Replay the cycle that the flags name, and return the inputs of one of its rounds."""
    plugins = default_registry()
    past = pick_cycle(arguments, plugins, pod)
    if arguments.policy:
        other = read_other_policy(arguments.policy, past, plugins, lenient=arguments.lenient)
        return ReplayedInputs(other, past.snapshot, NO_EARLIER_ROUNDS)
    replay = replay_cycle(*past)
    at = _round_index(getattr(arguments, "round", None), replay, "/".join(pod) if pod else "")
    if len(replay.rounds) > 1:
        print(
            f"note: this is the plan of round {at + 1}; the cycle planned "
            f"{len(replay.rounds)} times, each time with the results of the moves before",
            file=sys.stderr,
        )
    return ReplayedInputs(past.descheduler, past.snapshot, replay.rounds[at].earlier_rounds)


def _round_index(number: int | None, replay: Replay, key: str) -> int:
    if number is None:
        return replay.deciding_round(key) if key else 0
    if number > len(replay.rounds):
        only = "one round" if len(replay.rounds) == 1 else f"{len(replay.rounds)} rounds"
        raise InputError(f"--round: {replay.recorded.title} has only {only}")
    return number - 1


def _last_cycle_with(
    record: RecordReader, pod: tuple[str, str], kinds: Iterable[Kind]
) -> RecordedCycle:
    """The last cycle that moved the pod, else the last one that saw it."""
    key = "/".join(pod)
    for recorded in reversed(record.cycles):
        if any(move.key == key for move in recorded.entry.moves):
            return recorded
    if (seen_in := record.last_cycle_with(pod, kinds)) is not None:
        return seen_in
    raise InputError(
        f"no cycle of the record has a pod `{key}`; `resettle record list {record.folder}` "
        "shows which times it covers"
    )


def read_other_policy(
    file: str, past: RecordedInputs, plugins: Mapping[str, Plugin], *, lenient: bool = False
) -> Descheduler:
    """A policy to use instead of the recorded one; it must read no more kinds than that did."""
    text, name = read_text(file), display_name(file)
    policy = load_policy(text, name=name, plugins=plugins, lenient=lenient)
    print_warnings(policy.warnings)
    descheduler = build_descheduler(policy, plugins)
    if unseen := sorted(descheduler.reads - past.descheduler.reads - {"history"}):
        raise InputError(
            f"{name} reads {', '.join(unseen)}, which the policy of {past.recorded.title} did not; "
            "a record holds only what the recorded policy read"
        )
    print(f"note: using policy {name} instead of the recorded one", file=sys.stderr)
    return descheduler


def _pod_outcome(key: str, entry: CycleEntry) -> str:
    """What a cycle did to one pod, as a sentence."""
    requests = [
        f"eviction of {key} requested by {move.plugin}: {move.ending}"
        f"{f', {move.says}' if move.says else ''}"
        for move in entry.moves
        if move.key == key
    ]
    return "; ".join(requests) or f"no eviction of {key} was requested"


def cycle_outcome(entry: CycleEntry) -> str:
    """What a cycle did: how many moves had each outcome."""
    if entry.skipped:
        return f"skipped, {entry.skipped}"
    ends = [f"{number:,} {ending}" for ending, number in sorted(entry.endings.items())]
    return ", ".join(ends) or "nothing moved"
