"""Suites go to whichever control plane is free, and no failure is lost on the way."""

from __future__ import annotations

from pathlib import Path

import pytest

from tools.control_plane.dealing import Deal

WHERE = "import os\nfrom pathlib import Path\n"
PASSES = WHERE + "def test_it():\n    Path(os.environ['PLACE'], Path(__file__).stem).touch()\n"
FAILS = "def test_it():\n    assert False\n"
BREAKS = "def broken(:\n"
FAILS_ONCE = (
    WHERE
    + """
def test_it():
    mark = Path(__file__).with_suffix('.seen')
    seen = mark.exists()
    mark.touch()
    assert seen
"""
)
DIES = "import os\ndef test_it():\n    os.kill(os.getpid(), 9)\n"


def dealt(folder: Path, words: tuple[str, ...] = (), **files: str) -> Deal:
    """The files, played on two places that are folders."""
    paths = []
    for name, text in files.items():
        paths.append(folder / f"test_{name}.py")
        paths[-1].write_text(text)
    places = [folder / "here", folder / "there"]
    for place in places:
        place.mkdir()
    deal = Deal(paths, ("-q", "-p", "no:cacheprovider", *words), folder)
    deal.play([{"PLACE": str(place)} for place in places])
    return deal


def test_every_file_runs_once_in_one_of_the_places(tmp_path: Path) -> None:
    deal = dealt(tmp_path, a=PASSES, b=PASSES, c=PASSES, d=PASSES)

    seen = sorted(mark.name for mark in tmp_path.glob("*here/*"))
    assert seen == [f"test_{name}" for name in "abcd"]
    assert deal.counts == {"passed": 4}
    assert deal.failed == []
    assert deal.summary() == "4 passed, 0 failed, 0 skipped; 0 unsteady files of 4"


@pytest.mark.parametrize(
    ("text", "counts"),
    [
        pytest.param(FAILS, {"passed": 1, "failed": 1}, id="fails"),
        pytest.param(BREAKS, {"passed": 1, "error": 1}, id="cannot be read"),
        pytest.param(DIES, {"passed": 1}, id="dies"),
    ],
)
def test_a_file_that_goes_wrong_is_named(tmp_path: Path, text: str, counts: dict[str, int]) -> None:
    deal = dealt(tmp_path, fine=PASSES, wrong=text)

    assert deal.failed == [tmp_path / "test_wrong.py"]
    assert deal.unsteady == []
    assert deal.counts == counts


def test_a_file_that_passes_alone_is_named_as_unsteady_and_counts_once(tmp_path: Path) -> None:
    deal = dealt(tmp_path, fine=PASSES, moody=FAILS_ONCE)

    assert deal.unsteady == [tmp_path / "test_moody.py"]
    assert deal.failed == []
    assert deal.counts == {"passed": 2}
    assert deal.summary() == "2 passed, 0 failed, 0 skipped; 1 unsteady file of 2"


def test_a_file_without_a_test_that_was_asked_for_is_no_failure(tmp_path: Path) -> None:
    deal = dealt(tmp_path, ("-k", "nothing"), fine=PASSES)

    assert deal.failed == []
    assert deal.counts["passed"] == 0
