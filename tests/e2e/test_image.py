"""The build script of the image, run without a container engine."""

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
    """Runs the script of the Dockerfile with the files copied there; returns the folder."""
    tree = tmp_path_factory.mktemp("src")
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, tree)
    for name in ("requirements.txt", "requirements-build.txt"):
        shutil.copy(ROOT / name, tree)
    shutil.copytree(ROOT / "src", tree / "src", ignore=shutil.ignore_patterns("__pycache__"))
    install_folder = tree.parent / "install"
    done = subprocess.run(
        [ROOT / "deploy" / "image" / "build.sh", install_folder],
        cwd=tree,
        env={**os.environ, "PYTHON": sys.executable},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return install_folder


def packages(prefix: Path) -> Path:
    (folder,) = prefix.glob("lib/python3*/site-packages")
    return folder


def run(prefix: Path, *words: str) -> str:
    """Runs a program of the image with only the packages installed there; returns its output."""
    command = [sys.executable, "-S", str(prefix / "bin" / words[0]), *words[1:]]
    env = {"PYTHONPATH": str(packages(prefix)), "PYTHONDONTWRITEBYTECODE": "1"}
    done = subprocess.run(command, env=env, capture_output=True, text=True, check=True)
    return done.stdout


def test_the_program_starts_from_an_empty_folder(prefix: Path) -> None:
    assert run(prefix, "resettle", "--version") == f"resettle {__version__}\n"


def test_everything_that_a_run_imports_is_installed(prefix: Path) -> None:
    policy = ROOT / "deploy" / "kustomize" / "base" / "policy.yaml"

    assert run(prefix, "resettle", "policy", "check", str(policy)).endswith(
        "no problems, 1 profile\n"
    )
    assert "kind: ClusterRole" in run(prefix, "resettle", "rbac", "--policy", str(policy))


def test_every_module_has_byte_code_that_stays_valid(prefix: Path) -> None:
    site_packages = packages(prefix)
    sources = list(site_packages.rglob("*.py"))
    compiled = {
        path.name.partition(".cpython")[0] for path in site_packages.rglob("__pycache__/*.pyc")
    }

    assert sources
    assert [source for source in sources if source.stem not in compiled] == []
    before = {path: path.stat().st_mtime_ns for path in site_packages.rglob("*.pyc")}
    for source in sources:
        os.utime(source)
    run(prefix, "resettle", "--help")
    assert {path: path.stat().st_mtime_ns for path in site_packages.rglob("*.pyc")} == before


def test_nothing_is_installed_that_is_not_pinned(prefix: Path) -> None:
    installed = {
        folder.name.partition("-")[0].lower() for folder in packages(prefix).glob("*.dist-info")
    }
    pinned = {
        line.partition("==")[0].replace("-", "_")
        for line in (ROOT / "requirements.txt").read_text().splitlines()
        if "==" in line
    }

    assert "resettle" in installed
    assert installed - {"resettle"} <= pinned


def test_a_download_with_another_hash_ends_the_build(tmp_path: Path) -> None:
    for name in ("pyproject.toml", "README.md", "LICENSE", "requirements.txt"):
        shutil.copy(ROOT / name, tmp_path)
    requirements = (ROOT / "requirements-build.txt").read_text()
    wrong_hashes = re.sub(r"sha256:[0-9a-f]{4}", "sha256:0000", requirements)
    (tmp_path / "requirements-build.txt").write_text(wrong_hashes)

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
