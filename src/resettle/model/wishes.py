"""Where pods want to be, from the wire to the model: selectors, affinity terms, spread."""

from __future__ import annotations

from resettle.model import wire
from resettle.model.affinity import NodeTerm, PodTerm, SpreadConstraint
from resettle.model.selector import NOTHING, Expression, LabelSelector, Requirement, Selector


def _requirement(row: Expression) -> Requirement:
    return Requirement(row.key, row.operator, row.values)


def node_term_of(term: wire.SelectorTerm) -> NodeTerm:
    """One alternative of a node affinity."""
    return NodeTerm(
        tuple(map(_requirement, term.match_expressions or ())),
        tuple(map(_requirement, term.match_fields or ())),
    )


def selector_of(selector: wire.LabelSelectorObject | None) -> Selector | None:
    """The selector compiled: `NOTHING` where it is absent, None where it cannot be read."""
    if selector is None:
        return NOTHING
    return LabelSelector(
        match_labels=selector.match_labels or {},
        match_expressions=tuple(selector.match_expressions or ()),
    ).compiled()


def pod_term_of(term: wire.PodAffinityTerm) -> PodTerm:
    """A term of a pod affinity or anti-affinity."""
    spaces = term.namespace_selector
    return PodTerm(
        term.topology_key,
        selector_of(term.label_selector),
        tuple(term.namespaces or ()),
        None if spaces is None else selector_of(spaces),
        tuple(term.match_label_keys or ()),
        tuple(term.mismatch_label_keys or ()),
    )


def spread_constraint_of(item: wire.SpreadItem) -> SpreadConstraint:
    """A topology spread constraint."""
    return SpreadConstraint(
        max_skew=item.max_skew,
        topology_key=item.topology_key,
        when_unsatisfiable=item.when_unsatisfiable,
        selector=selector_of(item.label_selector),
        match_label_keys=tuple(item.match_label_keys or ()),
        node_affinity_policy=item.node_affinity_policy or "Honor",
        node_taints_policy=item.node_taints_policy or "Ignore",
        min_domains=item.min_domains or 1,
    )
