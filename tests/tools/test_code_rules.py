"""The program that checks the rules of the tree finds each kind of broken rule."""

from __future__ import annotations

from pathlib import Path

import pytest

from tools.code_rules import Tree, broken_rules

FILLER = "\n" * 70
"""Lines that make a module long enough."""
INTRODUCTION = '"""Package.\n\nIt is for tests. Start with `a`.\n"""\n'


def broken(folder: Path, files: dict[str, str]) -> list[tuple[str, str]]:
    """(place, rule) of every broken rule of a tree with these files."""
    for name, text in {"src/resettle/__init__.py": INTRODUCTION, **files}.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return [(rule.place, rule.rule) for rule in broken_rules(Tree(folder))]


@pytest.mark.parametrize(
    ("text", "line", "rule"),
    [
        pytest.param("def merged():\n    pass\n", 1, "participle", id="a bare participle"),
        pytest.param("for it in []:\n    pass\n", 1, "variable", id="a vague variable"),
        pytest.param("def f(one):\n    pass\n", 1, "variable", id="a parameter that names nothing"),
        pytest.param("# the peer does so\n", 1, "word", id="a word to avoid in a comment"),
        pytest.param("def ask_peer():\n    pass\n", 1, "word", id="a word to avoid in a name"),
        pytest.param(
            'def f():\n    """The same as g."""\n',
            1,
            "docstring",
            id="not in full",
        ),
    ],
)
def test_names_the_place_of_a_broken_rule(tmp_path: Path, text: str, line: int, rule: str) -> None:
    files = {"src/resettle/a.py": text + FILLER}

    assert broken(tmp_path, files) == [(f"src/resettle/a.py:{line}", rule)]


def test_accepts_verbs_nouns_and_properties(tmp_path: Path) -> None:
    text = (
        "class A:\n    @property\n    def admitted(self):\n        pass\n\n"
        "def merge_lists():\n    pass\n\ndef feed():\n    pass\n"
    )

    assert broken(tmp_path, {"src/resettle/a.py": text + FILLER}) == []


def test_a_module_has_60_to_400_lines(tmp_path: Path) -> None:
    files = {"src/resettle/short.py": "a = 1\n", "src/resettle/long.py": "\n" * 401}

    assert broken(tmp_path, files) == [
        ("src/resettle/long.py", "length"),
        ("src/resettle/short.py", "length"),
    ]


def test_a_package_has_at_most_15_modules(tmp_path: Path) -> None:
    package = {f"src/resettle/p/m{number}.py": FILLER for number in range(16)}

    assert broken(tmp_path, {"src/resettle/p/__init__.py": INTRODUCTION, **package}) == [
        ("src/resettle/p", "modules")
    ]


def test_a_small_module_that_one_sibling_imports_belongs_into_it(tmp_path: Path) -> None:
    files = {
        "src/resettle/a.py": "from resettle.b import c\n" + FILLER,
        "src/resettle/b.py": "c = 1\n" + FILLER,
    }

    assert broken(tmp_path, files) == [("src/resettle/b.py", "small")]


def test_a_class_name_has_one_meaning_but_for_args(tmp_path: Path) -> None:
    text = "class Args:\n    pass\n\nclass Entry:\n    pass\n" + FILLER
    files = {"src/resettle/a.py": text, "src/resettle/b.py": text}

    assert broken(tmp_path, files) == [("src/resettle/a.py:4", "class-name")]


def test_pages_avoid_the_words_too(tmp_path: Path) -> None:
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "page.md").write_text("# Title\n\nWhoever reads this.\n")

    assert broken(tmp_path, {}) == [("docs/page.md:3", "word")]


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("", id="no docstring"),
        pytest.param('"""Package. Start with `a`."""\n', id="a single line"),
        pytest.param('"""Package.\n\nIt is for tests.\n"""\n', id="nothing to start with"),
    ],
)
def test_a_package_says_what_it_is_for_and_where_to_start(tmp_path: Path, text: str) -> None:
    files = {"src/resettle/p/__init__.py": text}

    assert broken(tmp_path, files) == [("src/resettle/p/__init__.py", "introduction")]


def test_only_modules_that_a_package_lists_are_imported_from_outside(tmp_path: Path) -> None:
    files = {
        "src/resettle/p/__init__.py": INTRODUCTION[:-4] + '\nImport from outside: `open`.\n"""\n',
        "src/resettle/p/open.py": "from resettle.p.closed import a\n" + FILLER,
        "src/resettle/p/closed.py": "a = 1\n" + FILLER * 2,
        "src/resettle/q/__init__.py": INTRODUCTION,
        "src/resettle/q/user.py": (
            "from resettle.p.open import b\nfrom resettle.p.closed import a\n" + FILLER
        ),
    }

    assert broken(tmp_path, files) == [("src/resettle/q/user.py:2", "import")]
