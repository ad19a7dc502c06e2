"""The placement of a dense cluster, drawn by a seed: 24 nodes at 70 % cpu, 370 pods, 37 apps.

A third of the open nodes joined late: they are half full and have only what was rolled out since.
Those apps have more replicas than there are such nodes, so that each has duplicates there. The
other nodes are nearly full; each app on them has one duplicate or two. Two of the full nodes have
got a taint that no pod tolerates.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import NamedTuple

NODES = 24
TAINTED = 2
LATE = 7
NODE_CPU = 8000
REPLICAS = 10
RECENT = 8
"""Apps that are on the nodes which joined late, and nowhere else."""
SIZES = [100] * 6 + [200] * 9 + [300] * 8 + [400] * 6 + [600] * 4 + [1000] * 4
"""Millicores of the pods of each app."""
FULL = 0.97


class App(NamedTuple):
    """The pods of an app: their size, and the number of the node of each."""

    size: int
    over_zones: bool
    """Whether it asks to be spread over zones; pods that ask for nothing are spread by default."""
    nodes: tuple[int, ...]


class Layout(NamedTuple):
    """Where all pods are at the start."""

    apps: tuple[App, ...]
    tainted: frozenset[int]


def draw_layout(seed: int) -> Layout:
    """The layout of a seed."""
    chance = random.Random(seed)
    numbers = list(range(NODES))
    chance.shuffle(numbers)
    late, full = numbers[:LATE], numbers[LATE:]
    sizes = SIZES.copy()
    chance.shuffle(sizes)
    used: Counter[int] = Counter()
    apps = []
    # Large pods first: small ones fill what is left.
    for number, size in sorted(enumerate(sizes), key=lambda entry: -entry[1]):
        recent = number < RECENT
        distinct = LATE if recent else REPLICAS - chance.choice((1, 2))
        nodes = _draw_nodes(chance, late if recent else full, distinct, size, used)
        apps.append((number, App(size, chance.random() < 0.5, nodes)))
    return Layout(tuple(app for _, app in sorted(apps)), frozenset(chance.sample(full, TAINTED)))


def _draw_nodes(
    chance: random.Random, among: Sequence[int], distinct: int, size: int, used: Counter[int]
) -> tuple[int, ...]:
    """So many different nodes, the emptier the likelier, and some of them again."""
    chosen: list[int] = []
    for replica in range(REPLICAS):
        copies = Counter(chosen)
        if replica < distinct:
            able = [node for node in among if node not in copies]
        else:
            able = [node for node, many in copies.items() if many == 1]
        able = [node for node in able if used[node] + size <= FULL * NODE_CPU]
        weights = [(NODE_CPU - used[node]) ** 2 for node in able]
        (node,) = chance.choices(able, weights)
        chosen.append(node)
        used[node] += size
    return tuple(chosen)


class Violations(NamedTuple):
    """What a descheduler should correct."""

    duplicates: int
    """Pods beside another pod of their app, on nodes without the taint."""
    on_tainted: int

    @property
    def total(self) -> int:
        """All of them."""
        return sum(self)


def count_violations(places: Iterable[tuple[str, str]], tainted: frozenset[str]) -> Violations:
    """What is to be corrected; `places` are app and node of each pod."""
    copies = Counter(places)
    on_tainted = sum(many for (_, node), many in copies.items() if node in tainted)
    duplicates = sum(many - 1 for (_, node), many in copies.items() if node not in tainted)
    return Violations(duplicates, on_tainted)
