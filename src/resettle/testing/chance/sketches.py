"""A world that can be printed in the language of builders, and pasted into a test of its own."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from inspect import signature
from textwrap import indent
from typing import Any, NamedTuple

from resettle.testing import objects
from resettle.testing.objects import NodeBuilder, Object
from resettle.testing.worlds import World, cluster


class Call(NamedTuple):
    """A builder, the name it is given, and the rest of what it is given."""

    builder: str
    name: str
    given: Mapping[str, Any]

    def made(self) -> Any:
        """What the builder makes of it."""
        return getattr(objects, self.builder)(self.name, **self.given)

    def __str__(self) -> str:
        known = signature(getattr(objects, self.builder)).parameters
        told = [
            f", {key}={value!r}"
            for key, value in self.given.items()
            if not (key in known and _says_nothing(value, known[key].default))
        ]
        return f"{self.builder}({self.name!r}{''.join(told)})"


class Sketch(World):
    """Nodes with the pods they hold, and what stands beside them; its `repr` is the call for it."""

    def __init__(self, held: Iterable[tuple[Call, Iterable[Call]]], beside: Iterable[Call]) -> None:
        self._held = [(node, list(pods)) for node, pods in held]
        self._beside = list(beside)
        parts: list[NodeBuilder | Object] = [
            node.made().holding(*(pod.made() for pod in pods)) for node, pods in self._held
        ]
        super().__init__(cluster(*parts, *(it.made() for it in self._beside)).objects)

    def __repr__(self) -> str:
        nodes = [f"{node}.holding({_lines(pods)})" if pods else node for node, pods in self._held]
        return f"cluster({_lines([*nodes, *self._beside])})"


def _says_nothing(value: Any, default: Any) -> bool:
    """Whether the builder would do the same without being told."""
    return bool(value == default) or (not value and default in (None, ()))


def _lines(parts: Iterable[object]) -> str:
    text = ",\n".join(map(str, parts))
    return f"\n{indent(text, '    ')},\n" if text else ""
