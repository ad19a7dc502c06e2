"""Text that people name on a command line: files, or standard input."""

from __future__ import annotations

import sys
from pathlib import Path

from resettle.errors import InputError

STDIN = "-"


def read_text(file: str) -> str:
    """The text of a file, or of stdin."""
    try:
        data = sys.stdin.buffer.read() if file == STDIN else Path(file).read_bytes()
    except FileNotFoundError:
        raise InputError(f"there is no file `{file}`; check the path") from None
    except IsADirectoryError:
        raise InputError(f"`{file}` is a directory; name a file in it") from None
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or str(error)
        raise InputError(f"`{file}` cannot be read: {why}; check the path and its mode") from None
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        where = f"line {line} of `{shown_name(file)}`"
        raise InputError(f"{where} is not UTF-8 text; save the file as UTF-8") from None


def shown_name(file: str) -> str:
    """What messages call the file."""
    return "stdin" if file == STDIN else file
