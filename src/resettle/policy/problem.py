"""A problem of a policy: what is wrong, how to mend it, and where it stands."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

from msgspec import Struct

Path = tuple[str | int, ...]


class Problem(Struct, frozen=True, kw_only=True):
    """What is wrong and how to fix it; `at` leads there from the object that complains."""

    what: str
    fix: str = ""
    at: Path = ()

    def under(self, *prefix: str | int) -> Problem:
        """The same problem, told from further out in the document."""
        return Problem(what=self.what, fix=self.fix, at=(*prefix, *self.at))

    def __str__(self) -> str:
        return f"{self.what}; {self.fix}" if self.fix else self.what


class Located(Struct, frozen=True, kw_only=True):
    """A problem and its place in a file, both counted from one; `path` is dotted."""

    file: str
    line: int = 1
    column: int = 1
    path: str = ""
    what: str
    fix: str = ""
    severity: Literal["error", "warning"] = "error"

    def __str__(self) -> str:
        place = f"{self.file}:{self.line}:{self.column}: {self.path}".rstrip()
        return f"{place}\n    {self.sentence}"

    @property
    def sentence(self) -> str:
        """What is wrong and how to fix it."""
        return f"{self.what}; {self.fix}" if self.fix else self.what

    @property
    def in_a_line(self) -> str:
        """All of it in one line, for a log."""
        place = f"{self.file}:{self.line}:{self.column} {self.path}".rstrip()
        return f"{place}: {self.sentence}"


def dotted(path: Path) -> str:
    """`profiles[0].args.cpu` for ("profiles", 0, "args", "cpu")."""
    text = ""
    for step in path:
        text += f"[{step}]" if isinstance(step, int) else f".{step}" if text else step
    return text


def nearest(word: str, known: Iterable[str]) -> str | None:
    """The known word that was probably meant, whatever its case."""
    lowered = {choice.lower(): choice for choice in sorted(known)}
    if same := lowered.get(word.lower()):
        return same
    from difflib import get_close_matches  # only for those who misspell

    near = get_close_matches(word.lower(), lowered, n=1, cutoff=0.6)
    return lowered[near[0]] if near else None


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """A hint that ends a sentence: the nearest known word, or all of them."""
    choices = sorted(known)
    if near := nearest(word, choices):
        return f"did you mean `{near}`?"
    return f"known here: {', '.join(choices)}" if choices else "nothing is known here"
