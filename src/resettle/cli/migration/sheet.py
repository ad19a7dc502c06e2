"""A text to read, and where its lines stand in the file it came from.

A manifest may hold another document as a text. A literal block keeps its places: it begins on the
line below its `|`, and its lines are indented alike. Any other text has places of its own.
"""

from __future__ import annotations

from dataclasses import dataclass

from msgspec import structs
from yaml import Node, ScalarNode

from resettle.cli.migration.finding import Finding, Sort
from resettle.errors import InputError
from resettle.policy.problem import Located
from resettle.policy.source import place_of
from resettle.policy.trees import UnreadableError, is_blank, read_documents


@dataclass(frozen=True)
class Sheet:
    """A text, the file to name in messages, and how far its lines are moved there."""

    file: str
    text: str
    lines_above: int = 0
    columns_before: int = 0

    def within(self, node: ScalarNode, key: str) -> Sheet:
        """The sheet that the text under a key of this one is."""
        text = str(node.value)
        if node.style != "|" or node.start_mark is None:
            return Sheet(f"{self.file} ({key})", text)
        first = node.start_mark.line + 1
        indented = next((it for it in self.text.split("\n")[first:] if it.strip()), "")
        indentation = len(indented) - len(indented.lstrip(" "))
        return Sheet(self.file, text, self.lines_above + first, self.columns_before + indentation)

    def documents(self) -> list[Node]:
        """The trees of the text; raises `InputError` if it is no YAML."""
        try:
            found = read_documents(self.text, self.file)
        except UnreadableError as error:
            hint = ""
            if "{{" in self.text:
                hint = "\n    this looks like a template; render it first: `helm template …`"
            raise InputError(f"{self.placed(error.problem)}{hint}") from None
        return [root for root in found if not is_blank(root)]

    def placed(self, located: Located) -> Located:
        """A problem of the text, with its place in the file."""
        return structs.replace(
            located,
            file=self.file,
            line=located.line + self.lines_above,
            column=located.column + self.columns_before,
        )

    def problem(self, located: Located, sort: Sort) -> Finding:
        """A problem of the text as a finding."""
        it = self.placed(located)
        return Finding(
            sort=sort,
            file=it.file,
            line=it.line,
            column=it.column,
            about=it.path,
            says=it.what,
            fix=it.fix,
        )

    def finding(
        self, sort: Sort, about: str, says: str, fix: str = "", *, at: Node | None = None
    ) -> Finding:
        """Something to say about a node of the text, or about the text as a whole."""
        place = place_of(at) if at is not None else None
        line, column = place or (0, 0)
        if place is not None:
            line, column = line + self.lines_above, column + self.columns_before
        return Finding(
            sort=sort, file=self.file, line=line, column=column, about=about, says=says, fix=fix
        )
