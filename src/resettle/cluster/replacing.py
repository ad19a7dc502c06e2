"""A file that is there as a whole or not at all."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import BinaryIO, cast

from resettle.errors import InputError


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
