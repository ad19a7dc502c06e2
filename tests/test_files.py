"""Files that are there as a whole or not at all."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from resettle.errors import InputError
from resettle.files import replace_file


def files(folder: Path) -> dict[str, bytes]:
    return {file.name: file.read_bytes() for file in folder.iterdir()}


@pytest.mark.parametrize("before", [{}, {"c.gz": b"old"}], ids=["a new file", "in place of an old"])
def test_a_file_has_its_name_once_it_is_whole(before: dict[str, bytes], tmp_path: Path) -> None:
    for name, content in before.items():
        (tmp_path / name).write_bytes(content)

    with replace_file(str(tmp_path / "c.gz")) as out:
        out.write(b"new")
        assert (tmp_path / "c.gz").exists() == bool(before)

    assert files(tmp_path) == {"c.gz": b"new"}


@pytest.mark.parametrize("error", [KeyboardInterrupt(), InputError("not now"), MemoryError()])
def test_what_ends_early_leaves_all_as_it_was(error: BaseException, tmp_path: Path) -> None:
    (tmp_path / "c.gz").write_bytes(b"old")

    def write_and_fail() -> None:
        with replace_file(str(tmp_path / "c.gz")) as out:
            out.write(b"new")
            raise error

    with pytest.raises(type(error)):
        write_and_fail()

    assert files(tmp_path) == {"c.gz": b"old"}


def test_a_link_goes_on_pointing_to_its_file(tmp_path: Path) -> None:
    (tmp_path / "link.gz").symlink_to("c.gz")
    with replace_file(str(tmp_path / "link.gz")) as out:
        out.write(b"new")

    assert (tmp_path / "link.gz").is_symlink()
    assert files(tmp_path) == {"c.gz": b"new", "link.gz": b"new"}


def test_a_pipe_is_written_and_stays_one(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    with replace_file(str(pipe)) as out:
        out.write(b"new")
    read = os.read(reader, 10)
    os.close(reader)

    assert read == b"new"
    assert pipe.is_fifo()


def test_only_its_owner_may_read_what_was_written(tmp_path: Path) -> None:
    with replace_file(str(tmp_path / "c.gz")) as out:
        out.write(b"new")

    assert (tmp_path / "c.gz").stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize(
    ("name", "why"),
    [
        pytest.param("gone/c.gz", "No such file or directory", id="in a folder that is not there"),
        pytest.param(".", "Is a directory", id="a folder"),
    ],
)
def test_a_place_that_cannot_be_written_is_an_error(name: str, why: str, tmp_path: Path) -> None:
    where = str(tmp_path / name)
    with pytest.raises(InputError) as caught, replace_file(where):
        pass
    assert str(caught.value) == f"`{where}` cannot be written: {why}; name another file"
