"""What stands in the files: policies, commands that start the peer, Helm values, roles.

Whatever wraps them is taken off: lists of `kubectl get`, ConfigMaps, Flux's HelmRelease, Argo CD's
Application, the HelmChart of k3s, values of a chart that has the peer's chart as a part.

A text to read, and where its lines stand in the file it came from.

A manifest may hold another document as a text. A literal block keeps its places: it begins on the
line below its `|`, and its lines are indented alike. Any other text has places of its own.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, NamedTuple

from msgspec import Struct, structs
from yaml import MappingNode, Node, ScalarNode, SequenceNode

from resettle.errors import InputError
from resettle.policy.document import KIND
from resettle.policy.problems import Located
from resettle.policy.yaml.parse import UnreadableError, is_blank, read_documents
from resettle.policy.yaml.source import KeyPath, Source, child, entries, place_of
from resettle.policy.yaml.typed_walk import plain_value


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


_TEMPLATE: KeyPath = ("spec", "template", "spec")
_POD_SPECS: dict[str, KeyPath] = {
    "Deployment": _TEMPLATE,
    "StatefulSet": _TEMPLATE,
    "DaemonSet": _TEMPLATE,
    "Job": _TEMPLATE,
    "CronJob": ("spec", "jobTemplate", *_TEMPLATE),
    "Pod": ("spec",),
}
_RELEASES: dict[str, tuple[KeyPath, ...]] = {
    "HelmRelease": (("spec", "values"),),
    "HelmChart": (("spec", "valuesContent"), ("spec", "values")),
    "Application": (
        ("spec", "source", "helm", "valuesObject"),
        ("spec", "source", "helm", "values"),
    ),
}
_CHART_VERSIONS: tuple[KeyPath, ...] = (
    ("spec", "chart", "spec", "version"),
    ("spec", "source", "targetRevision"),
    ("spec", "version"),
)
_SIGNS = ("deschedulerPolicy", "deschedulerPolicyAPIVersion", "cmdOptions", "deschedulingInterval")
"""Keys by which values of the peer's chart are known."""
_PROGRAM = "descheduler"
_POLICY_FLAG = "policy-config-file"


class WrittenPolicy(NamedTuple):
    """A policy, and what it is called."""

    title: str
    sheet: Sheet
    root: Node
    more: Node | None = None
    """A second document in the same text, which the peer does not look at."""


class Command(NamedTuple):
    """A container that runs the peer."""

    title: str
    sheet: Sheet
    image: ScalarNode | None
    program: Node | None
    words: list[Node]


class Values(NamedTuple):
    """Values for the peer's chart."""

    title: str
    sheet: Sheet
    root: MappingNode
    chart: str = ""
    """The version of the chart, where it is named."""


@dataclass
class Inventory:
    """All that was found, in the order in which it was met."""

    policies: list[WrittenPolicy] = field(default_factory=list)
    commands: list[Command] = field(default_factory=list)
    values: list[Values] = field(default_factory=list)
    rules: list[dict[str, Any]] = field(default_factory=list)
    """Rules of roles, as they are written."""
    aside: Counter[str] = field(default_factory=Counter)
    """Kinds that say nothing about a migration."""

    @property
    def empty(self) -> bool:
        """Whether nothing of the peer was found."""
        return not (self.policies or self.commands or self.values)

    def read(self, text: str, file: str) -> None:
        """Takes in a file; raises `InputError` if it cannot be read."""
        sheet = Sheet(file, text)
        for root in sheet.documents():
            self._take(root, sheet)

    def _take(self, root: Node, sheet: Sheet) -> None:
        if not isinstance(root, MappingNode):
            raise InputError(f"{sheet.file} holds no policy, no manifest and no Helm values")
        kind, version = _word(child(root, "kind")), _word(child(root, "apiVersion"))
        if kind.endswith("List"):
            for item in items(child(root, "items")):
                self._take(item, sheet)
        elif kind == KIND or (not version and _has(root, "profiles", "strategies")):
            self.policies.append(WrittenPolicy("policy", sheet, root))
        elif not version and (values := _values_in(root)):
            self.values.append(Values("Helm values", sheet, values))
        elif kind == "ConfigMap":
            self._take_config_map(root, sheet)
        elif kind in _POD_SPECS:
            self._take_workload(root, kind, sheet)
        elif kind in _RELEASES:
            self._take_release(root, kind, sheet)
        elif kind in ("ClusterRole", "Role"):
            self.rules += [plain_value(rule) for rule in items(child(root, "rules"))]
        else:
            self.aside[kind or "something without a kind"] += 1

    def _take_config_map(self, root: MappingNode, sheet: Sheet) -> None:
        found = [
            (key, value)
            for key, value in pairs(child(root, "data"))
            if isinstance(value, ScalarNode) and KIND in value.value
        ]
        for key, value in found:
            title = f"{key} of ConfigMap {_name(root)}"
            inner = sheet.within(value, key)
            first, *more = inner.documents()
            self.policies.append(WrittenPolicy(title, inner, first, next(iter(more), None)))
        self.aside["ConfigMap"] += not found

    def _take_workload(self, root: MappingNode, kind: str, sheet: Sheet) -> None:
        spec = Source(sheet.file, root).find(_POD_SPECS[kind])
        title = f"{kind} {_name(root)}"
        containers = items(child(spec, "containers") if spec else None)
        found = [command for it in containers if (command := _command(it, title, sheet))]
        self.commands += found
        self.aside[kind] += not found

    def _take_release(self, root: MappingNode, kind: str, sheet: Sheet) -> None:
        source, title = Source(sheet.file, root), f"{kind} {_name(root)}"
        chart = next(filter(None, (_word(source.find(path)) for path in _CHART_VERSIONS)), "")
        for path in _RELEASES[kind]:
            node, inner = source.find(path), sheet
            if isinstance(node, ScalarNode) and node.value.strip():
                inner = sheet.within(node, str(path[-1]))
                node = next(iter(inner.documents()), None)
            if isinstance(node, MappingNode) and (values := _values_in(node)):
                self.values.append(Values(title, inner, values, chart))
                return
        self.aside[kind] += 1


def _command(container: Node, title: str, sheet: Sheet) -> Command | None:
    """The container, if it runs the peer."""
    image = child(container, "image")
    command, args = (list(items(child(container, key))) for key in ("command", "args"))
    program = command[0] if command else None
    words = [*command[1:], *args]
    if not (
        _PROGRAM in _word(image).rpartition("/")[2]
        or (program is not None and _word(program).endswith(_PROGRAM))
        or any(_POLICY_FLAG in _word(it) for it in words)
    ):
        return None
    return Command(title, sheet, image if isinstance(image, ScalarNode) else None, program, words)


def _values_in(root: MappingNode) -> MappingNode | None:
    """Values of the peer's chart: these, or those of a part of a larger chart."""
    parts = (value for _, value in pairs(root) if isinstance(value, MappingNode))
    return next((it for it in (root, *parts) if _has(it, *_SIGNS)), None)


def _has(node: Node, *keys: str) -> bool:
    return any(child(node, key) is not None for key in keys)


def items(node: Node | None) -> Iterator[Node]:
    """The items of a list; none if it is none."""
    if isinstance(node, SequenceNode):
        yield from node.value


def pairs(node: Node | None) -> Iterator[tuple[str, Node]]:
    """Keys and values of a mapping; none if it is none."""
    if isinstance(node, MappingNode):
        yield from ((entry.name, entry.value) for entry in entries(node))


def _word(node: Node | None) -> str:
    return str(node.value) if isinstance(node, ScalarNode) else ""


def _name(root: MappingNode) -> str:
    found = (_word(Source("", root).find(("metadata", key))) for key in ("namespace", "name"))
    return "/".join(filter(None, found)) or "without a name"


class Sort(StrEnum):
    """What kind of thing it is, in the order in which they are told."""

    SWAP = "swap"
    """The one line that makes it resettle."""
    CHANGE = "change"
    """Has to be written otherwise, or resettle cannot start or would not do the same."""
    MISTAKE = "mistake"
    """Does not do what it seems to, and the peer keeps quiet about it."""
    IDLE = "idle"
    """Means nothing here, and may stay."""
    STAYS = "stays"
    """Means the same here."""
    BETTER = "better"
    """Would be decided otherwise by `apiVersion: resettle/v1`."""


class Finding(Struct, frozen=True, kw_only=True):
    """One thing to know, where it stands, and what to do about it."""

    sort: Sort
    file: str
    line: int = 0
    """Counted from one; 0 where it stands on no line of its own."""
    column: int = 0
    about: str = ""
    says: str
    fix: str = ""

    @property
    def place(self) -> str:
        """The place as editors jump to it."""
        return f"{self.file}:{self.line}:{self.column}" if self.line else self.file

    @property
    def sentence(self) -> str:
        """What is so, and what to do."""
        return f"{self.says}; {self.fix}" if self.fix else self.says
