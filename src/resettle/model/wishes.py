"""Where pods want to be, from the wire to the model: selectors, affinity terms, spread."""

from __future__ import annotations

import msgspec
from msgspec import Struct

from resettle.model import wire
from resettle.model.affinity import (
    NodeTerm,
    PodTerm,
    PreferredPodTerm,
    PreferredTerm,
    SpreadConstraint,
)
from resettle.model.selector import NOTHING, Expression, LabelSelector, Requirement, Selector
from resettle.model.taint import Toleration

_affinity = msgspec.json.Decoder(wire.Affinity | None)
_tolerations = msgspec.json.Decoder(list[wire.TolerationItem] | None)
_spread = msgspec.json.Decoder(list[wire.SpreadItem] | None)


class Wishes(Struct, frozen=True):
    """What an affinity says."""

    nodes: tuple[NodeTerm, ...] | None = None
    """Where alone the pod may be; None if it does not say."""
    speaks_of_nodes: bool = False
    preferred_nodes: tuple[PreferredTerm, ...] = ()
    near: tuple[PodTerm, ...] = ()
    away: tuple[PodTerm, ...] = ()
    preferred_away: tuple[PreferredPodTerm, ...] = ()


def wishes_of(raw: bytes) -> Wishes:
    """What an affinity says, undecoded or not there as it may be."""
    told = _affinity.decode(raw) if raw else None
    if told is None:
        return _NO_WISHES
    nodes, near, away = told.node_affinity, told.pod_affinity, told.pod_anti_affinity
    required = nodes.required if nodes else None
    return Wishes(
        None if required is None else tuple(map(node_term_of, required.node_selector_terms or ())),
        nodes is not None,
        tuple(
            PreferredTerm(row.weight, node_term_of(row.preference))
            for row in (nodes.preferred if nodes else None) or ()
        ),
        tuple(map(pod_term_of, (near.required if near else None) or ())),
        tuple(map(pod_term_of, (away.required if away else None) or ())),
        tuple(
            PreferredPodTerm(row.weight, pod_term_of(row.pod_affinity_term))
            for row in (away.preferred if away else None) or ()
        ),
    )


_NO_WISHES = Wishes()


def tolerations_of(raw: bytes) -> tuple[Toleration, ...]:
    """The tolerations that these bytes write down."""
    return tuple(
        Toleration(t.key or "", t.operator or "", t.value or "", t.effect or "")
        for t in (_tolerations.decode(raw) if raw else None) or ()
    )


def spread_of(raw: bytes) -> tuple[SpreadConstraint, ...]:
    """The topology spread constraints that these bytes write down."""
    return tuple(map(_spread_constraint, (_spread.decode(raw) if raw else None) or ()))


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


def _spread_constraint(item: wire.SpreadItem) -> SpreadConstraint:
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
