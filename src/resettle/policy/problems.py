"""Problems of a policy: what is wrong, how to fix it, and at which line.

`ProblemCollector` keeps all problems until everything is read. Problems are reported by path. A
converted document has paths its author never wrote; `origins` maps them to the paths they came
from, so every line that is printed is one that the author wrote.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Literal

from msgspec import Struct, structs

from resettle.errors import PolicyError
from resettle.policy.yaml.source import KeyPath, Place, Source


class Problem(Struct, frozen=True, kw_only=True):
    """What is wrong and how to fix it; `at` leads there from the object that complains."""

    what: str
    fix: str = ""
    at: KeyPath = ()

    def under(self, *prefix: str | int) -> Problem:
        """The problem with its path prefixed, as seen from further out in the document."""
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
    def one_line(self) -> str:
        """All of it in one line, for a log."""
        place = f"{self.file}:{self.line}:{self.column} {self.path}".rstrip()
        return f"{place}: {self.sentence}"


def format_path(path: KeyPath) -> str:
    """`profiles[0].args.cpu` for ("profiles", 0, "args", "cpu")."""
    text = ""
    for step in path:
        text += f"[{step}]" if isinstance(step, int) else f".{step}" if text else step
    return text


def nearest(word: str, known: Iterable[str]) -> str | None:
    """The known word that is most similar, ignoring case."""
    lowered = {choice.lower(): choice for choice in sorted(known)}
    if same := lowered.get(word.lower()):
        return same
    from difflib import get_close_matches  # slow to import, and needed only for misspelt words

    near = get_close_matches(word.lower(), lowered, n=1, cutoff=0.6)
    return lowered[near[0]] if near else None


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """A hint that ends a sentence: the nearest known word, or all of them."""
    choices = sorted(known)
    if near := nearest(word, choices):
        return f"did you mean `{near}`?"
    return f"known here: {', '.join(choices)}" if choices else "nothing is known here"


class ProblemCollector:
    """Collects problems of one source; nothing is raised before all is read."""

    def __init__(
        self,
        source: Source,
        origins: Mapping[KeyPath, KeyPath] | None = None,
        *,
        lenient: bool = False,
    ) -> None:
        self.source = source
        self.lenient = lenient
        """Whether mistakes that upstream ignores are warnings, with the effect they have there."""
        self._origins = origins or {}
        self._problems: list[Located] = []
        self._faulty: set[KeyPath] = set()

    def with_origins(self, origins: Mapping[KeyPath, KeyPath]) -> ProblemCollector:
        """A collector that shares the problems, for paths of a document made from the source."""
        view = ProblemCollector(self.source, origins, lenient=self.lenient)
        view._problems, view._faulty = self._problems, self._faulty
        return view

    def error(self, path: KeyPath, what: str, fix: str = "", *, place: Place | None = None) -> None:
        """Add a mistake; the place is that of the value at the path unless given."""
        self._faulty.add(self._origin(path))
        self._add("error", path, what, fix, place)

    def warn(self, path: KeyPath, what: str, fix: str = "", *, place: Place | None = None) -> None:
        """Add a warning: something valid that will not do what it seems to."""
        self._add("warning", path, what, fix, place)

    def add_warning(self, located: Located) -> None:
        """Add a warning that already has its place."""
        self._problems.append(structs.replace(located, severity="warning"))

    def add(self, problem: Problem) -> None:
        """Add a mistake that is given as a `Problem`."""
        self.error(problem.at, problem.what, problem.fix)

    def mark_faulty(self, path: KeyPath) -> None:
        """Mark a place as faulty because of a mistake reported elsewhere."""
        self._faulty.add(self._origin(path))

    def is_faulty(self, path: KeyPath) -> bool:
        """Whether a mistake was reported here, below, or at a parent of this place."""
        here = self._origin(path)
        return any(starts_with(here, there) or starts_with(there, here) for there in self._faulty)

    @property
    def errors(self) -> tuple[Located, ...]:
        """The mistakes, by line, each once."""
        return self._of_severity("error")

    @property
    def warnings(self) -> tuple[Located, ...]:
        """The warnings, by line, each once."""
        return self._of_severity("warning")

    def raise_errors(self) -> None:
        """Raise `PolicyError` if there was any mistake."""
        if self.errors:
            raise policy_error(self.source.name, self.errors, self.warnings)

    def _add(
        self,
        severity: Literal["error", "warning"],
        path: KeyPath,
        what: str,
        fix: str,
        place: Place | None,
    ) -> None:
        origin = self._origin(path)
        line, column = place or self.source.place(origin)
        self._problems.append(
            Located(
                file=self.source.name,
                line=line,
                column=column,
                path=format_path(origin),
                what=what,
                fix=fix,
                severity=severity,
            )
        )

    def _origin(self, path: KeyPath) -> KeyPath:
        """The path in the source: the longest known beginning replaced by what it came from."""
        for length in range(len(path), 0, -1):
            known = self._origins.get(path[:length])
            if known is not None:
                return (*known, *path[length:])
        return path

    def _of_severity(self, severity: str) -> tuple[Located, ...]:
        unique = dict.fromkeys(item for item in self._problems if item.severity == severity)
        return tuple(sorted(unique, key=lambda item: (item.line, item.column)))


def starts_with(path: KeyPath, beginning: KeyPath) -> bool:
    """Whether one path leads through the other."""
    return path[: len(beginning)] == beginning


def policy_error(
    name: str, errors: Iterable[Located], warnings: Iterable[Located] = ()
) -> PolicyError:
    """All mistakes of a policy as the one error that is raised for them."""
    problems = tuple(errors)
    many = "1 problem" if len(problems) == 1 else f"{len(problems)} problems"
    text = "\n".join([f"{name} has {many}", *map(str, problems)])
    return PolicyError(text, problems=problems, warnings=tuple(warnings))
