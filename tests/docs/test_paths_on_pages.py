"""Files, folders and modules that a page names exist, except for the planned ones.

Paths start at the root of the repository or at `src/resettle`; a page about one folder may
leave that folder out (`FOLDER_OF`). `NAME` in a path stands for any name.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from importlib import import_module

import pytest

from .page import ROOT, Page, pages

PACKAGE = ROOT / "src" / "resettle"
FOLDER_OF = {"docs/extend/e2e.md": ROOT / "tests" / "e2e"}
PLANNED = {
    "controllers/kubevirt/",
    "controllers/operator/",
    "next_step.py",
    "types.py",
}
"""Paths that pages reserve for parts that are not written yet."""

_CODE = re.compile(r"`([^`\n]+)`")
_FROM_ROOT = re.compile(
    r"(?<![\w./-])(?:src|tests|tools|bench|deploy|examples|docs)/(?:[\w.*/-]*[\w*/])?"
)
_FROM_PACKAGE = re.compile(
    rf"(?:{'|'.join(sorted(path.name for path in PACKAGE.iterdir() if path.is_dir()))})/[\w/]*/"
    r"|[\w/]+\.py"
)
_COMMAND = re.compile(r"^(?:\$ )?(?:make|python|pytest) .*$", re.MULTILINE)
_OUR_MODULE = re.compile(r"(?<![\w./@-])resettle(?:\.\w+)+(?![\w/])")
_RUN_MODULE = re.compile(r"python -m ((?:tests|tools|bench)(?:\.\w+)*)")


def paths_on(page: Page) -> Iterator[str]:
    """Paths in backticks, and those in commands of a checkout."""
    for code in _CODE.findall(page.text):
        if _FROM_PACKAGE.fullmatch(code):
            yield code
        else:
            yield from _FROM_ROOT.findall(code)
    for command in _COMMAND.findall(page.text):
        yield from _FROM_ROOT.findall(command)


def is_path(page: Page, path: str) -> bool:
    """Whether the repository has this file or folder, or the page has it or links to it."""
    pattern = path.replace("NAME", "*").rstrip("/")
    folder = FOLDER_OF.get(page.name)
    if path in page.files or path in {file.name for file, _ in page.links}:
        return True
    if any(any(base.glob(pattern)) for base in (ROOT, folder or PACKAGE, page.path.parent)):
        return True
    return folder is None and "/" not in path and _has_file(page, pattern)


def _has_file(page: Page, pattern: str) -> bool:
    """Whether some folder has a file of this bare name: of an example, its own ones only."""
    own = page.name.startswith("examples/")
    places = (page.path.parent,) if own else (PACKAGE, ROOT / "tests")
    return any(any(place.rglob(pattern)) for place in places)


def is_importable(name: str) -> bool:
    """Whether this is a module, or something that a module holds."""
    try:
        import_module(name)
    except ModuleNotFoundError:
        module, _, attribute = name.rpartition(".")
        return "." in name and is_importable(module) and hasattr(import_module(module), attribute)
    return True


def current_pages() -> list[Page]:
    """All pages but the changelog, which may name what was there before."""
    return [page for page in pages() if page.name != "CHANGELOG.md"]


@pytest.mark.parametrize("page", [pytest.param(page, id=page.name) for page in current_pages()])
def test_paths_on_a_page_exist(page: Page) -> None:
    missing = {path for path in paths_on(page) if path not in PLANNED and not is_path(page, path)}

    assert missing == set()


@pytest.mark.parametrize("page", [pytest.param(page, id=page.name) for page in current_pages()])
def test_modules_on_a_page_can_be_imported(page: Page) -> None:
    names = {*_OUR_MODULE.findall(page.text), *_RUN_MODULE.findall(page.text)}

    assert [name for name in sorted(names) if not is_importable(name)] == []


def test_planned_paths_are_named_and_not_yet_there() -> None:
    named = {path for page in current_pages() for path in paths_on(page)}

    assert named >= PLANNED
    assert [path for path in sorted(PLANNED) if (PACKAGE / path).exists()] == []


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param("see `tests/e2e/test_gone.py`", ["tests/e2e/test_gone.py"], id="file"),
        pytest.param("`make e2e E2E=tests/x.py`", ["tests/x.py"], id="in a command"),
        pytest.param('```\nmake e2e E2E="tests/x.py -x"\n```', ["tests/x.py"], id="in a block"),
        pytest.param("`framework/gone.py`", ["framework/gone.py"], id="of the package"),
        pytest.param("`controllers/gone/`", ["controllers/gone/"], id="folder of the package"),
        pytest.param("`policy/v1`, `deploy.yaml`, `x/docs/y`", [], id="no paths"),
    ],
)
def test_what_counts_as_a_path(text: str, expected: list[str]) -> None:
    page = Page(ROOT / "README.md")
    page.text = text

    assert list(paths_on(page)) == expected
    assert not any(is_path(page, path) for path in expected)
