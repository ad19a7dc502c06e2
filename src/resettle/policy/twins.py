"""Keys written twice in one mapping, as the original reads them: the last one counts."""

from __future__ import annotations

from yaml import MappingNode, Node, ScalarNode, SequenceNode

from resettle.policy.problem import Path
from resettle.policy.report import Report
from resettle.policy.source import is_merge, place_of


def keep_last_of_twins(report: Report) -> None:
    """Takes earlier twins out of the tree, and warns of each."""
    seen: set[int] = set()
    waiting: list[tuple[Node, Path]] = [(report.source.root, ())]
    while waiting:
        node, path = waiting.pop()
        if id(node) in seen:
            continue
        seen.add(id(node))
        if isinstance(node, SequenceNode):
            waiting += [(item, (*path, index)) for index, item in enumerate(node.value)]
        elif isinstance(node, MappingNode):
            _settle(node, path, report)
            waiting += [(value, (*path, str(key.value))) for key, value in node.value]


def _settle(node: MappingNode, path: Path, report: Report) -> None:
    """Leaves the last of each key in one mapping."""
    last = {key.value: key for key, _ in node.value if isinstance(key, ScalarNode)}
    kept = []
    for key, value in node.value:
        counts = not isinstance(key, ScalarNode) or is_merge(key) or last[key.value] is key
        if counts:
            kept.append((key, value))
            continue
        line = last[key.value].start_mark.line + 1
        what = f"`{key.value}` is written twice, and the one on line {line} counts"
        report.warn((*path, key.value), what, "keep one of the two", place=place_of(key))
    node.value = kept
