"""Flags about records: where one is written, and which of its cycles is meant.

Who writes the record of a run, as its flags say.
"""

from __future__ import annotations

import argparse
import re
from datetime import timedelta
from typing import TYPE_CHECKING

from resettle.errors import InputError
from resettle.log import Log
from resettle.model.resources import parse_quantity, units
from resettle.policy.args import DURATION, parse_duration

if TYPE_CHECKING:
    from resettle.record.writer import CycleRecorder

_ONLY_WITH_RECORD = ("cycle", "at", "round")
_NOT_WITH_RECORD = ("context", "now")
MAX_SIZE, MAX_AGE = "1Gi", "336h"


def add_record_flags(command: argparse.ArgumentParser) -> None:
    """Adds the flags of who writes a record."""
    group = command.add_argument_group("a record of all cycles")
    group.add_argument(
        "--record", metavar="DIR", help="keep what each cycle saw, decided and did in this folder"
    )
    group.add_argument(
        "--record-max-size",
        metavar="BYTES",
        default=MAX_SIZE,
        help="the oldest cycles go when it grows over this (%(default)s)",
    )
    group.add_argument(
        "--record-max-age",
        metavar="TIME",
        default=MAX_AGE,
        help="and when they are older than this (%(default)s)",
    )


def add_cycle_flags(command: argparse.ArgumentParser) -> None:
    """Adds the flags that name one cycle of a record."""
    which = command.add_mutually_exclusive_group()
    which.add_argument("--cycle", metavar="N", type=parse_count, help="the cycle of this number")
    which.add_argument(
        "--at", metavar="TIME", help="the last cycle up to a time such as 2026-01-31T12:00:00Z"
    )


def parse_count(text: str) -> int:
    """A number to count with."""
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"`{text}` is no number to count with; write 1 or more")
    return int(text)


def flag_conflict(arguments: argparse.Namespace) -> str | None:
    """What is wrong with the flags about a record and those beside it."""
    for name in _NOT_WITH_RECORD if arguments.record else _ONLY_WITH_RECORD:
        if getattr(arguments, name, None) is not None:
            if arguments.record:
                return f"--{name} makes no sense with --record, which has a cluster and a time"
            return f"--{name} is for --record DIR; add that, or leave it out"
    return None


_MIN_BYTES = 1 << 20


def record_writer(arguments: argparse.Namespace, log: Log) -> CycleRecorder | None:
    """The scribe of the folder that `--record` names, if it is there."""
    if arguments.record is None:
        return None
    if not arguments.record:
        raise InputError("--record is empty; name a folder")
    from resettle.record.segments import RecordLimits
    from resettle.record.writer import CycleRecorder

    bounds = RecordLimits(_parse_size(arguments.record_max_size), _parse_age(arguments.record_max_age))
    return CycleRecorder(arguments.record, bounds, log)


def _parse_size(text: str) -> int:
    try:
        size = units(parse_quantity(text))
    except InputError as error:
        raise InputError(f"--record-max-size: {error}") from None
    if size < _MIN_BYTES:
        raise InputError(f"--record-max-size: `{text}` is too little to be of use; allow 1Mi")
    return size


def _parse_age(text: str) -> timedelta:
    age = parse_duration(text) if re.fullmatch(DURATION, text) else timedelta()
    if age <= timedelta():
        raise InputError(
            f"--record-max-age: `{text}` is not a length of time; write one such as 336h"
        )
    return age
