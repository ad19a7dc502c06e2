"""Finds in files what upstream runs with: policies, commands, Helm values and roles.

They are unwrapped from lists of `kubectl get`, ConfigMaps, Flux's HelmRelease, Argo CD's
Application, the HelmChart of k3s, and values of a chart that has upstream's as a subchart.

A manifest may hold another document as text. Problems in a literal block (`|`) are reported at
their line and column in the file; problems in any other text at their place in that text.
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
class SourceText:
    """A YAML text, its file, and the lines and columns before it in that file."""

    file: str
    text: str
    lines_above: int = 0
    columns_before: int = 0

    def nested_text(self, node: ScalarNode, key: str) -> SourceText:
        """The text under a key of this text."""
        text = str(node.value)
        if node.style != "|" or node.start_mark is None:
            return SourceText(f"{self.file} ({key})", text)
        first = node.start_mark.line + 1
        indented = next((line for line in self.text.split("\n")[first:] if line.strip()), "")
        indentation = len(indented) - len(indented.lstrip(" "))
        return SourceText(
            self.file, text, self.lines_above + first, self.columns_before + indentation
        )

    def documents(self) -> list[Node]:
        """The YAML documents of the text; raises `InputError` if it is not YAML."""
        try:
            roots = read_documents(self.text, self.file)
        except UnreadableError as error:
            hint = ""
            if "{{" in self.text:
                hint = "\n    this looks like a template; render it first: `helm template …`"
            raise InputError(f"{self.locate_in_file(error.problem)}{hint}") from None
        return [root for root in roots if not is_blank(root)]

    def locate_in_file(self, located: Located) -> Located:
        """A problem of the text, with its place in the file."""
        return structs.replace(
            located,
            file=self.file,
            line=located.line + self.lines_above,
            column=located.column + self.columns_before,
        )

    def finding_of_problem(self, located: Located, kind: FindingKind) -> MigrationFinding:
        """A problem of the text as a finding."""
        problem = self.locate_in_file(located)
        return MigrationFinding(
            kind=kind,
            file=problem.file,
            line=problem.line,
            column=problem.column,
            about=problem.path,
            says=problem.what,
            fix=problem.fix,
        )

    def finding(
        self, kind: FindingKind, about: str, says: str, fix: str = "", *, at: Node | None = None
    ) -> MigrationFinding:
        """A finding about a node of the text, or about the whole text."""
        place = place_of(at) if at is not None else None
        line, column = place or (0, 0)
        if place is not None:
            line, column = line + self.lines_above, column + self.columns_before
        return MigrationFinding(
            kind=kind, file=self.file, line=line, column=column, about=about, says=says, fix=fix
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
_CHART_KEYS = (
    "deschedulerPolicy",
    "deschedulerPolicyAPIVersion",
    "cmdOptions",
    "deschedulingInterval",
)
"""Keys that only values of the upstream chart have."""
_PROGRAM = "descheduler"
_POLICY_FLAG = "policy-config-file"


class PolicyInput(NamedTuple):
    """A policy, and a title for it in the report."""

    title: str
    source: SourceText
    root: Node
    second_document: Node | None = None
    """A second document in the same text, which upstream ignores."""


class DeschedulerCommand(NamedTuple):
    """A container that runs descheduler."""

    title: str
    source: SourceText
    image: ScalarNode | None
    program: Node | None
    arguments: list[Node]


class HelmValues(NamedTuple):
    """Values for the upstream chart."""

    title: str
    source: SourceText
    root: MappingNode
    chart: str = ""
    """The version of the chart, where it is named."""


@dataclass
class Inventory:
    """Everything found in the files, in order."""

    policies: list[PolicyInput] = field(default_factory=list)
    commands: list[DeschedulerCommand] = field(default_factory=list)
    values: list[HelmValues] = field(default_factory=list)
    rules: list[dict[str, Any]] = field(default_factory=list)
    """Rules of the Roles and ClusterRoles."""
    ignored_kinds: Counter[str] = field(default_factory=Counter)
    """Objects that do not matter for the migration, counted by kind."""

    @property
    def is_empty(self) -> bool:
        """Whether nothing of descheduler was found."""
        return not (self.policies or self.commands or self.values)

    def read(self, text: str, file: str) -> None:
        """Adds the contents of a file; raises `InputError` if it cannot be read."""
        text_source = SourceText(file, text)
        for root in text_source.documents():
            self._add(root, text_source)

    def _add(self, root: Node, text_source: SourceText) -> None:
        if not isinstance(root, MappingNode):
            raise InputError(f"{text_source.file} is not a policy, a manifest or Helm values")
        kind, version = _word(child(root, "kind")), _word(child(root, "apiVersion"))
        if kind.endswith("List"):
            for item in items(child(root, "items")):
                self._add(item, text_source)
        elif kind == KIND or (not version and _has(root, "profiles", "strategies")):
            self.policies.append(PolicyInput("policy", text_source, root))
        elif not version and (values := _values_in(root)):
            self.values.append(HelmValues("Helm values", text_source, values))
        elif kind == "ConfigMap":
            self._add_config_map(root, text_source)
        elif kind in _POD_SPECS:
            self._add_workload(root, kind, text_source)
        elif kind in _RELEASES:
            self._add_release(root, kind, text_source)
        elif kind in ("ClusterRole", "Role"):
            self.rules += [plain_value(rule) for rule in items(child(root, "rules"))]
        else:
            self.ignored_kinds[kind or "something without a kind"] += 1

    def _add_config_map(self, root: MappingNode, text_source: SourceText) -> None:
        policies = [
            (key, value)
            for key, value in pairs(child(root, "data"))
            if isinstance(value, ScalarNode) and KIND in value.value
        ]
        for key, value in policies:
            title = f"{key} of ConfigMap {_name(root)}"
            inner = text_source.nested_text(value, key)
            first, *more = inner.documents()
            self.policies.append(PolicyInput(title, inner, first, next(iter(more), None)))
        self.ignored_kinds["ConfigMap"] += not policies

    def _add_workload(self, root: MappingNode, kind: str, text_source: SourceText) -> None:
        spec = Source(text_source.file, root).find(_POD_SPECS[kind])
        title = f"{kind} {_name(root)}"
        containers = items(child(spec, "containers") if spec else None)
        commands = [
            command
            for container in containers
            if (command := _command(container, title, text_source))
        ]
        self.commands += commands
        self.ignored_kinds[kind] += not commands

    def _add_release(self, root: MappingNode, kind: str, text_source: SourceText) -> None:
        source, title = Source(text_source.file, root), f"{kind} {_name(root)}"
        chart = next(filter(None, (_word(source.find(path)) for path in _CHART_VERSIONS)), "")
        for path in _RELEASES[kind]:
            node, inner = source.find(path), text_source
            if isinstance(node, ScalarNode) and node.value.strip():
                inner = text_source.nested_text(node, str(path[-1]))
                node = next(iter(inner.documents()), None)
            if isinstance(node, MappingNode) and (values := _values_in(node)):
                self.values.append(HelmValues(title, inner, values, chart))
                return
        self.ignored_kinds[kind] += 1


def _command(container: Node, title: str, text_source: SourceText) -> DeschedulerCommand | None:
    """The container's command, if it runs descheduler."""
    image = child(container, "image")
    command, args = (list(items(child(container, key))) for key in ("command", "args"))
    program = command[0] if command else None
    words = [*command[1:], *args]
    if not (
        _PROGRAM in _word(image).rpartition("/")[2]
        or (program is not None and _word(program).endswith(_PROGRAM))
        or any(_POLICY_FLAG in _word(argument) for argument in words)
    ):
        return None
    return DeschedulerCommand(
        title, text_source, image if isinstance(image, ScalarNode) else None, program, words
    )


def _values_in(root: MappingNode) -> MappingNode | None:
    """Values of the upstream chart: these, or those of a subchart."""
    parts = (value for _, value in pairs(root) if isinstance(value, MappingNode))
    return next((values for values in (root, *parts) if _has(values, *_CHART_KEYS)), None)


def _has(node: Node, *keys: str) -> bool:
    return any(child(node, key) is not None for key in keys)


def items(node: Node | None) -> Iterator[Node]:
    """The items of a list; empty for any other node."""
    if isinstance(node, SequenceNode):
        yield from node.value


def pairs(node: Node | None) -> Iterator[tuple[str, Node]]:
    """Keys and values of a mapping; empty for any other node."""
    if isinstance(node, MappingNode):
        yield from ((entry.name, entry.value) for entry in entries(node))


def _word(node: Node | None) -> str:
    return str(node.value) if isinstance(node, ScalarNode) else ""


def _name(root: MappingNode) -> str:
    parts = (_word(Source("", root).find(("metadata", key))) for key in ("namespace", "name"))
    return "/".join(filter(None, parts)) or "without a name"


class FindingKind(StrEnum):
    """The kinds of findings, in the order of the report."""

    SWAP = "swap"
    """The image to replace."""
    CHANGE = "change"
    """Must be changed, or resettle cannot start or would act differently."""
    MISTAKE = "mistake"
    """Does not do what it seems to, and upstream does not report it."""
    IDLE = "idle"
    """Has no effect in resettle, and may stay."""
    STAYS = "stays"
    """Means the same in resettle."""
    BETTER = "better"
    """Would be decided differently with `apiVersion: resettle/v1`."""


class MigrationFinding(Struct, frozen=True, kw_only=True):
    """One finding, its place in a file, and what to do about it."""

    kind: FindingKind
    file: str
    line: int = 0
    """Counted from one; 0 if it concerns no single line."""
    column: int = 0
    about: str = ""
    says: str
    fix: str = ""

    @property
    def place(self) -> str:
        """`file:line:column`, which editors can open."""
        return f"{self.file}:{self.line}:{self.column}" if self.line else self.file

    @property
    def sentence(self) -> str:
        """What was found, and what to do."""
        return f"{self.says}; {self.fix}" if self.fix else self.says
