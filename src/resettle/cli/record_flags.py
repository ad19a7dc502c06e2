"""Flags about records: where one is written, and which of its cycles is meant."""

from __future__ import annotations

import argparse

_ONLY_WITH_RECORD = ("cycle", "at", "round")
_NOT_WITH_RECORD = ("context", "now")
MAX_SIZE, MAX_AGE = "1Gi", "336h"


def add_recording(command: argparse.ArgumentParser) -> None:
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


def add_cycle(command: argparse.ArgumentParser) -> None:
    """Adds the flags that name one cycle of a record."""
    which = command.add_mutually_exclusive_group()
    which.add_argument("--cycle", metavar="N", type=count, help="the cycle of this number")
    which.add_argument(
        "--at", metavar="TIME", help="the last cycle up to a time such as 2026-01-31T12:00:00Z"
    )


def count(text: str) -> int:
    """A number to count with."""
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"`{text}` is no number to count with; write 1 or more")
    return int(text)


def asked_wrongly(arguments: argparse.Namespace) -> str | None:
    """What is wrong with the flags about a record and those beside it."""
    for name in _NOT_WITH_RECORD if arguments.record else _ONLY_WITH_RECORD:
        if getattr(arguments, name, None) is not None:
            if arguments.record:
                return f"--{name} makes no sense with --record, which has a cluster and a time"
            return f"--{name} is for --record DIR; add that, or leave it out"
    return None
