"""What to say of a pod or node that is not there: which one was probably meant."""

from __future__ import annotations

from resettle.errors import InputError
from resettle.model.snapshot import Snapshot
from resettle.policy.problem import nearest

MOST = 3


def no_such_pod(snapshot: Snapshot, namespace: str, name: str) -> InputError:
    """An error that names pods of the same name elsewhere, or one whose name is near."""
    population = snapshot.population
    spaces = sorted(population.namespaces)
    alike = [f"{space}/{name}" for space in spaces if population.named(space, name)]
    if alike:
        return _missing("pod", f"{namespace}/{name}", alike)
    space = namespace if namespace in population.namespaces else nearest(namespace, spaces)
    names = (
        [pod.name for it in population.namespaces[space] for pod in population.templates[it]]
        if space
        else []
    )
    near = nearest(name, names)
    return _missing("pod", f"{namespace}/{name}", [f"{space}/{near}"] if near else [])


def no_such_node(snapshot: Snapshot, name: str) -> InputError:
    """An error that names the node whose name is nearest."""
    near = nearest(name, snapshot.fleet.position)
    return _missing("node", name, [near] if near else [])


def _missing(kind: str, name: str, meant: list[str]) -> InputError:
    if not meant:
        return InputError(f"there is no {kind} `{name}`; list them with `kubectl get {kind}s`")
    listed = " or ".join(f"`{it}`" for it in meant[:MOST])
    return InputError(f"there is no {kind} `{name}`; did you mean {listed}?")
