"""The tree for a document nobody wrote: plain values as YAML nodes, without places."""

from __future__ import annotations

from typing import Any

from yaml import MappingNode, Node, ScalarNode, SequenceNode

_CORE = "tag:yaml.org,2002:"


def as_node(value: Any) -> Node:
    """The node that a plain value would have been read from."""
    match value:
        case dict():
            pairs = [(as_node(str(key)), as_node(inner)) for key, inner in value.items()]
            return MappingNode(f"{_CORE}map", pairs)
        case list() | tuple():
            return SequenceNode(f"{_CORE}seq", [as_node(item) for item in value])
        case None:
            return ScalarNode(f"{_CORE}null", "null")
        case bool():
            return ScalarNode(f"{_CORE}bool", "true" if value else "false")
        case int() | float():
            return ScalarNode(f"{_CORE}{type(value).__name__}", str(value))
    return ScalarNode(f"{_CORE}str", str(value), style='"')
