"""Reads files that flags name (`-` is standard input), and writes files atomically.

A file that is being written gets its name only when it is complete.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import BinaryIO, cast

from resettle.errors import InputError

STDIN = "-"


def read_text(file: str) -> str:
    """Read the text of a file, or of stdin."""
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
        where = f"line {line} of `{display_name(file)}`"
        raise InputError(f"{where} is not UTF-8 text; save the file as UTF-8") from None


def display_name(file: str) -> str:
    """The name of the file in messages."""
    return "stdin" if file == STDIN else file


@contextmanager
def replace_file(name: str) -> Iterator[BinaryIO]:
    """Open a file to write; it gets its name if the block succeeds, and is deleted otherwise.

    Until then an older file keeps the name. A device or a pipe is written directly.
    """
    path = Path(os.path.realpath(name))
    try:
        if path.exists() and not path.is_file():
            with path.open("wb") as out:
                yield out
            return
        with NamedTemporaryFile(dir=path.parent, prefix=".resettle-", delete=False) as out:
            try:
                yield cast("BinaryIO", out)
                out.close()
                os.replace(out.name, path)
            except BaseException:
                Path(out.name).unlink(missing_ok=True)
                raise
    except OSError as error:
        why = error.strerror or str(error)
        raise InputError(f"`{name}` cannot be written: {why}; name another file") from None
