"""The page about writing a plugin: its files are written, its commands run, its errors provoked."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from tests import ROOT
from tests.docs.page import Page, Shown
from tests.examples.harness import install, python

PAGE = Page(ROOT / "docs" / "extend" / "write-a-plugin.md")
OURS = ("python", "pytest", "resettle")
EXAMPLE = ROOT / "examples" / "moving-day"
PLAN = ("plan", "--cluster", "cluster.yaml", "--policy", "policy.yaml")
NAME = "RemovePodsFromRetiredPools"
CHECK = ("policy", "check", "policy.yaml")


def written(folder: Path) -> Path:
    PAGE.write_files(folder)
    return folder


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return written(tmp_path_factory.mktemp("retired-pools"))


@pytest.fixture(scope="module")
def site(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return install(folder, tmp_path_factory.mktemp("site"))


def arguments_of(command: str) -> list[str]:
    """The command as arguments of an interpreter; the page's checkout of resettle is this one."""
    program, *words = shlex.split(command.replace("../resettle/", f"{ROOT.as_posix()}/"))
    return words if program == "python" else ["-m", program, *words]


def untimed(text: str) -> str:
    return re.sub(r" in \d+\.\d+s", "", text)


@pytest.mark.parametrize(
    "shown",
    [
        pytest.param(shown, id=shown.command)
        for shown in PAGE.commands
        if shown.command.startswith(OURS) and " -m venv " not in shown.command
    ],
)
def test_a_command_prints_what_the_page_shows(shown: Shown, folder: Path, site: Path) -> None:
    done = python(*arguments_of(shown.command), cwd=folder, reach=(site,))

    assert done.returncode == 0, done.stderr
    assert untimed(done.stdout + done.stderr) == untimed(shown.printed)


def test_the_page_shows_each_way_to_run_the_plugin() -> None:
    programs = {shown.command.split()[0] for shown in PAGE.commands}

    assert programs >= set(OURS)


def test_what_the_page_quotes_of_the_script_stands_in_it() -> None:
    script = (ROOT / "examples" / "own_descheduler.py").read_text()
    (quote,) = [text for text in PAGE.of_kind("python") if "DESCHEDULER.draw_plan" in text]

    missing = [line for line in quote.splitlines() if line.strip() not in script]

    assert missing == []


Edits = dict[str, tuple[str, str]]


@pytest.mark.parametrize(
    ("edits", "command"),
    [
        pytest.param(
            {"policy.yaml": ("deschedule:", "balance:")}, CHECK, id="a point it does not serve"
        ),
        pytest.param(
            {
                "policy.yaml": (
                    f"      - name: {NAME}\n        args:\n          retired: [blue]\n",
                    "",
                )
            },
            CHECK,
            id="no pluginConfig entry",
        ),
        pytest.param(
            {"policy.yaml": ("retired: [blue]", "{retired: [blue], pool_label: team}")},
            CHECK,
            id="a key spelled as in Python",
        ),
        pytest.param({"policy.yaml": ("[blue]", "[]")}, CHECK, id="senseless arguments"),
        pytest.param(
            {"retired_pools.py": ("node.labels.get(args.pool_label)", 'node.labels["poool"]')},
            PLAN,
            id="a plugin that fails",
        ),
        pytest.param(
            {
                "retired_pools.py": (
                    "deschedule=desc",
                    "filter=lambda *asked: True, deschedule=desc",
                ),
                "policy.yaml": ("deschedule:", f"filter: {{enabled: [{NAME}]}}\n      deschedule:"),
            },
            PLAN,
            id="a guard that answers True",
        ),
        pytest.param(
            {
                "retired_pools.py": (
                    "deschedule=desc",
                    'sort=lambda args, view, pod: pod.labels.get("rank", 0), deschedule=desc',
                ),
                "policy.yaml": ("deschedule:", f"sort: {{enabled: [{NAME}]}}\n      deschedule:"),
                "cluster.yaml": (
                    "uid: web-1\n      labels: {app: web}\n",
                    "uid: web-1\n      labels: {app: web, rank: first}\n",
                ),
            },
            PLAN,
            id="keys of different types",
        ),
    ],
)
def test_the_page_quotes_the_error_of_a_mistake(
    edits: Edits, command: tuple[str, ...], site: Path, tmp_path: Path
) -> None:
    folder = written(tmp_path)
    edit(folder, edits)

    done = python("-m", "resettle", *command, cwd=folder, reach=(folder, site))

    assert done.returncode == 1
    assert quoted(done.stderr)


def edit(folder: Path, edits: Edits) -> None:
    """Makes a mistake in files of the page; a policy with a sorter has to be of `resettle/v1`."""
    for name, (old, new) in edits.items():
        path = folder / name
        text = path.read_text()
        assert text.count(old) == 1
        text = text.replace(old, new)
        if "sort:" in text:
            text = text.replace("descheduler/v1alpha2", "resettle/v1")
        path.write_text(text)


def quoted(error: str) -> bool:
    """Whether the page has these lines, and they are an error."""
    return error.startswith("error: ") and f"```text\n{error}```" in PAGE.text


@pytest.mark.parametrize(
    "edits",
    [
        pytest.param(
            {"pyproject.toml": (f"{NAME} = ", "RetiredPools = ")},
            id="an entry point of another name",
        ),
        pytest.param(
            {"pyproject.toml": ("retired_pools:PLUGIN", "retired_pools:deschedule")},
            id="an entry point to a function",
        ),
        pytest.param(
            {"pyproject.toml": ("retired_pools:PLUGIN", "retired_pool:PLUGIN")},
            id="an entry point to no module",
        ),
    ],
)
def test_the_page_quotes_the_error_of_a_package_that_is_not_sound(
    edits: Edits, tmp_path: Path
) -> None:
    folder = tmp_path / "retired-pools"
    folder.mkdir()
    edit(written(folder), edits)

    site = install(folder, tmp_path / "site")
    done = python("-m", "resettle", *CHECK, cwd=folder, reach=(site,))

    assert done.returncode == 1
    assert quoted(done.stderr)


def test_the_page_quotes_the_error_of_two_packages_with_one_name(
    folder: Path, site: Path, tmp_path: Path
) -> None:
    rival = install(EXAMPLE, tmp_path)

    done = python("-m", "resettle", *CHECK, cwd=folder, reach=(site, rival))

    assert done.returncode == 1
    assert quoted(done.stderr)


def test_the_page_quotes_the_error_of_a_package_not_installed(folder: Path) -> None:
    done = python("-m", "resettle", *CHECK, cwd=folder)

    assert done.returncode == 1
    assert quoted(done.stderr)
