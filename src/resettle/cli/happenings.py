"""What happens in a scenario, read against the cluster it happens to."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import msgspec

from resettle.cli.scenario import EventDocument, Scenario
from resettle.cluster.collect import Collection
from resettle.errors import InputError
from resettle.model.changes import Change, Changes
from resettle.model.kinds import ALWAYS_READ, KINDS, Kind
from resettle.model.snapshot import Snapshot
from resettle.policy.problem import Path, did_you_mean, nearest
from resettle.simulate.events import Event, owner_pods


def events_of(
    scenario: Scenario, snapshot: Snapshot, cycles: int, kinds: Iterable[Kind]
) -> tuple[Event, ...]:
    """What happens, read against the cluster; raises `PolicyError` for what cannot happen."""
    reader = _Events(scenario, snapshot, cycles, list(kinds))
    # In the order they happen: what one event applies a later one may delete.
    written = enumerate(scenario.document.events)
    in_turn = sorted(((i, event) for i, event in written if event), key=lambda item: item[1].cycle)
    events = tuple(reader.event(event, i) for i, event in in_turn)
    scenario.report.raise_errors()
    return events


class _Events:
    """Reads events one after the other, and keeps in mind what is there by then."""

    def __init__(
        self, scenario: Scenario, snapshot: Snapshot, cycles: int, kinds: list[Kind]
    ) -> None:
        self._report = scenario.report
        self._snapshot = snapshot
        self._cycles = cycles
        self._kinds = kinds
        self._there = {kind: set(_names(snapshot, kind)) for kind in KINDS}

    def event(self, written: EventDocument, index: int) -> Event:
        path = ("events", index)
        if written.cycle > self._cycles:
            what = f"cycle {written.cycle} comes after the last one, {self._cycles}"
            self._report.error((*path, "cycle"), what, "choose an earlier one, or more `cycles`")
        came = self._applied(written, path)
        gone = self._deleted(written, path)
        changes: dict[str, Any] = {
            kind.field: Change(tuple(_objects(came, kind.name)), frozenset(gone.get(kind.name, ())))
            for kind in KINDS.values()
        }
        return Event(
            cycle=written.cycle,
            says=written.says or _in_words(written, came),
            changes=Changes(at=self._snapshot.taken_at, **changes),
            scale=dict(self._scaled(written, (*path, "scale"))),
            cordon=frozenset(self._cordoned(written, (*path, "cordon"))),
        )

    def _applied(self, written: EventDocument, path: Path) -> Snapshot:
        """The objects of an event, decoded."""
        collection = Collection(self._kinds)
        collection.begin(self._report.source.name)
        for i, thing in enumerate(written.apply):
            at = (*path, "apply", i)
            kind = thing.get("kind", "") if isinstance(thing, dict) else ""
            if kind not in KINDS:
                what = f"`{kind}` is no kind that matters here" if kind else "this has no `kind`"
                self._report.error(at, what, did_you_mean(str(kind), KINDS))
                continue
            try:
                collection.add(kind, msgspec.json.encode(thing), "")
            except InputError as error:
                self._report.error(at, error.what, error.fix)
        try:
            came = collection.snapshot(self._snapshot.taken_at)
        except InputError as error:
            self._report.error((*path, "apply"), error.what, error.fix)
            return Collection().snapshot(self._snapshot.taken_at)
        for kind in KINDS:
            self._there[kind] |= set(_names(came, kind))
        return came

    def _deleted(self, written: EventDocument, path: Path) -> dict[str, set[str]]:
        """Keys of what goes, by kind."""
        gone: dict[str, set[str]] = {}
        for i, text in enumerate(written.delete):
            at = (*path, "delete", i)
            kind, _, key = (text or "").partition("/")
            namespaced = kind in KINDS and KINDS[kind].namespaced
            form = f"{kind}/NAMESPACE/NAME" if namespaced else f"{kind}/NAME"
            if kind not in KINDS:
                what = f"`{text}` does not begin with a kind that matters here"
                self._report.error(at, what, did_you_mean(kind, KINDS))
            elif key.count("/") != namespaced or not all(key.split("/")):
                self._report.error(at, f"`{text}` names no {kind}", f"write `{form}`")
            elif key not in self._there[kind]:
                what = f"there is no {kind} `{key}` by cycle {written.cycle}"
                self._report.error(at, what, _nearest(key, self._there[kind]))
            else:
                gone.setdefault(kind, set()).add(key)
        for kind, keys in gone.items():
            # A controller makes a deleted pod anew, under the same name.
            self._there[kind] -= keys if kind != "Pod" else set()
        return gone

    def _scaled(self, written: EventDocument, path: Path) -> Iterator[tuple[str, int]]:
        for target, wanted in written.scale.items():
            if target.count("/") != 2:
                fix = "write `ReplicaSet/NAMESPACE/NAME`"
                self._report.error((*path, target), f"`{target}` names no controller", fix)
            elif not owner_pods(self._snapshot, target):
                owners = {
                    f"{owner.kind}/{template.namespace}/{owner.name}"
                    for template in self._snapshot.population.templates
                    for owner in template.owners
                }
                what = f"no pod belongs to `{target}`, so there is none to copy"
                self._report.error((*path, target), what, _nearest(target, owners))
            else:
                yield target, wanted

    def _cordoned(self, written: EventDocument, path: Path) -> Iterator[str]:
        for i, name in enumerate(written.cordon):
            if name in self._there["Node"]:
                yield name
            elif name:
                what = f"there is no node `{name}` by cycle {written.cycle}"
                self._report.error((*path, i), what, _nearest(name, self._there["Node"]))


def _objects(snapshot: Snapshot, kind: str) -> Iterable[Any]:
    """The objects of a kind, in order."""
    if kind in ALWAYS_READ:
        return snapshot.fleet if kind == "Node" else snapshot.pods
    by_key: Mapping[str, Any] = getattr(snapshot, KINDS[kind].field)
    return by_key.values()


def _names(snapshot: Snapshot, kind: str) -> Iterable[str]:
    return (thing.key for thing in _objects(snapshot, kind))


def _nearest(word: str, known: Iterable[str]) -> str:
    """A hint that names one similar word, and never all that are known."""
    similar = nearest(word, sorted(known))
    return f"did you mean `{similar}`?" if similar else "name one that the cluster has"


def _in_words(written: EventDocument, came: Snapshot) -> str:
    """What happens, for an event that does not say so itself."""
    parts = [f"{kind} {name} is applied" for kind in KINDS for name in _names(came, kind)]
    parts += [f"{name} is deleted" for name in written.delete if name]
    parts += [f"{name} is scaled to {count}" for name, count in written.scale.items()]
    parts += [f"Node {name} is cordoned" for name in written.cordon if name]
    return ", ".join(parts)
