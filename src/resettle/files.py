"""Text that people name on a command line: files, or standard input.

A file that is there as a whole or not at all.
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


@contextmanager
def replacing(name: str) -> Iterator[BinaryIO]:
    """A file to write, which takes its name once all is well and is gone otherwise.

    Until then what had the name keeps it. A device or a pipe is written as it is.
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
