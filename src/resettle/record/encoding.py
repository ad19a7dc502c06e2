"""What changed between two cycles, as pages of a record, and back again.

Objects as a record has them: arrays, in which parts that many share stand as numbers.

Pods share templates, templates specs, specs demands. Each such part is written once in a segment,
and counted from zero; whoever has it names its number. So what is one object in a snapshot is one
object again when it is read back, and pods that are alike stay so.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from typing import TYPE_CHECKING, Any, TypeAlias

import msgspec
from msgspec import Raw, Struct, structs

from resettle.errors import InputError
from resettle.model.changes import Change, Changes
from resettle.model.constraints import Taint
from resettle.model.kinds import FIELDS, Kind
from resettle.model.measurements import Figure, Measured, Question, Readings
from resettle.model.objects import (
    AttachLimits,
    Budget,
    Claim,
    Namespace,
    Node,
    PriorityClass,
    Volume,
)
from resettle.model.pod import Demand, Pod, Spec, State, Template


class Row:
    """How one struct is written: its fields in order, some of them as something else."""

    def __init__(self, struct: type[Any], **instead: Any) -> None:
        self._make = struct
        self._names = struct.__struct_fields__
        fields = structs.fields(struct)
        self.at = {field.name: i for i, field in enumerate(fields) if field.name in instead}
        self.type: Any = msgspec.defstruct(
            f"{struct.__name__}Row",
            [(field.name, instead.get(field.name, field.type)) for field in fields],
            array_like=True,
        )

    def packed(self, thing: Struct, **parts: Any) -> list[Any]:
        """The row for a thing, with these in place of its own parts."""
        values = list(structs.astuple(thing))
        for name, at in self.at.items():
            values[at] = parts[name]
        return values

    def unpacked(self, row: Any, **parts: Any) -> Any:
        """The thing that a row stands for, given the parts."""
        values = list(structs.astuple(row))
        for name, at in self.at.items():
            values[at] = parts[name]
        return self._make(**dict(zip(self._names, values, strict=True)))


SPEC = Row(Spec, demand=int)
TEMPLATE = Row(Template, spec=int)
POD = Row(Pod, template=int, state=int)
NODE = Row(Node, tainted_at=list[tuple[Taint, datetime]])
FIGURE = Row(Figure, number=str)  # JSON has no word for what is no number
_FigureRow: Any = FIGURE.type
READINGS = Row(Readings, figures=list[_FigureRow])

if TYPE_CHECKING:
    SpecRow: TypeAlias = Any
    TemplateRow: TypeAlias = Any
    PodRow: TypeAlias = Any
    NodeRow: TypeAlias = Any
    ReadingsRow: TypeAlias = Any
else:
    SpecRow, TemplateRow, PodRow, NodeRow = SPEC.type, TEMPLATE.type, POD.type, NODE.type
    ReadingsRow = READINGS.type


class Page(Struct):
    """Some changes: objects that came or changed, keys of those that are gone, and the rest.

    What a page does not have did not change.
    """

    demands: list[Demand] = []
    specs: list[SpecRow] = []
    templates: list[TemplateRow] = []
    states: list[State] = []
    pods: list[PodRow] = []
    nodes: list[NodeRow] = []
    namespaces: list[Namespace] = []
    priority_classes: list[PriorityClass] = []
    budgets: list[Budget] = []
    claims: list[Claim] = []
    volumes: list[Volume] = []
    attach_limits: list[AttachLimits] = []
    gone: dict[str, list[str]] = {}
    others: dict[str, Raw] = {}
    history: list[tuple[str, str, Any]] | None = None
    moving: list[str] | None = None
    usage: list[tuple[Question, ReadingsRow]] | None = None


PODS_ON_A_PAGE = 1000
"""Few enough that writing a page keeps nobody waiting."""

_SHARED = ("demands", "specs", "templates", "states")
_SINGLE = tuple(field for field in FIELDS if field != "pods")


class Packer:
    """Writes the changes of one segment; remembers what it has given numbers to."""

    def __init__(self) -> None:
        self._numbers: dict[Demand | Spec | Template | State, int] = {}
        self._counts = dict.fromkeys(_SHARED, 0)
        self._page: defaultdict[str, list[Any]] = defaultdict(list)

    def pages(self, changes: Changes) -> Iterator[bytes]:
        """The changes, a line a page."""
        page: dict[str, Any] = {}
        gone = {}
        for field in FIELDS:
            change: Change[Any] = getattr(changes, field)
            if change.gone:
                gone[field] = sorted(change.gone)
            if change.put and field in _SINGLE:
                page[field] = [_node(it) if field == "nodes" else it for it in change.put]
        if gone:
            page["gone"] = gone
        if changes.others:
            page["others"] = changes.others
        if changes.history is not None:
            page["history"] = [(*whose, plain(value)) for whose, value in changes.history.items()]
        if changes.moving is not None:
            page["moving"] = sorted(changes.moving)
        if changes.usage is not None:
            page["usage"] = [(asked, _readings(it)) for asked, it in changes.usage.items()]
        if page:
            yield _line(page)
        pods = changes.pods.put
        for at in range(0, len(pods), PODS_ON_A_PAGE):
            self._page["pods"] = [self._pod(pod) for pod in pods[at : at + PODS_ON_A_PAGE]]
            yield _line(self._page)
            self._page.clear()

    def _pod(self, pod: Pod) -> list[Any]:
        template = self._numbers.get(pod.template)
        state = self._numbers.get(pod.state)
        return POD.packed(
            pod,
            template=self._template(pod.template) if template is None else template,
            state=self._number("states", pod.state, pod.state) if state is None else state,
        )

    def _template(self, template: Template) -> int:
        spec = self._numbers.get(template.spec)
        if spec is None:
            spec = self._spec(template.spec)
        return self._number("templates", template, TEMPLATE.packed(template, spec=spec))

    def _spec(self, spec: Spec) -> int:
        demand = self._numbers.get(spec.demand)
        if demand is None:
            demand = self._number("demands", spec.demand, spec.demand)
        return self._number("specs", spec, SPEC.packed(spec, demand=demand))

    def _number(self, table: str, thing: Demand | Spec | Template | State, row: Any) -> int:
        number = self._numbers[thing] = self._counts[table]
        self._counts[table] += 1
        self._page[table].append(row)
        return number


def _node(node: Any) -> list[Any]:
    return NODE.packed(node, tainted_at=list(node.tainted_at.items()))


def _readings(readings: Readings) -> list[Any]:
    figures = [FIGURE.packed(it, number=repr(it.number)) for it in readings.figures]
    return READINGS.packed(readings, figures=figures)


def _readings_of(row: Any) -> Readings:
    figures = tuple(FIGURE.unpacked(it, number=float(it.number)) for it in row.figures)
    readings: Readings = READINGS.unpacked(row, figures=figures)
    return readings


def _line(page: Mapping[str, Any]) -> bytes:
    return msgspec.json.encode(page) + b"\n"


def plain(value: Any) -> Any:
    """The value if it is made of what JSON has, and None otherwise."""
    return value if is_plain(value) else None


def is_plain(value: Any) -> bool:
    """Whether a value comes back from JSON as it went in."""
    try:
        return bool(msgspec.json.decode(msgspec.json.encode(value)) == value)
    except (TypeError, ValueError, OverflowError, RecursionError):
        return False


class Unpacker:
    """Reads the pages of one segment, from its first on."""

    def __init__(self, kinds: Iterable[Kind] = ()) -> None:
        self._pages = msgspec.json.Decoder(Page)
        self._others: dict[str, msgspec.json.Decoder[Any]] = {}
        for kind in kinds:
            struct: Any = kind.struct
            self._others[kind.name] = msgspec.json.Decoder(tuple[struct, ...])
        self._tables: dict[str, list[Any]] = {table: [] for table in _SHARED}

    def changes(self, lines: Iterable[bytes], at: datetime) -> Changes:
        """The changes that these pages hold."""
        put: dict[str, list[Any]] = {field: [] for field in FIELDS}
        gone: dict[str, frozenset[str]] = {}
        others: dict[str, tuple[Any, ...]] = {}
        history: Mapping[tuple[str, str], Any] | None = None
        moving: frozenset[str] | None = None
        usage: Measured | None = None
        for line in lines:
            page = self._read(line)
            for field in _SINGLE:
                put[field] += getattr(page, field)
            put["pods"] += map(self._pod, page.pods)
            gone |= {field: frozenset(keys) for field, keys in page.gone.items()}
            others |= {kind: self._own(kind, things) for kind, things in page.others.items()}
            if page.history is not None:
                history = {(profile, plugin): value for profile, plugin, value in page.history}
            if page.moving is not None:
                moving = frozenset(page.moving)
            if page.usage is not None:
                usage = {asked: _readings_of(row) for asked, row in page.usage}
        put["nodes"] = [NODE.unpacked(row, tainted_at=dict(row.tainted_at)) for row in put["nodes"]]
        changed = {
            field: Change(tuple(put[field]), gone.get(field, frozenset())) for field in FIELDS
        }
        return Changes(at=at, others=others, history=history, moving=moving, usage=usage, **changed)

    def _read(self, line: bytes) -> Page:
        page = self._pages.decode(line)
        tables = self._tables
        tables["demands"] += page.demands
        tables["states"] += page.states
        for row in page.specs:
            tables["specs"].append(SPEC.unpacked(row, demand=tables["demands"][row.demand]))
        for row in page.templates:
            tables["templates"].append(TEMPLATE.unpacked(row, spec=tables["specs"][row.spec]))
        return page

    def _pod(self, row: Any) -> Pod:
        tables = self._tables
        pod: Pod = POD.unpacked(
            row, template=tables["templates"][row.template], state=tables["states"][row.state]
        )
        return pod

    def _own(self, kind: str, things: Raw) -> tuple[Any, ...]:
        decoder = self._others.get(kind)
        if decoder is not None:
            found: tuple[Any, ...] = decoder.decode(things)
            return found
        if bytes(things) == b"[]":
            return ()
        raise InputError(
            f"the record holds objects of the kind {kind}, which no installed plugin reads; "
            "install the plugin that was at work then"
        )
