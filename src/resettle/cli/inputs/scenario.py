"""The scenario file of `simulate`: cluster, policies, and events before given cycles.

It is read as a policy is: every mistake at once, each with its place and a fix. Events are checked
in a second step, `read_events`, once the cluster is known.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple, TypeVar

import msgspec
from msgspec import Meta, Struct, convert, structs
from yaml import MappingNode

from resettle.dumps.collection import Collection
from resettle.errors import InputError
from resettle.files import STDIN, display_name, read_text
from resettle.model.changes import Change, Changes
from resettle.model.kinds import ALWAYS_READ, KINDS, Kind
from resettle.model.snapshot import Snapshot
from resettle.policy.args import Duration, parse_duration
from resettle.policy.problems import ProblemCollector, did_you_mean, nearest, policy_error
from resettle.policy.yaml.parse import UnreadableError, read_source
from resettle.policy.yaml.source import KeyPath
from resettle.policy.yaml.typed_walk import Walker, shape_of
from resettle.simulate.events import Event, owner_pods
from resettle.times import parse_time

Document = TypeVar("Document", bound=Struct)


def read_document(
    file: str, shape: type[Document], noun: str, keys: Sequence[str]
) -> tuple[Document, ProblemCollector]:
    """The document in the file, and the collector for further problems of it.

    Raises `PolicyError` with every problem of its shape; `noun` and the most important `keys` are
    for the sentences.
    """
    name = display_name(file)
    *first, last = (f"`{key}`" for key in keys)
    named = f"{', '.join(first)} and {last}"
    try:
        source = read_source(read_text(file), name)
    except UnreadableError as error:
        problem = error.problem
        if "policy" in problem.what or "apiVersion" in problem.fix:
            fix = f"write one document with {named}"
            problem = structs.replace(problem, what=f"{noun} is one document", fix=fix)
        raise policy_error(name, [problem]) from None
    report = ProblemCollector(source)
    if not isinstance(source.root, MappingNode):
        report.error((), f"{noun} is a mapping", f"write {named} as its keys")
        report.raise_errors()
    plain = Walker(report, dict, improved=False).read_struct(source.root, shape_of(shape), ())
    report.raise_errors()
    return convert(plain, shape), report


Positive = Annotated[int, Meta(ge=1)]
Count = Annotated[int, Meta(ge=0)]
SoftTaintsWord = Literal["with", "compare"]
"""Whether nodes are tainted while they are too full: always, or compared with no taints."""


class EventDocument(Struct, frozen=True, kw_only=True):
    """An event before a cycle, as written in the file."""

    cycle: Positive
    says: str = ""
    apply: tuple[Any, ...] = ()
    delete: tuple[str | None, ...] = ()
    scale: dict[str, Count] = {}
    cordon: tuple[str | None, ...] = ()


class ScenarioDocument(Struct, frozen=True, kw_only=True, rename="camel"):
    """A scenario, as written in the file."""

    cluster: tuple[str | None, ...] | str = ()
    policy: str = ""
    against: str = ""
    loads: str = ""
    soft_taints: SoftTaintsWord | None = None
    cycles: Positive | None = None
    interval: Duration | None = None
    now: str = ""
    events: tuple[EventDocument | None, ...] = ()


class Scenario(NamedTuple):
    """A scenario file with the folder that its paths are relative to."""

    document: ScenarioDocument
    report: ProblemCollector
    folder: Path

    @property
    def cluster(self) -> list[str]:
        """Paths of its dumps."""
        written = self.document.cluster
        names = [written] if isinstance(written, str) else written
        return [self.resolve_path(name) for name in names if name]

    def resolve_path(self, file: str) -> str:
        """The path of a file that is named relative to the scenario."""
        return str(self.folder / file) if file and file != STDIN else file

    @property
    def interval(self) -> timedelta | None:
        return parse_duration(self.document.interval) if self.document.interval else None

    @property
    def now(self) -> datetime | None:
        return parse_time(self.document.now)


def read_scenario(file: str) -> Scenario:
    """The scenario in this file; raises `PolicyError` with every problem of its shape."""
    keys = ("cluster", "policy", "events")
    document, report = read_document(file, ScenarioDocument, "a scenario", keys)
    folder = Path() if file == STDIN else Path(file).parent
    scenario = Scenario(document, report, folder)
    _check_times(scenario)
    report.raise_errors()
    return scenario


def _check_times(scenario: Scenario) -> None:
    document, report = scenario.document, scenario.report
    if scenario.interval is not None and scenario.interval <= timedelta():
        what = f"{document.interval} is not a positive duration"
        report.error(("interval",), what, "write how long after one cycle the next one begins")
    try:
        parse_time(document.now)
    except InputError as error:
        report.error(("now",), error.what, error.fix)
    for i, event in enumerate(document.events):
        if event and not (event.apply or event.delete or event.scale or event.cordon):
            fix = "add `apply`, `delete`, `scale` or `cordon`"
            report.error(("events", i), "this event changes nothing", fix)


def read_events(
    scenario: Scenario, snapshot: Snapshot, cycles: int, kinds: Iterable[Kind]
) -> tuple[Event, ...]:
    """Read the events and check them against the cluster; raise `PolicyError` with all problems."""
    reader = _EventReader(scenario, snapshot, cycles, list(kinds))
    # In the order they happen: what one event applies a later one may delete.
    written = enumerate(scenario.document.events)
    in_turn = sorted(((i, event) for i, event in written if event), key=lambda item: item[1].cycle)
    events = tuple(reader.read_event(event, i) for i, event in in_turn)
    scenario.report.raise_errors()
    return events


class _EventReader:
    """Reads events in order, and tracks which objects exist before each."""

    def __init__(
        self, scenario: Scenario, snapshot: Snapshot, cycles: int, kinds: list[Kind]
    ) -> None:
        self._report = scenario.report
        self._snapshot = snapshot
        self._cycles = cycles
        self._kinds = kinds
        self._existing = {kind: set(_names(snapshot, kind)) for kind in KINDS}

    def read_event(self, written: EventDocument, index: int) -> Event:
        path = ("events", index)
        if written.cycle > self._cycles:
            what = f"cycle {written.cycle} comes after the last one, {self._cycles}"
            self._report.error((*path, "cycle"), what, "choose an earlier one, or more `cycles`")
        came = self._read_applied(written, path)
        gone = self._read_deleted(written, path)
        changes: dict[str, Any] = {
            kind.field: Change(tuple(_objects(came, kind.name)), frozenset(gone.get(kind.name, ())))
            for kind in KINDS.values()
        }
        return Event(
            cycle=written.cycle,
            says=written.says or _describe_event(written, came),
            changes=Changes(at=self._snapshot.taken_at, **changes),
            scale=dict(self._read_scaled(written, (*path, "scale"))),
            cordon=frozenset(self._read_cordoned(written, (*path, "cordon"))),
        )

    def _read_applied(self, written: EventDocument, path: KeyPath) -> Snapshot:
        """The objects of an event, decoded."""
        collection = Collection(self._kinds)
        collection.begin_source(self._report.source.name)
        for i, thing in enumerate(written.apply):
            at = (*path, "apply", i)
            kind = thing.get("kind", "") if isinstance(thing, dict) else ""
            if kind not in KINDS:
                what = (
                    f"`{kind}` is not a kind that resettle reads" if kind else "this has no `kind`"
                )
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
            self._existing[kind] |= set(_names(came, kind))
        return came

    def _read_deleted(self, written: EventDocument, path: KeyPath) -> dict[str, set[str]]:
        """Keys of the deleted objects, by kind."""
        gone: dict[str, set[str]] = {}
        for i, text in enumerate(written.delete):
            at = (*path, "delete", i)
            kind, _, key = (text or "").partition("/")
            namespaced = kind in KINDS and KINDS[kind].namespaced
            form = f"{kind}/NAMESPACE/NAME" if namespaced else f"{kind}/NAME"
            if kind not in KINDS:
                what = f"`{text}` does not begin with a kind that resettle reads"
                self._report.error(at, what, did_you_mean(kind, KINDS))
            elif key.count("/") != namespaced or not all(key.split("/")):
                self._report.error(at, f"`{text}` is not the name of a {kind}", f"write `{form}`")
            elif key not in self._existing[kind]:
                what = f"there is no {kind} `{key}` by cycle {written.cycle}"
                self._report.error(at, what, _nearest(key, self._existing[kind]))
            else:
                gone.setdefault(kind, set()).add(key)
        for kind, keys in gone.items():
            # A controller recreates a deleted pod, here under the same name.
            self._existing[kind] -= keys if kind != "Pod" else set()
        return gone

    def _read_scaled(self, written: EventDocument, path: KeyPath) -> Iterator[tuple[str, int]]:
        for target, wanted in written.scale.items():
            if target.count("/") != 2:
                fix = "write `ReplicaSet/NAMESPACE/NAME`"
                self._report.error(
                    (*path, target), f"`{target}` is not the name of a controller", fix
                )
            elif not owner_pods(self._snapshot, target):
                owners = {
                    f"{owner.kind}/{template.namespace}/{owner.name}"
                    for template in self._snapshot.pod_index.templates
                    for owner in template.owners
                }
                what = f"no pod belongs to `{target}`, so there is none to copy"
                self._report.error((*path, target), what, _nearest(target, owners))
            else:
                yield target, wanted

    def _read_cordoned(self, written: EventDocument, path: KeyPath) -> Iterator[str]:
        for i, name in enumerate(written.cordon):
            if name in self._existing["Node"]:
                yield name
            elif name:
                what = f"there is no node `{name}` by cycle {written.cycle}"
                self._report.error((*path, i), what, _nearest(name, self._existing["Node"]))


def _objects(snapshot: Snapshot, kind: str) -> Iterable[Any]:
    """The objects of a kind, in order."""
    if kind in ALWAYS_READ:
        return snapshot.node_index if kind == "Node" else snapshot.pods
    by_key: Mapping[str, Any] = getattr(snapshot, KINDS[kind].field)
    return by_key.values()


def _names(snapshot: Snapshot, kind: str) -> Iterable[str]:
    return (thing.key for thing in _objects(snapshot, kind))


def _nearest(word: str, known: Iterable[str]) -> str:
    """A hint that names the most similar word; a list of all could be long."""
    similar = nearest(word, sorted(known))
    return f"did you mean `{similar}`?" if similar else "name one that the cluster has"


def _describe_event(written: EventDocument, came: Snapshot) -> str:
    """A description of an event that has no `says`."""
    parts = [f"{kind} {name} is applied" for kind in KINDS for name in _names(came, kind)]
    parts += [f"{name} is deleted" for name in written.delete if name]
    parts += [f"{name} is scaled to {count}" for name, count in written.scale.items()]
    parts += [f"Node {name} is cordoned" for name in written.cordon if name]
    return ", ".join(parts)
