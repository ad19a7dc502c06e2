"""All pods of a snapshot, found by name, node, template, state or owner.

Strategies ask these indexes rather than walk all pods: who restarts too often is a question to a
few dozen states, who breaks a rule of its own one to the templates that have such a rule. The next
population is made from the last: what did not change is shared, not copied.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from functools import cached_property
from typing import Any, Self, TypeVar

from resettle.model.changes import Change
from resettle.model.pod import FINISHED, Pod, State, Template, by_lot
from resettle.model.resources import requested_by, requests_after
from resettle.model.selectors import Selector

K = TypeVar("K", bound=Hashable)
T = TypeVar("T")
Lists = dict[K, list[Pod]]
_NOBODY: list[Pod] = []
_FEW = 1000
"""So many changes are always entered one by one; many more are quicker sorted in."""
_SHORT = 200
"""In a list of fewer pods one is found quicker by looking at each than by drawing lots."""


class Same:
    """A thing as a key: itself and nothing that merely equals it."""

    __slots__ = ("_thing",)

    def __init__(self, thing: object) -> None:
        self._thing = thing

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Same) and other._thing is self._thing

    def __hash__(self) -> int:
        return id(self._thing)


class Population:
    """Pods in canonical order, and the indexes over them."""

    def __init__(self, pods: Iterable[Pod] = ()) -> None:
        self._requested: dict[str, dict[str, int]] = {}
        self._active: dict[Template, list[Pod]] = {}
        self._told: dict[Hashable, dict[Template, Any]] = {}
        self._told_before: dict[Hashable, dict[Template, Any]] = {}
        self._by_label: dict[tuple[str, str], dict[str, list[Template]]] = {}
        self._lots: dict[Template, bytes] = {}
        by_name: defaultdict[str, dict[str, Pod]] = defaultdict(dict)
        by_node: defaultdict[str, list[Pod]] = defaultdict(list)
        by_template: defaultdict[Template, list[Pod]] = defaultdict(list)
        by_state: defaultdict[State, set[Pod]] = defaultdict(set)
        for pod in pods:
            template = pod.template
            by_name[template.namespace][pod.name] = pod
            by_node[pod.node].append(pod)
            by_template[template].append(pod)
            by_state[pod.state].add(pod)
        self._by_name: dict[str, dict[str, Pod]] = dict(by_name)
        self._by_node: Lists[str] = dict(by_node)
        self._by_template: Lists[Template] = dict(by_template)
        self._by_state: dict[State, set[Pod]] = dict(by_state)

    @classmethod
    def of(cls, pods: Iterable[Pod]) -> Self:
        """These pods, in canonical order whatever theirs was."""
        return cls(sorted(pods, key=by_lot))

    def after(self, change: Change[Pod]) -> Population:
        """The population once some pods have come or changed and others are gone."""
        if not self._by_name:
            first = Population.of(change.put)
            if len(first) == len(change.put):
                return first
        if not self._by_name:
            return Population.of({pod.key: pod for pod in change.put}.values())
        by_name = _NameEditor(self._by_name)
        replaced = [by_name.pop(*key.split("/", 1)) for key in sorted(change.gone)]
        arrived = list({pod.key: pod for pod in change.put}.values())
        replaced += [by_name.swap(pod) for pod in arrived]
        departed = [pod for pod in replaced if pod is not None]
        if len(arrived) + len(departed) > max(_FEW, len(self) // 2):
            later = Population.of(pod for pods in by_name.names.values() for pod in pods.values())
        else:
            later = self._edited(by_name.names, arrived, departed)
        later._told_before = self._told or self._told_before
        return later

    def since(self, earlier: Population) -> Change[Pod]:
        """What makes this population of an earlier one; what both share is passed over."""
        put: list[Pod] = []
        gone: set[str] = set()
        for namespace, pods in self._by_name.items():
            before = earlier._by_name.get(namespace, {})
            if pods is not before:
                put += [pod for name, pod in pods.items() if before.get(name) is not pod]
                gone.update(f"{namespace}/{name}" for name in before if name not in pods)
        for namespace, before in earlier._by_name.items():
            if namespace not in self._by_name:
                gone.update(f"{namespace}/{name}" for name in before)
        return Change(tuple(put), frozenset(gone))

    def _edited(
        self, names: dict[str, dict[str, Pod]], arrived: list[Pod], departed: list[Pod]
    ) -> Population:
        later = Population()
        later._by_name = names
        later._by_node = _edited(self._by_node, arrived, departed, lambda pod: pod.node)
        later._by_template = _edited(self._by_template, arrived, departed, lambda pod: pod.template)
        later._by_state = _restated(self._by_state, arrived, departed)
        later._requested = self._requested_after(arrived, departed)
        touched = {pod.template for pod in (*arrived, *departed)}
        later._active = {key: pods for key, pods in self._active.items() if key not in touched}
        later._lots = {key: lot for key, lot in self._lots.items() if key not in touched}
        return later

    def _requested_after(
        self, arrived: list[Pod], departed: list[Pod]
    ) -> dict[str, dict[str, int]]:
        moved: dict[str, tuple[list[Pod], list[Pod]]] = {}
        for side, pods in enumerate((arrived, departed)):
            for pod in pods:
                if pod.node in self._requested and not pod.finished:
                    moved.setdefault(pod.node, ([], []))[side].append(pod)
        later = dict(self._requested)
        for node, (came, left) in moved.items():
            later[node] = requests_after(later[node], came, left)
        return later

    def __len__(self) -> int:
        return sum(map(len, self._by_name.values()))

    @cached_property
    def everyone(self) -> tuple[Pod, ...]:
        """All pods, in canonical order."""
        return tuple(sorted((p for ns in self._by_name.values() for p in ns.values()), key=by_lot))

    def named(self, namespace: str, name: str) -> Pod | None:
        """The pod of this name, if there is one."""
        pods = self._by_name.get(namespace)
        return pods.get(name) if pods else None

    def on(self, node: str) -> list[Pod]:
        """Pods bound to the node."""
        return self._by_node.get(node, _NOBODY)

    def requested(self, node: str) -> Mapping[str, int]:
        """What the unfinished pods of the node request together, in nano units."""
        used = self._requested.get(node)
        if used is None:
            active = [pod for pod in self.on(node) if pod.state.phase not in FINISHED]
            used = self._requested[node] = requested_by(active)
        return used

    @property
    def places(self) -> Iterable[str]:
        """Names of the nodes that pods are bound to; the empty name stands for none."""
        return self._by_node

    @property
    def templates(self) -> Mapping[Template, list[Pod]]:
        """Pods of each template."""
        return self._by_template

    def active_of(self, template: Template) -> list[Pod]:
        """Pods of the template that are bound to some node and have not run their course."""
        active = self._active.get(template)
        if active is None:
            active = self._active[template] = [
                pod
                for pod in self._by_template.get(template, ())
                if pod.node and pod.state.phase not in FINISHED
            ]
        return active

    def templates_matching(self, namespace: str, selector: Selector) -> list[Template]:
        """Templates of the namespace that are selected, in the order of their first pods."""
        candidates = self.namespaces.get(namespace, [])
        for wanted in selector.requirements:
            if wanted.operator == "In" and len(wanted.values) == 1:
                labelled = self._labelled(namespace, wanted.key)
                candidates = labelled.get(wanted.values[0], [])
                break
        return [template for template in candidates if selector.matches(template.labels)]

    def _labelled(self, namespace: str, key: str) -> dict[str, list[Template]]:
        values = self._by_label.get((namespace, key))
        if values is None:
            values = self._by_label[namespace, key] = {}
            for template in self.namespaces.get(namespace, ()):
                if key in template.labels:
                    values.setdefault(template.labels[key], []).append(template)
        return values

    def told(self, template: Template, ask: Callable[[Template], T]) -> T:
        """`ask(template)`, remembered as long as the template is; for what never changes."""
        answers = self.answers(ask)
        if template not in answers:
            answers[template] = ask(template)
        answer: T = answers[template]
        return answer

    def answers(self, question: Hashable) -> dict[Template, Any]:
        """A notebook of answers about templates, which later populations go on with.

        One that nobody asked for between two populations is thrown away.
        """
        answers = self._told.get(question)
        if answers is None:
            answers = self._told[question] = self._told_before.get(question, {})
        if len(answers) > 2 * len(self._by_template) + 1000:
            answers.clear()
        return answers

    @property
    def states(self) -> Mapping[State, set[Pod]]:
        """Pods in each state, in no order."""
        return self._by_state

    @cached_property
    def namespaces(self) -> Mapping[str, list[Template]]:
        """The templates of each namespace, in the order of their first pods."""
        grouped: dict[str, list[Template]] = {}
        for template in sorted(self._by_template, key=self._first):
            grouped.setdefault(template.namespace, []).append(template)
        return grouped

    def _first(self, template: Template) -> bytes:
        lot = self._lots.get(template)
        if lot is None:
            lot = self._lots[template] = by_lot(self._by_template[template][0])
        return lot

    def of_owner(self, uid: str) -> Iterator[Pod]:
        """Pods of an owner, in any phase and place."""
        for template in self.templates_of(uid):
            yield from self._by_template[template]

    def templates_of(self, uid: str) -> list[Template]:
        """Templates of an owner's pods."""
        return self._by_owner.get(uid, [])

    @cached_property
    def _by_owner(self) -> dict[str, list[Template]]:
        owned: dict[str, list[Template]] = {}
        for template in self._by_template:
            for owner in template.owners:
                owned.setdefault(owner.uid, []).append(template)
        return owned

    @cached_property
    def replicas(self) -> Mapping[str, int]:
        """Pods of each owner, by the owner's uid, in any phase and place."""
        counts: dict[str, int] = {}
        for template, pods in self._by_template.items():
            for owner in template.owners:
                counts[owner.uid] = counts.get(owner.uid, 0) + len(pods)
        return counts


def _edited(
    lists: Lists[K], arrived: list[Pod], departed: list[Pod], key: Callable[[Pod], K]
) -> Lists[K]:
    """The index with some pods taken out and others put in; lists not written to are shared."""
    later, own = dict(lists), set()
    for pods, came in ((departed, False), (arrived, True)):
        for pod in pods:
            place = key(pod)
            if place not in own:
                own.add(place)
                later[place] = list(later.get(place, ()))
            here = later[place]
            if not came and len(here) < _SHORT:
                here.remove(pod)
                continue
            at = bisect_left(here, by_lot(pod), key=by_lot)
            if came:
                here.insert(at, pod)
            else:
                del here[at]
    for place in own:
        if not later[place]:
            del later[place]
    return later


def _restated(
    sets: dict[State, set[Pod]], arrived: list[Pod], departed: list[Pod]
) -> dict[State, set[Pod]]:
    """The same for pods by state: few and large sets, each copied once if it changes."""
    later = dict(sets)
    for state in {pod.state for pod in (*arrived, *departed)}:
        later[state] = set(later.get(state, ()))
    for pod in departed:
        later[pod.state].remove(pod)
    for pod in arrived:
        later[pod.state].add(pod)
    return {state: pods for state, pods in later.items() if pods}


class _NameEditor:
    """A copy of the index by namespace and name that shares what nobody has written to."""

    def __init__(self, names: dict[str, dict[str, Pod]]) -> None:
        self.names = dict(names)
        self._own: set[str] = set()

    def pop(self, namespace: str, name: str) -> Pod | None:
        if namespace not in self.names:
            return None
        pods = self._writable(namespace)
        gone = pods.pop(name, None)
        if not pods:
            del self.names[namespace]
            self._own.discard(namespace)
        return gone

    def swap(self, pod: Pod) -> Pod | None:
        """Puts the pod in, and gives back the one it replaces."""
        pods = self._writable(pod.namespace)
        old = pods.get(pod.name)
        pods[pod.name] = pod
        return old

    def _writable(self, namespace: str) -> dict[str, Pod]:
        if namespace not in self._own:
            self._own.add(namespace)
            self.names[namespace] = dict(self.names.get(namespace, ()))
        return self.names[namespace]
