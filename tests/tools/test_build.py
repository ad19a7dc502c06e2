"""What is missing is said plainly, and what is there is not built again."""

from __future__ import annotations

import fcntl
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tools.control_plane import run
from tools.control_plane.build import built
from tools.control_plane.recipe import RECIPE
from tools.go_programs.build import NOT_HERE, Missing


def _go(folder: Path, *says: str) -> None:
    """A `go` that answers with these lines of shell."""
    file = folder / "go"
    file.write_text("\n".join(["#!/bin/sh", *says]))
    file.chmod(0o755)


@pytest.mark.parametrize(
    ("go", "says"),
    [
        pytest.param([], "Go is not installed; install Go 1.26", id="no Go"),
        pytest.param(["echo go1.27.1"], "Go 1.26 is needed .* and `go` is 1.27.1", id="a newer Go"),
        pytest.param(
            ["echo go1.25.9"], "Go 1.26 is needed .* and `go` is 1.25.9", id="an older Go"
        ),
        pytest.param(
            ['[ "$1" = env ] && echo go1.26.3 && exit', "echo no route to the proxy; exit 1"],
            r"(?s)etcd v\S+ could not be built:\n    no route to the proxy\n.*`go env GOPROXY`",
            id="no modules",
        ),
    ],
)
def test_what_is_missing_is_named(
    go: list[str], says: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    programs = tmp_path / "bin"
    programs.mkdir()
    (programs / "nice").symlink_to("/usr/bin/nice")
    (programs / "sh").symlink_to("/bin/sh")
    if go:
        _go(programs, *go)
    monkeypatch.setenv("PATH", str(programs))

    with pytest.raises(Missing, match=says):
        built(tmp_path / "cache")


def test_the_run_ends_with_a_status_of_its_own_if_something_is_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))

    assert run.main([]) == NOT_HERE
    lines = capsys.readouterr().err.splitlines()
    assert lines[0].startswith("error: Go is not installed")
    assert lines[1] == "nothing was tested end to end; `make test` needs none of this"


def test_what_is_built_is_left_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    names = [name for source in RECIPE.sources for name in source.packages]
    kept = tmp_path / RECIPE.key
    kept.mkdir()
    for name in names:
        (kept / name).touch()
    monkeypatch.setenv("PATH", "")

    programs = built(tmp_path)

    assert [programs[name] for name in names] == [kept / name for name in names]


def test_what_another_builds_meanwhile_is_waited_for_and_not_built_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", "")
    folder = tmp_path / RECIPE.key
    folder.mkdir()
    with ThreadPoolExecutor() as pool, (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        waiting = pool.submit(built, tmp_path)
        for source in RECIPE.sources:
            for name in source.packages:
                (folder / name).touch()
        lock.close()

        assert waiting.result(30).folder == folder
