"""A cluster thrown by dice.

Every object has dice of its own, so that one can be left out, or turn out plainer, and the others
stay as they are: that is what makes a counterexample small.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from random import Random
from typing import Any

from resettle.testing.chance.sketches import Call, Sketch
from resettle.testing.chance.tables import BUDGETS, MAKES, NODES, ODDITIES, PODS, Table
from resettle.testing.objects import merged

ODDITY, HOME = "oddity", "home"
COLUMNS = tuple(dict.fromkeys((*NODES, *MAKES, *PODS, ODDITY, HOME)))
"""What can be left plain."""
_SURROUNDINGS = (
    Call("namespace", "default", {"team": "blue"}),
    Call("namespace", "shop", {"team": "red"}),
    Call("priority_class", "high", {"value": 1000}),
    Call("claim", "data", {"storage_class": "fast"}),
)


def cluster_of(
    dice: Random,
    *,
    nodes: int,
    pods: Collection[int],
    budgets: int,
    makes: int = 3,
    plain: Collection[str] = (),
    node_traits: Table | None = None,
    pod_traits: Table | None = None,
) -> Sketch:
    """A cluster with so many nodes and budgets, and the pods with these numbers.

    Pods are of so many makes, as those of a workload are. Columns that are `plain` are left to the
    builders; traits are choices for further arguments, of which plain ones get the first.
    """
    seed = dice.getrandbits(64)

    def own(kind: str, number: int) -> Random:
        return Random(f"{seed} {kind} {number}")

    held: dict[str, tuple[Call, list[Call]]] = {}
    for i in range(nodes):
        throws = own("node", i)
        given = _with_traits(throws, _rolled(throws, NODES, plain), node_traits, plain)
        held[f"n{i}"] = (Call("node", f"n{i}", given), [])
    looks = [_make(own("make", i), plain, pod_traits) for i in range(makes)]
    beside: list[Call] = []
    for i in pods:
        throws = own("pod", i)
        given = {**throws.choice(looks), **_rolled(throws, PODS, plain)}
        home = _home(throws, list(held), plain)
        if home in held:
            held[home][1].append(Call("pod", f"p{i}", given))
        else:
            beside.append(
                Call("pod", f"p{i}", {**given, "spec": {"nodeName": home}} if home else given)
            )
    allowances = (
        Call("budget", f"b{i}", _rolled(own("budget", i), BUDGETS, ())) for i in range(budgets)
    )
    return Sketch(held.values(), [*beside, *allowances, *_SURROUNDINGS])


def _home(dice: Random, names: list[str], plain: Collection[str]) -> str:
    """A node, the first one more often than others; one that is not there; or none yet."""
    home = dice.choice([*names * 3, *names[:1] * 5, "gone", ""])
    return names[0] if names and HOME in plain else home


def _make(dice: Random, plain: Collection[str], traits: Table | None) -> dict[str, Any]:
    """What the pods of one workload have in common."""
    given = _rolled(dice, MAKES, plain)
    oddity = dice.choice(ODDITIES)
    return _with_traits(dice, given if ODDITY in plain else {**given, **oddity}, traits, plain)


def _rolled(dice: Random, table: Table, plain: Collection[str]) -> dict[str, Any]:
    """One choice from each column that is not plain."""
    thrown = {key: dice.choice(choices) for key, choices in table.items()}
    return {key: value for key, value in thrown.items() if key not in plain}


def _with_traits(
    dice: Random, given: Mapping[str, Any], traits: Table | None, plain: Collection[str]
) -> dict[str, Any]:
    """The arguments with one choice of each trait laid over them."""
    for key, choices in (traits or {}).items():
        thrown = dice.choice(choices)
        given = merged(given, {key: choices[0] if key in plain else thrown})
    return dict(given)
