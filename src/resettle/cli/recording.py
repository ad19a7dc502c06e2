"""Who writes the record of a run, as its flags say."""

from __future__ import annotations

import argparse
import re
from datetime import timedelta
from typing import TYPE_CHECKING

from resettle.errors import InputError
from resettle.log import Log
from resettle.model.quantity import parse_quantity, units
from resettle.policy.args import DURATION, parse_duration

if TYPE_CHECKING:
    from resettle.record.scribe import Scribe

_LEAST_BYTES = 1 << 20


def scribe_of(arguments: argparse.Namespace, log: Log) -> Scribe | None:
    """The scribe of the folder that `--record` names, if it is there."""
    if arguments.record is None:
        return None
    if not arguments.record:
        raise InputError("--record is empty; name a folder")
    from resettle.record.scribe import Scribe
    from resettle.record.segment import Bounds

    bounds = Bounds(_size(arguments.record_max_size), _age(arguments.record_max_age))
    return Scribe(arguments.record, bounds, log)


def _size(text: str) -> int:
    try:
        size = units(parse_quantity(text))
    except InputError as error:
        raise InputError(f"--record-max-size: {error}") from None
    if size < _LEAST_BYTES:
        raise InputError(f"--record-max-size: `{text}` is too little to be of use; allow 1Mi")
    return size


def _age(text: str) -> timedelta:
    age = parse_duration(text) if re.fullmatch(DURATION, text) else timedelta()
    if age <= timedelta():
        raise InputError(
            f"--record-max-age: `{text}` is not a length of time; write one such as 336h"
        )
    return age
