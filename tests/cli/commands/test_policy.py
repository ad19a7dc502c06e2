"""`resettle policy`: words in, words out, and the exit code between them."""

from __future__ import annotations

import argparse
import io
import json
import subprocess
import sys
from pathlib import Path

import pytest

from resettle.cli.commands import policy as command
from resettle.errors import InputError, PolicyError
from tests.policy.fakes import PLUGINS
from tests.policy.harness import HEAD, one_profile
from tests.policy.test_load import GOOD, SIX_MISTAKES, SIX_PROBLEMS
from tests.policy.versions.test_upgrade import OLD, OLD_CONVERTED

FAILED_PODS = one_profile(
    """
    plugins: {deschedule: {enabled: [RemoveFailedPods]}}
    pluginConfig: [{name: RemoveFailedPods}]
    """
)


@pytest.fixture(autouse=True)
def _known_plugins(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(command, "installed_plugins", lambda: PLUGINS)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def resettle(*words: str) -> int:
    """Runs the command as the main program would."""
    parser = argparse.ArgumentParser(prog="resettle")
    command.register(parser.add_subparsers())
    arguments = parser.parse_args(["policy", *words])
    code: int = arguments.run(arguments)
    return code


def test_check_says_that_all_is_well(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "policy.yaml").write_text(GOOD)

    assert resettle("check", "policy.yaml") == 0
    assert capsys.readouterr() == ("policy.yaml: no problems, 1 profile\n", "")


def test_check_prints_warnings_apart(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "policy.yaml").write_text(one_profile("plugins: {sort: {enabled: [ByAge]}}"))

    assert resettle("check", "policy.yaml") == 0
    out, err = capsys.readouterr()
    assert out == "policy.yaml: no problems, 1 profile, 1 warning\n"
    assert err == (
        "warning: policy.yaml:5:19: profiles[0].plugins.sort\n"
        "    `sort` has no effect in `descheduler/v1alpha2`; "
        "it works in `apiVersion: resettle/v1`\n"
    )


def test_check_reports_every_file_before_it_fails(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "policy.yaml").write_text(SIX_MISTAKES)
    (folder / "good.yaml").write_text(GOOD)

    assert resettle("check", "policy.yaml", "good.yaml") == 1
    assert capsys.readouterr() == (
        "good.yaml: no problems, 1 profile\n",
        f"error: {SIX_PROBLEMS}\n",
    )


def test_check_for_programs(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "policy.yaml").write_text(HEAD + "nodeselector: a=b\n")

    assert resettle("check", "-o", "json", "policy.yaml") == 1
    out, err = capsys.readouterr()
    assert err == ""
    assert json.loads(out) == [
        {
            "file": "policy.yaml",
            "line": 3,
            "column": 1,
            "path": "nodeselector",
            "what": "`nodeselector` is not a key known here",
            "fix": "did you mean `nodeSelector`?",
            "severity": "error",
        }
    ]


def test_check_reads_stdin(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(GOOD.encode())))

    assert resettle("check", "-") == 0
    assert capsys.readouterr().out == "stdin: no problems, 1 profile\n"


def test_what_cannot_be_read_is_reported_after_the_rest(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "good.yaml").write_text(GOOD)
    (folder / "bytes.yaml").write_bytes(b"kind: x\n\xff")

    with pytest.raises(InputError) as raised:
        resettle("check", "missing.yaml", ".", "bytes.yaml", "good.yaml")

    assert str(raised.value).splitlines() == [
        "there is no file `missing.yaml`; check the path",
        "`.` is a directory; name a file in it",
        "line 2 of `bytes.yaml` is not UTF-8 text; save the file as UTF-8",
    ]
    assert capsys.readouterr().out == "good.yaml: no problems, 1 profile\n"


def test_convert_prints_the_policy(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "old.yaml").write_text(OLD)

    assert resettle("convert", "old.yaml") == 0
    assert capsys.readouterr() == (OLD_CONVERTED, "")


def test_convert_to_our_own_version_shows_what_changes_apart_from_the_policy(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "policy.yaml").write_text(FAILED_PODS)

    assert resettle("convert", "policy.yaml", "--to", "resettle/v1") == 0
    out, err = capsys.readouterr()
    first, *lines = err.splitlines()
    assert out.startswith("# Written by `resettle policy convert` from a descheduler/v1alpha2")
    assert "apiVersion: resettle/v1\n" in out
    assert first == "note: policy.yaml decides differently as resettle/v1:"
    assert "  - DefaultEvictor: `nodeFit` is on; write `nodeFit: false` to keep it off" in lines
    assert all(line.startswith("  - ") for line in lines)


def test_convert_only_tidies_a_policy_of_our_own(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "policy.yaml").write_text(FAILED_PODS.replace("descheduler/v1alpha2", "resettle/v1"))

    assert resettle("convert", "policy.yaml", "--to", "resettle/v1") == 0
    out, err = capsys.readouterr()
    assert "from a resettle/v1 policy" in out
    assert err == ""


def test_convert_for_programs(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "policy.yaml").write_text(FAILED_PODS)

    assert resettle("convert", "policy.yaml", "--to", "resettle/v1", "-o", "json") == 0
    out, err = capsys.readouterr()
    report = json.loads(out)
    assert err == ""
    assert "apiVersion: resettle/v1\n" in report["policy"]
    assert report["warnings"] == []
    assert report["differences"][0] == {
        "about": "",
        "says": "at most 1% of all pods move in a cycle; "
        "write `maxPercentOfPodsToEvict: 100` for no such limit",
        "habit": "permissive_defaults",
    }


def test_convert_refuses_a_policy_with_mistakes(folder: Path) -> None:
    (folder / "policy.yaml").write_text(SIX_MISTAKES)

    with pytest.raises(PolicyError, match=r"policy\.yaml has 6 problems"):
        resettle("convert", "policy.yaml", "--to", "descheduler/v1alpha2")


def test_schema_is_json(capsys: pytest.CaptureFixture[str]) -> None:
    assert resettle("schema") == 0
    assert json.loads(capsys.readouterr().out)["required"] == ["apiVersion", "kind"]


@pytest.mark.parametrize("words", [(), ("check",), ("convert", "a", "--to", "v9"), ("repair",)])
def test_asking_wrongly_exits_with_two(
    words: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as raised:
        resettle(*words)

    assert raised.value.code == 2
    assert "usage: resettle policy" in capsys.readouterr().err


def test_help_imports_nothing_third_party() -> None:
    program = (
        "import sys, resettle.cli.commands.policy; "
        "print(sorted({'msgspec', 'yaml'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, check=True)

    assert done.stdout.strip() == b"[]"
