"""A problem of a policy: what is wrong, how to mend it, and where it stands.

The notebook of one reading: every problem found so far, each with its place.

Everything is noted by path. A converted document has paths its author never wrote; a report seen
through `origins` tells them as the paths they came from, so each line it names is one they wrote.
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


def dotted(path: KeyPath) -> str:
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


class Report:
    """Collects problems of one source; nothing is raised before all is read."""

    def __init__(
        self,
        source: Source,
        origins: Mapping[KeyPath, KeyPath] | None = None,
        *,
        forgiving: bool = False,
    ) -> None:
        self.source = source
        self.forgiving = forgiving
        """Whether mistakes that the original hides are warned of, and go on as they do there."""
        self._origins = origins or {}
        self._found: list[Located] = []
        self._faulty: set[KeyPath] = set()

    def seen_through(self, origins: Mapping[KeyPath, KeyPath]) -> Report:
        """The same notebook, for paths of a document that was made from the source."""
        view = Report(self.source, origins, forgiving=self.forgiving)
        view._found, view._faulty = self._found, self._faulty
        return view

    def error(self, path: KeyPath, what: str, fix: str = "", *, place: Place | None = None) -> None:
        """Notes a mistake; the place is that of the value at the path unless given."""
        self._faulty.add(self._origin(path))
        self._note("error", path, what, fix, place)

    def warn(self, path: KeyPath, what: str, fix: str = "", *, place: Place | None = None) -> None:
        """Notes something legal that will not do what it seems to."""
        self._note("warning", path, what, fix, place)

    def warn_of(self, located: Located) -> None:
        """Notes a warning that knows its place already."""
        self._found.append(structs.replace(located, severity="warning"))

    def add(self, problem: Problem) -> None:
        """Notes a mistake that arrives as a value."""
        self.error(problem.at, problem.what, problem.fix)

    def blame(self, path: KeyPath) -> None:
        """Marks a place as faulty because of a mistake already noted elsewhere."""
        self._faulty.add(self._origin(path))

    def faulty(self, path: KeyPath) -> bool:
        """Whether a mistake was noted here, below, or at something that holds this place."""
        here = self._origin(path)
        return any(starts_with(here, there) or starts_with(there, here) for there in self._faulty)

    @property
    def errors(self) -> tuple[Located, ...]:
        """The mistakes, by line, each once."""
        return self._sorted("error")

    @property
    def warnings(self) -> tuple[Located, ...]:
        """The warnings, by line, each once."""
        return self._sorted("warning")

    def raise_errors(self) -> None:
        """Ends the reading when there was any mistake."""
        if self.errors:
            raise policy_error(self.source.name, self.errors, self.warnings)

    def _note(
        self,
        severity: Literal["error", "warning"],
        path: KeyPath,
        what: str,
        fix: str,
        place: Place | None,
    ) -> None:
        origin = self._origin(path)
        line, column = place or self.source.place(origin)
        self._found.append(
            Located(
                file=self.source.name,
                line=line,
                column=column,
                path=dotted(origin),
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

    def _sorted(self, severity: str) -> tuple[Located, ...]:
        found = dict.fromkeys(one for one in self._found if one.severity == severity)
        return tuple(sorted(found, key=lambda one: (one.line, one.column)))


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
