"""Encodes the changes between two cycles as pages of a record, and decodes them.

Pods share templates, templates share specs, specs share demands. Each shared part is written once
in a segment and gets a number, counted from zero; an object that has the part refers to the number.
So one object in a snapshot is one object again after reading, and pods with equal templates share
them as before.
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
from resettle.model.measurements import Figure, Measured, MetricsQuery, Readings
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
from resettle.model.workloads import Eviction, Workload


class Row:
    """How one struct is written: as an array of its fields, some with another type."""

    def __init__(self, struct: type[Any], **instead: Any) -> None:
        self._make = struct
        self._names = struct.__struct_fields__
        fields = structs.fields(struct)
        self.positions = {field.name: i for i, field in enumerate(fields) if field.name in instead}
        self.type: Any = msgspec.defstruct(
            f"{struct.__name__}Row",
            [(field.name, instead.get(field.name, field.type)) for field in fields],
            array_like=True,
        )

    def pack(self, struct: Struct, **parts: Any) -> list[Any]:
        """Return the row of a struct, with these values for the replaced fields."""
        values = list(structs.astuple(struct))
        for name, position in self.positions.items():
            values[position] = parts[name]
        return values

    def unpack(self, row: Any, **parts: Any) -> Any:
        """Return the struct of a row, with these values for the replaced fields."""
        values = list(structs.astuple(row))
        for name, position in self.positions.items():
            values[position] = parts[name]
        return self._make(**dict(zip(self._names, values, strict=True)))


SPEC = Row(Spec, demand=int)
TEMPLATE = Row(Template, spec=int)
POD = Row(Pod, template=int, state=int)
NODE = Row(Node, tainted_at=list[tuple[Taint, datetime]])
FIGURE = Row(Figure, number=str)  # JSON has no NaN
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


class RecordPage(Struct):
    """Some changes: objects that are new or changed, keys of deleted ones, and the rest.

    A field that a page does not have did not change.
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
    deployments: list[Workload] = []
    replica_sets: list[Workload] = []
    stateful_sets: list[Workload] = []
    jobs: list[Workload] = []
    replication_controllers: list[Workload] = []
    gone: dict[str, list[str]] = {}
    others: dict[str, Raw] = {}
    history: list[tuple[str, str, Any]] | None = None
    moving: list[str] | None = None
    usage: list[tuple[MetricsQuery, ReadingsRow]] | None = None
    scales: tuple[Workload, ...] | None = None
    evictions: tuple[Eviction, ...] | None = None


PODS_PER_PAGE = 1000
"""Few enough that writing one page takes only a moment."""

_SHARED = ("demands", "specs", "templates", "states")
_SINGLE = tuple(field for field in FIELDS if field != "pods")


class ChangesEncoder:
    """Encodes the changes of one segment; remembers the numbers of shared parts."""

    def __init__(self) -> None:
        self._numbers: dict[Demand | Spec | Template | State, int] = {}
        self._counts = dict.fromkeys(_SHARED, 0)
        self._page: defaultdict[str, list[Any]] = defaultdict(list)

    def encode(self, changes: Changes) -> Iterator[bytes]:
        """Yield the changes as pages, one line each."""
        page: dict[str, Any] = {}
        gone = {}
        for field in FIELDS:
            change: Change[Any] = getattr(changes, field)
            if change.gone:
                gone[field] = sorted(change.gone)
            if change.put and field in _SINGLE:
                is_node = field == "nodes"
                page[field] = [_pack_node(obj) if is_node else obj for obj in change.put]
        if gone:
            page["gone"] = gone
        if changes.others:
            page["others"] = changes.others
        if changes.history is not None:
            page["history"] = [
                (*key, plain_or_none(value)) for key, value in changes.history.items()
            ]
        if changes.moving is not None:
            page["moving"] = sorted(changes.moving)
        if changes.usage is not None:
            page["usage"] = [
                (question, _pack_readings(readings)) for question, readings in changes.usage.items()
            ]
        if changes.scales is not None:
            page["scales"] = changes.scales
        if changes.evictions is not None:
            page["evictions"] = changes.evictions
        if page:
            yield _line(page)
        pods = changes.pods.put
        for start in range(0, len(pods), PODS_PER_PAGE):
            self._page["pods"] = [
                self._pack_pod(pod) for pod in pods[start : start + PODS_PER_PAGE]
            ]
            yield _line(self._page)
            self._page.clear()

    def _pack_pod(self, pod: Pod) -> list[Any]:
        template = self._numbers.get(pod.template)
        state = self._numbers.get(pod.state)
        return POD.pack(
            pod,
            template=self._template(pod.template) if template is None else template,
            state=self._number("states", pod.state, pod.state) if state is None else state,
        )

    def _template(self, template: Template) -> int:
        spec = self._numbers.get(template.spec)
        if spec is None:
            spec = self._spec(template.spec)
        return self._number("templates", template, TEMPLATE.pack(template, spec=spec))

    def _spec(self, spec: Spec) -> int:
        demand = self._numbers.get(spec.demand)
        if demand is None:
            demand = self._number("demands", spec.demand, spec.demand)
        return self._number("specs", spec, SPEC.pack(spec, demand=demand))

    def _number(self, table: str, part: Demand | Spec | Template | State, row: Any) -> int:
        number = self._numbers[part] = self._counts[table]
        self._counts[table] += 1
        self._page[table].append(row)
        return number


def _pack_node(node: Any) -> list[Any]:
    return NODE.pack(node, tainted_at=list(node.tainted_at.items()))


def _pack_readings(readings: Readings) -> list[Any]:
    figures = [FIGURE.pack(figure, number=repr(figure.number)) for figure in readings.figures]
    return READINGS.pack(readings, figures=figures)


def _unpack_readings(row: Any) -> Readings:
    figures = tuple(FIGURE.unpack(figure, number=float(figure.number)) for figure in row.figures)
    readings: Readings = READINGS.unpack(row, figures=figures)
    return readings


def _line(page: Mapping[str, Any]) -> bytes:
    return msgspec.json.encode(page) + b"\n"


def plain_or_none(value: Any) -> Any:
    """The value if JSON can hold it, and None otherwise."""
    return value if is_plain(value) else None


def is_plain(value: Any) -> bool:
    """Whether a value is the same after a round trip through JSON."""
    try:
        return bool(msgspec.json.decode(msgspec.json.encode(value)) == value)
    except (TypeError, ValueError, OverflowError, RecursionError):
        return False


class ChangesDecoder:
    """Decodes the pages of one segment, which must be given from the first on."""

    def __init__(self, kinds: Iterable[Kind] = ()) -> None:
        self._pages = msgspec.json.Decoder(RecordPage)
        self._others: dict[str, msgspec.json.Decoder[Any]] = {}
        for kind in kinds:
            struct: Any = kind.struct
            self._others[kind.name] = msgspec.json.Decoder(tuple[struct, ...])
        self._tables: dict[str, list[Any]] = {table: [] for table in _SHARED}

    def decode(self, lines: Iterable[bytes], at: datetime) -> Changes:
        """The changes that these pages hold, as of this time."""
        put: dict[str, list[Any]] = {field: [] for field in FIELDS}
        gone: dict[str, frozenset[str]] = {}
        others: dict[str, tuple[Any, ...]] = {}
        history: Mapping[tuple[str, str], Any] | None = None
        moving: frozenset[str] | None = None
        usage: Measured | None = None
        scales: tuple[Workload, ...] | None = None
        evictions: tuple[Eviction, ...] | None = None
        for line in lines:
            page = self._read(line)
            for field in _SINGLE:
                put[field] += getattr(page, field)
            put["pods"] += map(self._unpack_pod, page.pods)
            gone |= {field: frozenset(keys) for field, keys in page.gone.items()}
            others |= {
                kind: self._decode_custom(kind, things) for kind, things in page.others.items()
            }
            if page.history is not None:
                history = {(profile, plugin): value for profile, plugin, value in page.history}
            if page.moving is not None:
                moving = frozenset(page.moving)
            if page.usage is not None:
                usage = {question: _unpack_readings(row) for question, row in page.usage}
            scales = scales if page.scales is None else page.scales
            evictions = evictions if page.evictions is None else page.evictions
        put["nodes"] = [NODE.unpack(row, tainted_at=dict(row.tainted_at)) for row in put["nodes"]]
        changed = {
            field: Change(tuple(put[field]), gone.get(field, frozenset())) for field in FIELDS
        }
        return Changes(
            at=at,
            others=others,
            history=history,
            moving=moving,
            usage=usage,
            scales=scales,
            evictions=evictions,
            **changed,
        )

    def _read(self, line: bytes) -> RecordPage:
        page = self._pages.decode(line)
        tables = self._tables
        tables["demands"] += page.demands
        tables["states"] += page.states
        for row in page.specs:
            tables["specs"].append(SPEC.unpack(row, demand=tables["demands"][row.demand]))
        for row in page.templates:
            tables["templates"].append(TEMPLATE.unpack(row, spec=tables["specs"][row.spec]))
        return page

    def _unpack_pod(self, row: Any) -> Pod:
        tables = self._tables
        pod: Pod = POD.unpack(
            row, template=tables["templates"][row.template], state=tables["states"][row.state]
        )
        return pod

    def _decode_custom(self, kind: str, things: Raw) -> tuple[Any, ...]:
        decoder = self._others.get(kind)
        if decoder is not None:
            objects: tuple[Any, ...] = decoder.decode(things)
            return objects
        if bytes(things) == b"[]":
            return ()
        raise InputError(
            f"the record holds objects of the kind {kind}, which no installed plugin reads; "
            "install the plugin that the recorded run used"
        )
