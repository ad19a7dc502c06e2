"""All pods of a snapshot, found by name, node, template, state or owner.

Strategies ask these indexes rather than walk all pods: who restarts too often is a question to a
few dozen states, who breaks a rule of its own one to the templates that have such a rule. The next
population is made from the last: what did not change is shared, not copied.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Hashable, Iterable, Mapping
from functools import cached_property
from typing import Generic, Self, TypeVar

from resettle.model.pod import Pod, State, Template, by_lot

K = TypeVar("K", bound=Hashable)
Lists = dict[K, list[Pod]]
_NOBODY: list[Pod] = []


class Population:
    """Pods in canonical order, and the indexes over them."""

    def __init__(self, pods: Iterable[Pod] = ()) -> None:
        self._by_name: dict[str, dict[str, Pod]] = {}
        self._by_node: Lists[str] = {}
        self._by_template: Lists[Template] = {}
        self._by_state: Lists[State] = {}
        for pod in pods:
            template = pod.template
            self._by_name.setdefault(template.namespace, {})[pod.name] = pod
            self._by_node.setdefault(pod.node, []).append(pod)
            self._by_template.setdefault(template, []).append(pod)
            self._by_state.setdefault(pod.state, []).append(pod)

    @classmethod
    def of(cls, pods: Iterable[Pod]) -> Self:
        """These pods, in canonical order whatever theirs was."""
        return cls(sorted(pods, key=by_lot))

    def after(self, put: Iterable[Pod], gone: Iterable[tuple[str, str]]) -> Population:
        """The population once these pods have come or changed, and those are gone."""
        later = Population()
        by_name = _NameEditor(self._by_name)
        by_node, by_template = _Editor(self._by_node), _Editor(self._by_template)
        by_state = _Editor(self._by_state)
        replaced = [by_name.pop(*name) for name in gone]
        arrived = list({(pod.namespace, pod.name): pod for pod in put}.values())
        replaced += [by_name.swap(pod) for pod in arrived]
        for old in filter(None, replaced):
            by_node.remove(old.node, old)
            by_template.remove(old.template, old)
            by_state.remove(old.state, old)
        for pod in arrived:
            by_node.insert(pod.node, pod)
            by_template.insert(pod.template, pod)
            by_state.insert(pod.state, pod)
        later._by_name, later._by_node = by_name.names, by_node.lists
        later._by_template, later._by_state = by_template.lists, by_state.lists
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

    @property
    def places(self) -> Iterable[str]:
        """Names of the nodes that pods are bound to; the empty name stands for none."""
        return self._by_node

    @property
    def templates(self) -> Mapping[Template, list[Pod]]:
        """Pods of each template."""
        return self._by_template

    @property
    def states(self) -> Mapping[State, list[Pod]]:
        """Pods in each state."""
        return self._by_state

    @cached_property
    def namespaces(self) -> Mapping[str, list[Template]]:
        """The templates of each namespace, in the order of their first pods."""
        grouped: dict[str, list[Template]] = {}
        for template in sorted(self._by_template, key=self._first):
            grouped.setdefault(template.namespace, []).append(template)
        return grouped

    def _first(self, template: Template) -> bytes:
        return by_lot(self._by_template[template][0])

    @cached_property
    def replicas(self) -> Mapping[str, int]:
        """Pods of each owner, by the owner's uid, in any phase and place."""
        counts: dict[str, int] = {}
        for template, pods in self._by_template.items():
            for owner in template.owners:
                counts[owner.uid] = counts.get(owner.uid, 0) + len(pods)
        return counts


class _Editor(Generic[K]):
    """A copy of an index that shares every list nobody has written to."""

    def __init__(self, lists: Lists[K]) -> None:
        self.lists = dict(lists)
        self._own: set[K] = set()

    def insert(self, key: K, pod: Pod) -> None:
        pods = self._writable(key)
        pods.insert(bisect_left(pods, by_lot(pod), key=by_lot), pod)

    def remove(self, key: K, pod: Pod) -> None:
        pods = self._writable(key)
        at = bisect_left(pods, by_lot(pod), key=by_lot)
        del pods[at]
        if not pods:
            del self.lists[key]
            self._own.discard(key)

    def _writable(self, key: K) -> list[Pod]:
        if key not in self._own:
            self._own.add(key)
            self.lists[key] = list(self.lists.get(key, ()))
        return self.lists[key]


class _NameEditor:
    """The same for the index by namespace and name."""

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
