"""Keeps a document finite: not too deep, no alias inside itself, no aliases that multiply.

A few hundred bytes of YAML can stand for a tree without end. After these checks plain recursion
over the tree is safe.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import yaml
from yaml import MappingNode, Node, SequenceNode

_DEEPEST = 100
_LARGEST = 1_000_000


class UnboundedError(Exception):
    """The document would not fit; says where it grows, and what to do."""

    def __init__(self, mark: Any, what: str, fix: str) -> None:
        super().__init__(what)
        self.mark, self.what, self.fix = mark, what, fix


def check_nesting(events: Iterable[yaml.Event]) -> None:
    """Refuses nesting so deep that composing the tree would exhaust the stack."""
    depth = 0
    for event in events:
        if isinstance(event, yaml.CollectionStartEvent):
            depth += 1
        elif isinstance(event, yaml.CollectionEndEvent):
            depth -= 1
        if depth > _DEEPEST:
            raise _too_deep(event.start_mark)


def check_aliases(root: Node) -> None:
    """Refuses a tree that its aliases make endless, too deep or too large."""
    sizes: dict[int, int] = {}
    depths: dict[int, int] = {}
    open_nodes: set[int] = set()
    waiting = [root]
    while waiting:
        node = waiting[-1]
        children = _children(node)
        fresh = [child for child in children if id(child) not in sizes]
        if fresh and id(node) not in open_nodes:
            open_nodes.add(id(node))
            for child in fresh:
                if id(child) in open_nodes:
                    what = "an alias in here leads back to where it stands"
                    raise UnboundedError(child.start_mark, what, "write the inner part out")
            waiting += fresh
            continue
        waiting.pop()
        open_nodes.discard(id(node))
        sizes[id(node)] = 1 + sum(sizes[id(child)] for child in children)
        depths[id(node)] = 1 + max((depths[id(child)] for child in children), default=0)
        if sizes[id(node)] > _LARGEST:
            what = f"its aliases make this larger than {_LARGEST:,} values"
            raise UnboundedError(node.start_mark, what, "use fewer aliases")
        if depths[id(node)] > _DEEPEST + 1:
            raise _too_deep(node.start_mark)


def _children(node: Node) -> list[Node]:
    if isinstance(node, MappingNode):
        return [part for pair in node.value for part in pair]
    return list(node.value) if isinstance(node, SequenceNode) else []


def _too_deep(mark: Any) -> UnboundedError:
    what = f"more than {_DEEPEST} levels stand inside one another here"
    return UnboundedError(mark, what, "nest less deeply")
