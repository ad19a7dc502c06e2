"""The Dockerfile as far as it can be judged without building it, and the pins that it installs.

What its script installs is run by hand in `tests/e2e/test_image.py`.
"""

from __future__ import annotations

import re
import tomllib
from fnmatch import fnmatch
from itertools import pairwise
from typing import NamedTuple

import pytest

from resettle import __version__
from tests import ROOT

PIN = re.compile(r"^([A-Za-z0-9._-]+)==(\S+)(?: ; [^\\]*)? \\$", re.MULTILINE)
HASH = re.compile(r"^    --hash=sha256:[0-9a-f]{64}( \\)?$")
LOCKS = ("requirements.txt", "requirements-build.txt", "requirements-dev.txt")


class Step(NamedTuple):
    """An instruction and its words."""

    name: str
    text: str

    @property
    def words(self) -> list[str]:
        """Its arguments, but for its flags."""
        return [word for word in self.text.split() if not word.startswith("--")]


def steps() -> list[Step]:
    text = (ROOT / "Dockerfile").read_text(encoding="utf-8")
    lines = [line for line in text.splitlines() if line.strip() and not line.startswith("#")]
    joined = "\n".join(lines).replace("\\\n", " ")
    return [Step(*line.split(maxsplit=1)) for line in joined.splitlines()]


def named(*names: str) -> list[Step]:
    return [step for step in steps() if step.name in names]


def copied() -> list[str]:
    """What is copied from this tree."""
    copies = [step.words[:-1] for step in named("COPY") if "--from=" not in step.text]
    return [source for sources in copies for source in sources]


def test_both_stages_begin_with_the_same_pinned_interpreter() -> None:
    bases = [step.words[0] for step in named("FROM")]

    assert len(bases) == 2
    assert len(set(bases)) == 1
    assert re.fullmatch(r"python:3\.\d+-slim-\w+", bases[0])


def test_nothing_is_fetched_but_by_the_hashed_requirements() -> None:
    assert named("ADD") == []
    commands = " ".join(step.text for step in named("RUN"))
    assert not re.search(r"\b(curl|wget|apt|apt-get|apk|git)\b", commands)
    assert "pip install" not in commands
    script = (ROOT / "deploy" / "image" / "build.sh").read_text(encoding="utf-8")
    installs = re.findall(r"^pip install (?:.*\\\n)*.*", script, re.MULTILINE)
    assert len(installs) == 3
    assert all("--require-hashes" in command or "--no-index" in command for command in installs)


def test_it_runs_as_an_unprivileged_user_by_number() -> None:
    *_, last = named("USER")
    user, group = last.text.split(":")

    assert user.isdecimal()
    assert group.isdecimal()
    assert int(user) > 10_000
    after = steps()[steps().index(last) :]
    assert {step.name for step in after} <= {"USER", "EXPOSE", "ENTRYPOINT", "CMD"}


def test_it_starts_without_a_shell() -> None:
    assert [step.text[0] for step in named("ENTRYPOINT", "CMD")] == ["[", "["]


def test_everything_that_is_copied_is_there_and_handed_to_the_builder() -> None:
    ignored = (ROOT / ".dockerignore").read_text(encoding="utf-8").splitlines()
    let_in = [line[1:] for line in ignored if line.startswith("!")]

    assert [name for name in copied() if not (ROOT / name).exists()] == []
    assert sorted(copied()) == sorted(let_in)


def test_the_script_is_handed_all_that_it_reads() -> None:
    script = (ROOT / "deploy" / "image" / "build.sh").read_text(encoding="utf-8")
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    read = set(re.findall(r"--requirement (\S+)", script))
    built_from = {project["project"]["readme"], *project["project"]["license-files"], "src"}

    assert read == {"requirements.txt", "requirements-build.txt"}
    assert {"pyproject.toml", *read, *built_from} <= set(copied())


def test_commands_of_the_image_are_those_that_are_installed() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    scripts = project["project"]["scripts"].keys()
    linked = re.findall(r"ln -s /usr/local/bin/(\S+)", " ".join(step.text for step in named("RUN")))

    assert linked == ["descheduler"]
    assert {"resettle", *linked} <= scripts
    assert named("ENTRYPOINT")[0].text == '["resettle"]'


def test_the_line_that_builds_it_names_this_version() -> None:
    assert f"-t resettle:{__version__} ." in (ROOT / "Dockerfile").read_text(encoding="utf-8")


# -- pins ----------------------------------------------------------------------------------------


def pins(file: str) -> dict[str, str]:
    return dict(PIN.findall((ROOT / file).read_text(encoding="utf-8")))


@pytest.mark.parametrize("file", LOCKS)
def test_every_pin_has_a_hash_and_no_line_is_anything_else(file: str) -> None:
    lines = (ROOT / file).read_text(encoding="utf-8").splitlines()
    statements = [line for line in lines if not line.strip().startswith("#")]

    strange = [line for line in statements if not PIN.match(line) and not HASH.match(line)]
    assert strange == []
    unheld = [
        pin
        for pin, after in pairwise([*statements, ""])
        if PIN.match(pin) and not HASH.match(after)
    ]
    assert unheld == []


@pytest.mark.parametrize("file", LOCKS[:2])
def test_what_is_shipped_is_what_is_tested(file: str) -> None:
    assert pins(file).items() <= pins("requirements-dev.txt").items()


def test_everything_that_the_project_depends_on_is_pinned() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    wanted = {
        re.split(r"[<>=~!\[ ;]", requirement)[0].lower().replace("_", "-")
        for requirement in project["project"]["dependencies"]
    }
    built_with = {
        requirement.partition(">")[0] for requirement in project["dependency-groups"]["build"]
    }

    assert wanted <= pins("requirements.txt").keys()
    assert built_with <= pins("requirements-build.txt").keys()
    assert {
        requirement.partition(">")[0] for requirement in project["build-system"]["requires"]
    } == built_with
    assert not any(fnmatch(name, "pytest*") for name in pins("requirements.txt"))
