"""Flags about records: where `run` writes one, and which of its cycles other commands read."""

from __future__ import annotations

import argparse
import re
from datetime import timedelta
from typing import TYPE_CHECKING

from resettle.errors import InputError

if TYPE_CHECKING:
    from resettle.log import Log
    from resettle.record.writer import CycleRecorder

_ONLY_WITH_RECORD = ("cycle", "at", "round")
_NOT_WITH_RECORD = ("context", "now")
MAX_SIZE, MAX_AGE = "1Gi", "336h"


def add_record_flags(command: argparse.ArgumentParser) -> None:
    """Add the flags of a command that writes a record."""
    group = command.add_argument_group("a record of all cycles")
    group.add_argument(
        "--record", metavar="DIR", help="write what each cycle saw, decided and did to this folder"
    )
    group.add_argument(
        "--record-max-size",
        metavar="BYTES",
        default=MAX_SIZE,
        help="delete the oldest cycles when the folder is larger than this (%(default)s)",
    )
    group.add_argument(
        "--record-max-age",
        metavar="TIME",
        default=MAX_AGE,
        help="delete cycles that are older than this (%(default)s)",
    )


def add_cycle_flags(command: argparse.ArgumentParser) -> None:
    """Add the flags that choose one cycle of a record."""
    which = command.add_mutually_exclusive_group()
    which.add_argument("--cycle", metavar="N", type=parse_count, help="the cycle with this number")
    which.add_argument(
        "--at", metavar="TIME", help="the last cycle up to a time such as 2026-01-31T12:00:00Z"
    )


def parse_count(text: str) -> int:
    """A whole number of 1 or more."""
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"`{text}` is not a number of 1 or more")
    return int(text)


def flag_conflict(arguments: argparse.Namespace) -> str | None:
    """What is wrong with flags that do not go together with `--record`, or only with it."""
    for name in _NOT_WITH_RECORD if arguments.record else _ONLY_WITH_RECORD:
        if getattr(arguments, name, None) is not None:
            if arguments.record:
                return f"--{name} cannot be used with --record, which has its own cluster and time"
            return f"--{name} is for --record DIR; add that, or leave it out"
    return None


_MIN_BYTES = 1 << 20


def record_writer(arguments: argparse.Namespace, log: Log) -> CycleRecorder | None:
    """The writer of the record that `--record` names, or None without the flag."""
    if arguments.record is None:
        return None
    if not arguments.record:
        raise InputError("--record is empty; name a folder")
    from resettle.record.segments import RecordLimits
    from resettle.record.writer import CycleRecorder

    bounds = RecordLimits(
        _parse_size(arguments.record_max_size), _parse_age(arguments.record_max_age)
    )
    return CycleRecorder(arguments.record, bounds, log)


def _parse_size(text: str) -> int:
    from resettle.model.resources import parse_quantity, units

    try:
        size = units(parse_quantity(text))
    except InputError as error:
        raise InputError(f"--record-max-size: {error}") from None
    if size < _MIN_BYTES:
        raise InputError(f"--record-max-size: `{text}` is too small; write 1Mi or more")
    return size


def _parse_age(text: str) -> timedelta:
    from resettle.policy.args import DURATION, parse_duration

    age = parse_duration(text) if re.fullmatch(DURATION, text) else timedelta()
    if age <= timedelta():
        raise InputError(f"--record-max-age: `{text}` is not a duration; write one such as 336h")
    return age
