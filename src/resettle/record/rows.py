"""Objects as a record has them: arrays, in which parts that many share stand as numbers.

Pods share templates, templates specs, specs demands. Each such part is written once in a segment,
and counted from zero; whoever has it names its number. So what is one object in a snapshot is one
object again when it is read back, and pods that are alike stay so.
"""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Any, TypeAlias

import msgspec
from msgspec import Raw, Struct, structs

from resettle.model.node import (
    AttachLimits,
    Budget,
    Claim,
    Namespace,
    Node,
    PriorityClass,
    Volume,
)
from resettle.model.pod import Demand, Pod, Spec, State, Template
from resettle.model.readings import Figure, Question, Readings
from resettle.model.taint import Taint


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
