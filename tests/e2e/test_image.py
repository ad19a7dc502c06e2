"""What the image is built with, run by hand: no container engine is needed for it."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from resettle import __version__
from tests import ROOT


@pytest.fixture(scope="module")
def prefix(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What the script of the Dockerfile installs, from nothing but what is copied for it."""
    tree = tmp_path_factory.mktemp("src")
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, tree)
    for name in ("requirements.txt", "requirements-build.txt"):
        shutil.copy(ROOT / name, tree)
    shutil.copytree(ROOT / "src", tree / "src", ignore=shutil.ignore_patterns("__pycache__"))
    made = tree.parent / "install"
    done = subprocess.run(
        [ROOT / "deploy" / "image" / "build.sh", made],
        cwd=tree,
        env={**os.environ, "PYTHON": sys.executable},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return made


def packages(prefix: Path) -> Path:
    (found,) = prefix.glob("lib/python3*/site-packages")
    return found


def run(prefix: Path, *words: str) -> str:
    """What a program of the image prints, with nothing at hand but what was installed there."""
    command = [sys.executable, "-S", str(prefix / "bin" / words[0]), *words[1:]]
    env = {"PYTHONPATH": str(packages(prefix)), "PYTHONDONTWRITEBYTECODE": "1"}
    done = subprocess.run(command, env=env, capture_output=True, text=True, check=True)
    return done.stdout


def test_the_program_starts_from_an_empty_folder(prefix: Path) -> None:
    assert run(prefix, "resettle", "--version") == f"resettle {__version__}\n"


def test_all_that_a_run_imports_is_there(prefix: Path) -> None:
    policy = ROOT / "deploy" / "kustomize" / "base" / "policy.yaml"

    assert run(prefix, "resettle", "policy", "check", str(policy)).endswith(
        "no problems, 1 profile\n"
    )
    assert "kind: ClusterRole" in run(prefix, "resettle", "rbac", "--policy", str(policy))


def test_every_module_has_its_byte_code_and_needs_no_other(prefix: Path) -> None:
    there = packages(prefix)
    sources = list(there.rglob("*.py"))
    compiled = {it.name.partition(".cpython")[0] for it in there.rglob("__pycache__/*.pyc")}

    assert sources
    assert [it for it in sources if it.stem not in compiled] == []
    before = {it: it.stat().st_mtime_ns for it in there.rglob("*.pyc")}
    for source in sources:
        os.utime(source)
    run(prefix, "resettle", "--help")
    assert {it: it.stat().st_mtime_ns for it in there.rglob("*.pyc")} == before


def test_nothing_is_installed_that_is_not_pinned(prefix: Path) -> None:
    installed = {it.name.partition("-")[0].lower() for it in packages(prefix).glob("*.dist-info")}
    pinned = {
        line.partition("==")[0].replace("-", "_")
        for line in (ROOT / "requirements.txt").read_text().splitlines()
        if "==" in line
    }

    assert "resettle" in installed
    assert installed - {"resettle"} <= pinned


def test_a_download_that_is_not_what_was_pinned_ends_the_build(tmp_path: Path) -> None:
    for name in ("pyproject.toml", "README.md", "LICENSE", "requirements.txt"):
        shutil.copy(ROOT / name, tmp_path)
    told = (ROOT / "requirements-build.txt").read_text()
    spoilt = re.sub(r"sha256:[0-9a-f]{4}", "sha256:0000", told)
    (tmp_path / "requirements-build.txt").write_text(spoilt)

    done = subprocess.run(
        [ROOT / "deploy" / "image" / "build.sh", tmp_path / "install"],
        cwd=tmp_path,
        env={**os.environ, "PYTHON": sys.executable},
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.returncode != 0
    assert "DO NOT MATCH THE HASHES" in done.stderr
    assert not (tmp_path / "install").exists()
