"""All pods of a snapshot, found by name, node, template, state or owner.

Strategies use these indexes instead of a loop over all pods: which pods restart too often is
answered by a few dozen states, which pods violate a constraint by the templates that have one. The
next index is made from the last: what did not change is shared, not copied.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from functools import cached_property
from typing import Any, Self, TypeVar

from resettle.model.changes import Change
from resettle.model.pod import FINISHED, Pod, State, Template, by_name_hash
from resettle.model.resources import requested_by, requests_after
from resettle.model.selectors import Selector

K = TypeVar("K", bound=Hashable)
T = TypeVar("T")
Lists = dict[K, list[Pod]]
_NO_PODS: list[Pod] = []
_FEW = 1000
"""Up to this many changes are entered one by one; for many more a new sort is faster."""
_SHORT = 200
"""In a list of fewer pods a linear search is faster than hashing names."""


class ByIdentity:
    """An object as a dictionary key that is compared by identity."""

    __slots__ = ("_object",)

    def __init__(self, obj: object) -> None:
        self._object = obj

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ByIdentity) and other._object is self._object

    def __hash__(self) -> int:
        return id(self._object)


class PodIndex:
    """Pods in canonical order, and the indexes over them."""

    def __init__(self, pods: Iterable[Pod] = ()) -> None:
        self._requests: dict[str, dict[str, int]] = {}
        self._active: dict[Template, list[Pod]] = {}
        self._template_caches: dict[Hashable, dict[Template, Any]] = {}
        self._earlier_template_caches: dict[Hashable, dict[Template, Any]] = {}
        self._by_label: dict[tuple[str, str], dict[str, list[Template]]] = {}
        self._first_hashes: dict[Template, bytes] = {}
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
        """An index of these pods, sorted into canonical order."""
        return cls(sorted(pods, key=by_name_hash))

    def after(self, change: Change[Pod]) -> PodIndex:
        """The index with some pods added or replaced and others removed."""
        if not self._by_name:
            first = PodIndex.of(change.put)
            if len(first) == len(change.put):
                return first
        if not self._by_name:
            return PodIndex.of({pod.key: pod for pod in change.put}.values())
        by_name = _NameEditor(self._by_name)
        replaced = [by_name.pop(*key.split("/", 1)) for key in sorted(change.gone)]
        arrived = list({pod.key: pod for pod in change.put}.values())
        replaced += [by_name.swap(pod) for pod in arrived]
        departed = [pod for pod in replaced if pod is not None]
        if len(arrived) + len(departed) > max(_FEW, len(self) // 2):
            later = PodIndex.of(pod for pods in by_name.names.values() for pod in pods.values())
        else:
            later = self._with_edits(by_name.names, arrived, departed)
        later._earlier_template_caches = self._template_caches or self._earlier_template_caches
        return later

    def since(self, earlier: PodIndex) -> Change[Pod]:
        """The difference to an earlier index; namespaces that both share are skipped."""
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

    def _with_edits(
        self, names: dict[str, dict[str, Pod]], arrived: list[Pod], departed: list[Pod]
    ) -> PodIndex:
        later = PodIndex()
        later._by_name = names
        later._by_node = _edit_lists(self._by_node, arrived, departed, lambda pod: pod.node)
        later._by_template = _edit_lists(
            self._by_template, arrived, departed, lambda pod: pod.template
        )
        later._by_state = _edit_sets(self._by_state, arrived, departed)
        later._requests = self._requests_after(arrived, departed)
        touched = {pod.template for pod in (*arrived, *departed)}
        # Other threads may still read this index, and fill in what it works out on demand.
        later._active = _without(self._active, touched)
        later._first_hashes = _without(self._first_hashes, touched)
        return later

    def _requests_after(self, arrived: list[Pod], departed: list[Pod]) -> dict[str, dict[str, int]]:
        moved: dict[str, tuple[list[Pod], list[Pod]]] = {}
        later = self._requests.copy()  # first, since another thread may add a node meanwhile
        for side, pods in enumerate((arrived, departed)):
            for pod in pods:
                if pod.node in later and not pod.finished:
                    moved.setdefault(pod.node, ([], []))[side].append(pod)
        for node, (came, left) in moved.items():
            later[node] = requests_after(later[node], came, left)
        return later

    def __len__(self) -> int:
        return sum(map(len, self._by_name.values()))

    @cached_property
    def all_pods(self) -> tuple[Pod, ...]:
        """All pods, in canonical order."""
        return tuple(
            sorted((p for ns in self._by_name.values() for p in ns.values()), key=by_name_hash)
        )

    def get(self, namespace: str, name: str) -> Pod | None:
        """The pod of this name, if there is one."""
        pods = self._by_name.get(namespace)
        return pods.get(name) if pods else None

    def on(self, node: str) -> list[Pod]:
        """Pods bound to the node."""
        return self._by_node.get(node, _NO_PODS)

    def requests_on(self, node: str) -> Mapping[str, int]:
        """Total requests of the node's unfinished pods, in nano units."""
        used = self._requests.get(node)
        if used is None:
            active = [pod for pod in self.on(node) if pod.state.phase not in FINISHED]
            used = self._requests[node] = requested_by(active)
        return used

    @property
    def node_names(self) -> Iterable[str]:
        """Names of the nodes that pods are bound to; empty for pods without a node."""
        return self._by_node

    @property
    def templates(self) -> Mapping[Template, list[Pod]]:
        """Pods of each template."""
        return self._by_template

    def active_of(self, template: Template) -> list[Pod]:
        """Pods of the template that are bound to a node and not finished."""
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
        for requirement in selector.requirements:
            if requirement.operator == "In" and len(requirement.values) == 1:
                by_value = self._templates_by_label(namespace, requirement.key)
                candidates = by_value.get(requirement.values[0], [])
                break
        return [template for template in candidates if selector.matches(template.labels)]

    def _templates_by_label(self, namespace: str, key: str) -> dict[str, list[Template]]:
        values = self._by_label.get((namespace, key))
        if values is None:
            values = {}
            for template in self.namespaces.get(namespace, ()):
                if key in template.labels:
                    values.setdefault(template.labels[key], []).append(template)
            self._by_label[namespace, key] = values
        return values

    def cached_per_template(self, template: Template, ask: Callable[[Template], T]) -> T:
        """`ask(template)`, computed once for each template; for results that never change."""
        cache = self.template_cache(ask)
        if template not in cache:
            cache[template] = ask(template)
        answer: T = cache[template]
        return answer

    def template_cache(self, key: Hashable) -> dict[Template, Any]:
        """A cache of results by template, which later indexes take over.

        A cache that was not used since the last index is dropped.
        """
        cache = self._template_caches.get(key)
        if cache is None:
            cache = self._template_caches[key] = self._earlier_template_caches.get(key, {})
        if len(cache) > 2 * len(self._by_template) + 1000:
            # Not cleared: another thread may be about to read what it has just put there.
            cache = self._template_caches[key] = {}
        return cache

    @property
    def states(self) -> Mapping[State, set[Pod]]:
        """Pods in each state, in no order."""
        return self._by_state

    @cached_property
    def namespaces(self) -> Mapping[str, list[Template]]:
        """The templates of each namespace, in the order of their first pods."""
        grouped: dict[str, list[Template]] = {}
        for template in sorted(self._by_template, key=self._first_hash):
            grouped.setdefault(template.namespace, []).append(template)
        return grouped

    def _first_hash(self, template: Template) -> bytes:
        name_hash = self._first_hashes.get(template)
        if name_hash is None:
            name_hash = self._first_hashes[template] = by_name_hash(self._by_template[template][0])
        return name_hash

    def of_owner(self, uid: str) -> Iterator[Pod]:
        """Pods of an owner, in any phase and on any node."""
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
        """Number of pods by owner uid, in any phase and on any node."""
        counts: dict[str, int] = {}
        for template, pods in self._by_template.items():
            for owner in template.owners:
                counts[owner.uid] = counts.get(owner.uid, 0) + len(pods)
        return counts


def _without(answers: dict[Template, T], templates: set[Template]) -> dict[Template, T]:
    """A copy of the answers by template, without those of some templates."""
    return {key: answer for key, answer in answers.copy().items() if key not in templates}


def _edit_lists(
    lists: Lists[K], arrived: list[Pod], departed: list[Pod], key: Callable[[Pod], K]
) -> Lists[K]:
    """The index with some pods removed and others added; unchanged lists are shared."""
    later, copied = dict(lists), set()
    for pods, came in ((departed, False), (arrived, True)):
        for pod in pods:
            at_key = key(pod)
            if at_key not in copied:
                copied.add(at_key)
                later[at_key] = list(later.get(at_key, ()))
            here = later[at_key]
            if not came and len(here) < _SHORT:
                here.remove(pod)
                continue
            at = bisect_left(here, by_name_hash(pod), key=by_name_hash)
            if came:
                here.insert(at, pod)
            else:
                del here[at]
    for at_key in copied:
        if not later[at_key]:
            del later[at_key]
    return later


def _edit_sets(
    sets: dict[State, set[Pod]], arrived: list[Pod], departed: list[Pod]
) -> dict[State, set[Pod]]:
    """Pods by state with some removed and others added: large sets, copied once if changed."""
    later = dict(sets)
    for state in {pod.state for pod in (*arrived, *departed)}:
        later[state] = set(later.get(state, ()))
    for pod in departed:
        later[pod.state].remove(pod)
    for pod in arrived:
        later[pod.state].add(pod)
    return {state: pods for state, pods in later.items() if pods}


class _NameEditor:
    """A copy-on-write copy of the index by namespace and name."""

    def __init__(self, names: dict[str, dict[str, Pod]]) -> None:
        self.names = dict(names)
        self._copied: set[str] = set()

    def pop(self, namespace: str, name: str) -> Pod | None:
        if namespace not in self.names:
            return None
        pods = self._writable(namespace)
        gone = pods.pop(name, None)
        if not pods:
            del self.names[namespace]
            self._copied.discard(namespace)
        return gone

    def swap(self, pod: Pod) -> Pod | None:
        """Add the pod, and return the one that it replaces."""
        pods = self._writable(pod.namespace)
        old = pods.get(pod.name)
        pods[pod.name] = pod
        return old

    def _writable(self, namespace: str) -> dict[str, Pod]:
        if namespace not in self._copied:
            self._copied.add(namespace)
            self.names[namespace] = dict(self.names.get(namespace, ()))
        return self.names[namespace]
