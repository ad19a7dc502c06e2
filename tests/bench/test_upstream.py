"""Upstream is built once, at a pinned version, or it is said why it cannot be."""

from __future__ import annotations

from pathlib import Path

import pytest

from bench.run import find_upstream
from bench.upstream import MODULE, UpstreamUnavailable, build_upstream, cache_folder, read_binary

SAYS = "Descheduler version {Major: Minor: GoVersion:go1.26.8 Compiler:gc Platform:linux/amd64}"


def program(file: Path, *lines: str) -> Path:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text("\n".join(["#!/bin/sh", *lines, ""]))
    file.chmod(0o755)
    return file


def test_the_version_is_pinned() -> None:
    assert "require sigs.k8s.io/descheduler v0.36.0\n" in MODULE


def test_an_upstream_that_is_built_is_taken_from_the_cache(tmp_path: Path) -> None:
    binary = program(tmp_path / "descheduler-v0.36.0" / "descheduler", f"echo '{SAYS}'")

    upstream = build_upstream(tmp_path)

    assert (upstream.binary, upstream.go) == (binary, "go1.26.8")


def test_it_is_built_from_a_module_of_our_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Stands for Go: what it should build is there already, and only has to be copied.
    ready = program(tmp_path / "ready", f"echo '{SAYS}'")
    program(tmp_path / "bin" / "go", f'cp {ready} "$3"', 'echo "$GOFLAGS $4" > asked')
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:/usr/bin:/bin")

    upstream = build_upstream(tmp_path / "cache")

    folder = upstream.binary.parent
    assert (folder / "go.mod").read_text() == MODULE
    assert (folder / "asked").read_text() == ("-mod=mod sigs.k8s.io/descheduler/cmd/descheduler\n")
    assert upstream.go == "go1.26.8"


def test_a_build_that_fails_says_what_go_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program(tmp_path / "bin" / "go", "echo no such module >&2", "exit 1")
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:/usr/bin:/bin")

    with pytest.raises(UpstreamUnavailable, match="no such module"):
        build_upstream(tmp_path / "cache")


def test_without_go_the_reason_is_given(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))

    with pytest.raises(UpstreamUnavailable, match="Go is not installed"):
        build_upstream(tmp_path / "cache")


def test_a_file_that_does_not_run_is_not_upstream(tmp_path: Path) -> None:
    with pytest.raises(UpstreamUnavailable, match="does not run"):
        read_binary(tmp_path / "missing")


def test_without_upstream_the_runner_says_so_and_goes_on(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert find_upstream(tmp_path / "missing") is None
    assert "resettle is measured alone" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("cache", "folder"),
    [
        pytest.param("/somewhere", "/somewhere/resettle-bench", id="as XDG says"),
        pytest.param("", "/home/me/.cache/resettle-bench", id="else in the home directory"),
    ],
)
def test_it_is_kept_where_caches_belong(
    monkeypatch: pytest.MonkeyPatch, cache: str, folder: str
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", cache)
    monkeypatch.setenv("HOME", "/home/me")

    assert cache_folder() == Path(folder)
