"""A page of documentation as a test reads it: the files it spells out and the commands it shows.

A fenced block with `title=NAME` is a whole file. In a `console` block a line after `$ ` is a
command and the lines up to the next one are what it printed.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import NamedTuple

_BLOCK = re.compile(r"^```(\w+)(?: title=(\S+))?\n(.*?)^```$", re.MULTILINE | re.DOTALL)


class Shown(NamedTuple):
    """A command and what the page says it printed."""

    command: str
    printed: str


class Page:
    def __init__(self, path: Path) -> None:
        self.text = path.read_text(encoding="utf-8")
        blocks = _BLOCK.findall(self.text)
        self.files = {title: body for _, title, body in blocks if title}
        self.fragments = [body for kind, title, body in blocks if kind == "python" and not title]
        self.commands = [
            shown for kind, _, body in blocks if kind == "console" for shown in _commands(body)
        ]

    def write_files(self, folder: Path) -> None:
        """Writes the files of the page as a reader would."""
        for name, body in self.files.items():
            (folder / name).write_text(body, encoding="utf-8")


def _commands(body: str) -> list[Shown]:
    turns = re.split(r"^\$ ", body, flags=re.MULTILINE)[1:]
    return [Shown(*turn.split("\n", 1)) for turn in turns]
