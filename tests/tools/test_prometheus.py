"""Prometheus is found where it is, and what is missing is said plainly."""

from __future__ import annotations

from pathlib import Path

import pytest

from tools.go_programs.build import Missing
from tools.prometheus.package import NAMES, found


def program(folder: Path, name: str, *says: str) -> None:
    """A program that does this in shell."""
    folder.mkdir(exist_ok=True)
    (folder / name).write_text("\n".join(["#!/bin/sh", *says]))
    (folder / name).chmod(0o755)


@pytest.fixture
def path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The only folder on the PATH, but for the shell's own."""
    folder = tmp_path / "bin"
    folder.mkdir()
    for name in ("sh", "mkdir", "touch"):
        real = next(
            Path(item) / name for item in ("/bin", "/usr/bin") if (Path(item) / name).exists()
        )
        (folder / name).symlink_to(real)
    monkeypatch.setenv("PATH", str(folder))
    return folder


def test_what_is_on_the_path_is_taken(path: Path, tmp_path: Path) -> None:
    for name in NAMES:
        program(path, name)

    assert found(tmp_path / "cache")["promtool"] == path / "promtool"


def test_what_is_in_the_cache_is_not_downloaded_again(path: Path, tmp_path: Path) -> None:
    for name in NAMES:
        program(tmp_path / "cache", name)

    assert found(tmp_path / "cache").folder == tmp_path / "cache"


def test_a_package_is_unpacked_into_the_cache(path: Path, tmp_path: Path) -> None:
    program(path, "apt-get", "touch prometheus_1_all.deb")
    unpacks = "mkdir -p unpacked/usr/bin; touch unpacked/usr/bin/prometheus"
    program(path, "dpkg-deb", unpacks, "touch unpacked/usr/bin/promtool")

    programs = found(tmp_path / "cache")

    assert all(programs[name].exists() for name in NAMES)
    assert sorted(file.name for file in (tmp_path / "cache").iterdir()) == sorted(NAMES)


@pytest.mark.parametrize(
    ("apt", "says"),
    [
        pytest.param(None, "this machine has no `apt-get`; install Prometheus", id="not Debian"),
        pytest.param(
            ["echo E: no network; exit 100"],
            "`apt-get download --quiet prometheus` ended with 100: E: no network; install",
            id="no network",
        ),
    ],
)
def test_what_is_missing_is_named(
    apt: list[str] | None, says: str, path: Path, tmp_path: Path
) -> None:
    if apt:
        program(path, "apt-get", *apt)

    with pytest.raises(Missing, match=says):
        found(tmp_path / "cache")
