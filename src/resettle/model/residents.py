"""Who lives where, once the plan so far is carried out.

Counts of pods are made when somebody asks for them and kept true from then on: a pod that moves is
counted at the node its replacement will likely land on.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator

from resettle.model.domains import Tally
from resettle.model.fleet import Fleet
from resettle.model.pod import Pod, Template
from resettle.model.population import Population
from resettle.model.selector import Selector


class Residents:
    """The pods of a population at their nodes of today, but for those that have been moved."""

    def __init__(
        self, population: Population, fleet: Fleet, moving: frozenset[str] = frozenset()
    ) -> None:
        self.population = population
        self.fleet = fleet
        self._moving = moving
        self._moved: dict[Pod, str] = {}
        self._known: dict[Hashable, Tally] = {}
        self._tallies: dict[str, list[Tally]] = {}
        self._about: dict[Template, tuple[int, list[Tally]]] = {}

    def staying(self, pod: Pod) -> bool:
        """Whether nobody but this plan has sent the pod away."""
        return not pod.terminating and pod.uid not in self._moving

    def home(self, pod: Pod) -> str:
        """The node a pod is on, or will be."""
        return self._moved.get(pod) or pod.node

    def moved(self, pod: Pod) -> bool:
        """Whether the pod has a replacement by now."""
        return pod in self._moved

    def move(self, pod: Pod, target: str, *, back: bool = False) -> None:
        """Counts a pod's replacement on its new node, or the pod back on its own."""
        source = self.home(pod)
        if back:
            del self._moved[pod]
        else:
            self._moved[pod] = target
        for tally in self._tallies_about(pod.template):
            if not tally.staying_only or self.staying(pod):
                tally.shift(source, target)

    def tally(
        self,
        key: Hashable,
        spaces: Iterable[str],
        counts: Callable[[Template], bool],
        candidates: Iterable[Template],
        *,
        staying_only: bool = False,
    ) -> Tally:
        """The count of pods that `counts` admits; `candidates` holds all their templates."""
        tally = self._known.get(key)
        if tally is None:
            places = self._places(filter(counts, candidates), staying_only)
            tally = self._known[key] = Tally(counts, places, self.fleet, staying_only)
            for space in spaces:
                self._tallies.setdefault(space, []).append(tally)
        return tally

    def of_owner(self, uid: str, namespace: str) -> Tally:
        """The count of pods that an owner made."""
        return self.tally(
            ("owner", uid),
            (namespace,),
            lambda it: any(owner.uid == uid for owner in it.owners),
            self.population.templates_of(uid),
        )

    def selected(
        self, spaces: frozenset[str], selector: Selector, *, staying_only: bool = False
    ) -> Tally:
        """The count of pods that a selector selects in some namespaces."""
        return self.tally(
            (spaces, selector, staying_only),
            spaces,
            lambda it: it.namespace in spaces and selector.matches(it.labels),
            (
                template
                for space in sorted(spaces)
                for template in self.population.templates_matching(space, selector)
            ),
            staying_only=staying_only,
        )

    def _places(self, templates: Iterable[Template], staying_only: bool) -> Iterator[str]:
        moved = self._moved
        for template in templates:
            for pod in self.population.active_of(template):
                if not staying_only or self.staying(pod):
                    yield moved.get(pod) or pod.node

    def _tallies_about(self, template: Template) -> list[Tally]:
        """Counts that such a pod is part of; those made since last time are looked at now."""
        tallies = self._tallies.get(template.namespace, [])
        seen, about = self._about.get(template, (0, []))
        if seen < len(tallies):
            about = about + [tally for tally in tallies[seen:] if tally.counts(template)]
            self._about[template] = (len(tallies), about)
        return about
