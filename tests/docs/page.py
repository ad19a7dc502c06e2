"""A page of documentation as a test reads it: words, tables, files, and commands it shows.

A fenced block with `title=NAME` is a whole file. In a `console` block a line after `$ ` is a
command, and the lines up to the next one are what it printed; in a `sh` block every line is a
command. What a block takes beyond a shell and a cluster stands above it: `*Needs Docker.*`
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"

_BLOCK = re.compile(
    r"(?:^\*Needs (?P<needs>[^\n]+?)\.\*\n+)?"
    r"^```(?P<kind>\w+)(?: title=(?P<title>\S+))?\n(?P<body>.*?)^```$",
    re.MULTILINE | re.DOTALL,
)
_LINK = re.compile(r"\]\((?!\w+://)([^)#\s]*)(?:#([^)\s]*))?\)")
_TURN = re.compile(r"^\$ ((?:[^\n]*\\\n)*[^\n]*)\n?", re.MULTILINE)


class Shown(NamedTuple):
    """A command and what the page says it printed."""

    command: str
    printed: str


class Block(NamedTuple):
    """A fenced block and what it takes."""

    kind: str
    title: str
    body: str
    needs: str

    @property
    def commands(self) -> list[Shown]:
        """What is typed, in order."""
        if self.kind == "sh":
            lines = re.sub(r"\\\n", "", self.body).splitlines()
            return [Shown(line, "") for line in lines if line.strip() and line[0] != "#"]
        if self.kind != "console":
            return []
        _, *turns = _TURN.split(self.body)
        return [Shown(*turn) for turn in zip(turns[::2], turns[1::2], strict=True)]


def blocks_in(text: str) -> list[Block]:
    """The fenced blocks of a text."""
    return [
        Block(match["kind"], match["title"] or "", match["body"], match["needs"] or "")
        for match in _BLOCK.finditer(text)
    ]


class Page:
    """A Markdown file of the repository, named from its root."""

    def __init__(self, name: str | Path) -> None:
        self.path = ROOT / name
        self.name = self.path.relative_to(ROOT).as_posix()
        self.text = self.path.read_text(encoding="utf-8")
        self.blocks = blocks_in(self.text)

    @property
    def files(self) -> dict[str, str]:
        """The files that the page spells out."""
        return {block.title: block.body for block in self.blocks if block.title}

    @property
    def commands(self) -> list[Shown]:
        """All commands of the page, in order."""
        return [shown for block in self.blocks for shown in block.commands]

    def of_kind(self, kind: str) -> list[str]:
        """Blocks of a language that are no files."""
        return [block.body for block in self.blocks if block.kind == kind and not block.title]

    def write_files(self, folder: Path) -> None:
        """Writes the files of the page as a reader would."""
        for name, body in self.files.items():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_text(body, encoding="utf-8")

    def section(self, heading: str) -> str:
        """What stands below a heading, up to the next."""
        (body,) = re.findall(rf"^##+ {heading}\n(.*?)(?=^##+ |\Z)", self.text, re.M | re.S)
        text: str = body
        return text

    def table(self, heading: str) -> list[list[str]]:
        """The rows of a section's table."""
        lines = [line for line in self.section(heading).splitlines() if line.startswith("|")][2:]
        return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]

    def first_column(self, heading: str) -> set[str]:
        """What stands in backticks in the first cells of a section's table."""
        cells = [row[0] for row in self.table(heading)]
        return {code for cell in cells for code in re.findall(r"`([^`]+)`", cell)}

    @property
    def anchors(self) -> set[str]:
        """The anchors of the headings, as code hosts make them."""
        bare = _BLOCK.sub("", self.text)
        headings = re.findall(r"^#+ (.+)$", bare, re.M)
        words = (re.sub(r"[^\w\- ]", "", heading).strip().lower() for heading in headings)
        return {word.replace(" ", "-") for word in words}

    @property
    def links(self) -> list[tuple[Path, str]]:
        """Where the links within the repository lead: a file, and an anchor in it."""
        bare = re.sub(r"`[^`\n]*`", "", _BLOCK.sub("", self.text))
        return [
            ((self.path.parent / name).resolve() if name else self.path, anchor)
            for name, anchor in _LINK.findall(bare)
        ]


def doc(name: str) -> Page:
    """A page of `docs/`."""
    return Page(f"docs/{name}")


def pages() -> list[Page]:
    """Every page for those who use or change resettle."""
    places = ("*.md", "docs/**/*.md", "examples/**/*.md", "deploy/**/*.md", "tests/**/*.md")
    files = {file for place in places for file in ROOT.glob(place) if file.is_file()}
    return [Page(file) for file in sorted(files)]
