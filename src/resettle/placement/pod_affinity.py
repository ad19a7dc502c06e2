"""Pod affinity and anti-affinity, as the scheduler reads them: both ways, over whole domains.

A rule keeps other pods away from the pod that states it, and that pod away from them. So a pod is
refused by its own rules and by those of pods that are there already.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from functools import cached_property
from typing import NamedTuple

from resettle.model.constraints import PodTerm
from resettle.model.node_index import NodeSet
from resettle.model.objects import Namespace
from resettle.model.pod import Pod, Template
from resettle.model.selectors import Requirement, Selector
from resettle.placement.pod_locations import Domains, Residents, Tally


class Wish(NamedTuple):
    """A term with all that depends on who states it worked in."""

    spaces: frozenset[str]
    selector: Selector
    topology_key: str

    def means(self, template: Template) -> bool:
        """Whether it is about pods of this template."""
        return template.namespace in self.spaces and self.selector.matches(template.labels)


class Neighbours:
    """Who keeps away from whom, and who wants whom near."""

    def __init__(self, residents: Residents, namespaces: Mapping[str, Namespace]) -> None:
        self._residents = residents
        self._namespaces = namespaces
        self._kept_away: dict[Template, tuple[Wish, ...]] = {}
        self._about: dict[Template, tuple[Wish, ...]] = {}
        self._near: dict[Template, tuple[Wish, ...]] = {}

    # -- where a pod may go ---------------------------------------------------------------------

    def own_rules(self, pod: Pod) -> NodeSet:
        """Nodes where the pod's own anti-affinity would meet nobody."""
        residents, template = self._residents, pod.template
        free = residents.fleet.everyone
        for wish in self.away(template):
            if wish is None:
                return 0
            free &= ~_occupied(self.meant(wish), wish, template, residents.home(pod))
        return free

    def rules_of_others(self, pod: Pod) -> NodeSet:
        """Nodes where no other pod's anti-affinity is about this one."""
        residents, template = self._residents, pod.template
        free = residents.fleet.everyone
        for wish in self.wishes_about(template):
            free &= ~_occupied(self.holders(wish), wish, template, residents.home(pod))
        return free

    def company(self, pod: Pod) -> NodeSet:
        """Nodes where everyone is near that the pod's required affinity asks for."""
        residents, template = self._residents, pod.template
        fleet, home = residents.fleet, residents.home(pod)
        wishes = self.near(template)
        if not wishes:
            return fleet.everyone
        tally = self.meant_by_all(wishes)
        itself = tally.counts(template)
        nodes, anybody = fleet.everyone, 0
        for wish in wishes:
            domains = tally.over(wish.topology_key)
            there = domains.occupied_without(home) if itself else domains.occupied()
            nodes &= there
            anybody |= there
        if not anybody and itself:
            # The first of its kind may go anywhere that has the labels.
            nodes = fleet.everyone
            for wish in wishes:
                nodes &= fleet.having(wish.topology_key)
        return nodes

    def needed_at(self, pod: Pod) -> NodeSet:
        """Nodes where the pod stays near to those whose required affinity only it fulfils."""
        residents, home = self._residents, self._residents.home(pod)
        nodes = residents.fleet.everyone
        for wishes, holders in self._wanting.items():
            tally = self.meant_by_all(wishes)
            if not tally.counts(pod.template):
                continue
            for wish in wishes:
                domains = tally.over(wish.topology_key)
                if domains.counted_at(home) != 1:
                    continue
                relying = self._holding(("near", wishes), holders, staying_only=True)
                there = relying.over(wish.topology_key)
                if (there.counted_at(home) or 0) - (pod.template in holders) > 0:
                    nodes &= domains.around(home)
        return nodes

    def wanted(self, template: Template) -> bool:
        """Whether some pod's required affinity is about pods of the template."""
        return any(all(wish.means(template) for wish in wishes) for wishes in self._wanting)

    # -- what the rules are ---------------------------------------------------------------------

    def away(self, template: Template) -> tuple[Wish | None, ...]:
        """Whom pods of the template keep away from; None for a rule that cannot be read."""
        return tuple(self._wish(term, template, True) for term in template.spec.anti_affinity)

    def near(self, template: Template) -> tuple[Wish, ...]:
        """Whom pods of the template must have near."""
        if not template.spec.affinity:
            return ()
        wishes = self._near.get(template)
        if wishes is None:
            stated = (self._wish(term, template, False) for term in template.spec.affinity)
            wishes = self._near[template] = tuple(it or NOBODY for it in stated)
        return wishes

    def preferred_away(self, template: Template) -> Iterator[tuple[int, Wish]]:
        """Whom pods of the template would rather not be near, with weights."""
        for row in template.spec.preferred_away:
            wish = self._wish(row.term, template, True)
            if wish is not None:
                yield row.weight, wish

    def wishes_about(self, template: Template) -> tuple[Wish, ...]:
        """Anti-affinity of whoever, itself included, that is about pods of this template."""
        wishes = self._about.get(template)
        if wishes is None:
            index, space = self._keeping_away, template.namespace
            likely = list(index.get((space, "", ""), ()))
            for label in template.labels.items():
                likely += index.get((space, *label), ())
            wishes = self._about[template] = tuple(it for it in likely if it.means(template))
        return wishes

    def stated(self, *, preferred: bool) -> dict[Wish, dict[Template, None]]:
        """Each anti-affinity and the templates that state it, or prefer it where that counts."""
        if not preferred:
            return self._stating
        stating = {wish: dict(templates) for wish, templates in self._stating.items()}
        for template in self._residents.population.templates:
            for _, wish in self.preferred_away(template):
                stating.setdefault(wish, {})[template] = None
        return stating

    def templates_meant(self, wish: Wish) -> Iterator[Template]:
        """Templates of the pods a wish is about."""
        for space in sorted(wish.spaces):
            yield from self._residents.population.templates_matching(space, wish.selector)

    def meant(self, wish: Wish) -> Tally:
        """The pods a wish is about."""
        return self._residents.selected(wish.spaces, wish.selector)

    def holders(self, wish: Wish) -> Tally:
        """The pods that state an anti-affinity."""
        return self._holding(("away", wish), self._stating[wish])

    def meant_by_all(self, wishes: tuple[Wish, ...]) -> Tally:
        """The pods that all of these wishes are about: a match of one alone is none."""
        first = wishes[0]
        if all(wish[:2] == first[:2] for wish in wishes):
            return self.meant(first)
        return self._residents.tally(
            ("all", tuple(wish[:2] for wish in wishes)),
            first.spaces,
            lambda template: all(wish.means(template) for wish in wishes),
            (
                template
                for space in sorted(first.spaces)
                for template in self._residents.population.templates_matching(space, first.selector)
            ),
        )

    def _holding(
        self, key: object, templates: dict[Template, None], *, staying_only: bool = False
    ) -> Tally:
        return self._residents.tally(
            ("holding", key),
            dict.fromkeys(template.namespace for template in templates),
            templates.__contains__,
            templates,
            staying_only=staying_only,
        )

    @cached_property
    def _stating(self) -> dict[Wish, dict[Template, None]]:
        """Who states each anti-affinity."""
        stating: dict[Wish, dict[Template, None]] = {}
        for template in self._residents.population.templates:
            if template.spec.anti_affinity:
                for wish in self.away(template):
                    if wish is not None:
                        stating.setdefault(wish, {})[template] = None
        return stating

    @cached_property
    def _wanting(self) -> dict[tuple[Wish, ...], dict[Template, None]]:
        """Who states each required affinity."""
        wanting: dict[tuple[Wish, ...], dict[Template, None]] = {}
        for template in self._residents.population.templates:
            if template.spec.affinity:
                wanting.setdefault(self.near(template), {})[template] = None
        return wanting

    @cached_property
    def _keeping_away(self) -> dict[tuple[str, str, str], list[Wish]]:
        """Anti-affinity by namespace and one label it asks for, so that few need to be compared."""
        index: dict[tuple[str, str, str], list[Wish]] = {}
        for wish in self._stating:
            asked = (it for it in wish.selector.requirements if it.operator == "In")
            label = next(((it.key, it.values[0]) for it in asked if len(it.values) == 1), ("", ""))
            for space in wish.spaces:
                index.setdefault((space, *label), []).append(wish)
        return index

    def _wish(self, term: PodTerm, template: Template, unknown: bool) -> Wish | None:
        if term.selector is None:
            return None
        labels = template.labels
        more = [
            Requirement(key, operator, (labels[key],))
            for keys, operator in ((term.same_labels, "In"), (term.other_labels, "NotIn"))
            for key in keys
            if key in labels
        ]
        return Wish(
            self._spaces(term, template, unknown),
            term.selector.also(tuple(more)),
            term.topology_key,
        )

    def _spaces(self, term: PodTerm, template: Template, unknown: bool) -> frozenset[str]:
        """Namespaces a term is about; of one whose labels are not known, `unknown` is assumed."""
        selector = term.namespace_selector
        if selector is None:
            return frozenset(term.namespaces or (template.namespace,))
        chosen = set(term.namespaces)
        for space in self._all_spaces:
            known = self._namespaces.get(space)
            if known is None:
                everywhere = not selector.requirements and not selector.never
                matches = unknown or everywhere
            else:
                matches = selector.matches(known.labels)
            if matches:
                chosen.add(space)
        return frozenset(chosen)

    @cached_property
    def _all_spaces(self) -> Iterable[str]:
        return frozenset(self._residents.population.namespaces) | self._namespaces.keys()


NOBODY = Wish(frozenset(), Selector(never=True), "")


def _occupied(tally: Tally, wish: Wish, template: Template, home: str) -> NodeSet:
    """Nodes whose domain holds one of the pods counted, other than the pod asked about."""
    domains: Domains = tally.over(wish.topology_key)
    return domains.occupied_without(home) if tally.counts(template) else domains.occupied()
