"""Everything that could be different so that a refused pod moves.

Limits and disruption budgets are in `limit_settings`; the settings of filters and the properties
of nodes are here.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Iterator
from functools import partial
from itertools import islice
from typing import Any

from msgspec import structs

from resettle.explain.limit_settings import budget_options, limit_options
from resettle.explain.what_if import ChangeOption, PlanInputs
from resettle.framework.plan import Proposal
from resettle.framework.plugin import ChangeScope, Setting
from resettle.framework.profile import Instance, Profile
from resettle.framework.verdict import Refusal
from resettle.model.changes import Change, Changes
from resettle.model.objects import Node
from resettle.model.pod import Pod
from resettle.model.resources import NANO, format_amount, in_resource_unit
from resettle.placement.diagnosis import NodeRejection, Shortage
from resettle.policy.args import Args

NODE_CODES = frozenset({"no-node-fits", "no-better-node", "would-break"})
"""Codes of the refusals that a change to a node can lift."""
CORDON = "node.kubernetes.io/unschedulable"
MOST_CORDONED = 3
_MILLI = NANO // 1000


def options_for(inputs: PlanInputs, pod: Pod, proposals: Iterable[Proposal]) -> list[ChangeOption]:
    """Options that can lift one of the refusals, the one of smallest scope first."""
    proposals = list(proposals)
    refusals = [refusal for proposal in proposals for refusal in proposal.refusals]
    codes = {refusal.code for refusal in refusals}
    profiles = {proposal.profile for proposal in proposals}
    options = {
        option.key: option
        for option in all_options(inputs, pod, profiles, refusals)
        if option.values and option.lifts & codes
    }
    return sorted(options.values(), key=lambda option: option.scope)


def all_options(
    inputs: PlanInputs, pod: Pod, profiles: Container[str], refusals: Iterable[Refusal]
) -> Iterator[ChangeOption]:
    """All options: limits, budgets, nodes, and settings of the filters of these profiles."""
    yield from limit_options(inputs, pod)
    yield from budget_options(inputs, pod)
    for refusal in refusals:
        yield from node_options(inputs, refusal)
    for profile in inputs.descheduler.profiles:
        if profile.name in profiles:
            yield from filter_options(inputs, profile, pod)


# -- filters --------------------------------------------------------------------------------------


def filter_options(inputs: PlanInputs, profile: Profile, pod: Pod) -> Iterator[ChangeOption]:
    """The settings that the filters of a profile name."""
    descheduler = inputs.descheduler
    view = descheduler.view(inputs.snapshot)
    several = len(descheduler.profiles) > 1
    filters = (*profile.filters, *profile.pre_eviction_filters)
    for instance in {instance.name: instance for instance in filters}.values():
        for setting in instance.plugin.settings(instance.args, view, pod):
            yield _filter_option(setting, profile.name, instance.name, several=several)


def _filter_option(setting: Setting, profile: str, plugin: str, *, several: bool) -> ChangeOption:
    def says(value: Any) -> str:
        return f"{setting.describe(value)}{f' in profile {profile}' if several else ''}"

    return ChangeOption(
        name=setting.key,
        where=f"profile {profile}",
        current=setting.current,
        values=setting.values,
        apply=lambda inputs, value: _with_args(
            inputs, profile, plugin, lambda args: setting.apply(args, value)
        ),
        describe=says,
        lifts=setting.lifts,
        scope=setting.scope,
    )


def _with_args(
    inputs: PlanInputs, profile: str, plugin: str, change: Callable[[Args], Args]
) -> PlanInputs:
    """The inputs with the arguments of one filter changed at both points of the profile."""
    known: dict[int, Args] = {}

    def change_all(instances: tuple[Instance, ...]) -> tuple[Instance, ...]:
        # Several extension points share one set of arguments, and keep sharing it.
        return tuple(
            structs.replace(
                instance, args=known.setdefault(id(instance.args), change(instance.args))
            )
            if instance.name == plugin
            else instance
            for instance in instances
        )

    descheduler = inputs.descheduler
    profiles = tuple(
        structs.replace(
            current,
            filters=change_all(current.filters),
            pre_eviction_filters=change_all(current.pre_eviction_filters),
        )
        if current.name == profile
        else current
        for current in descheduler.profiles
    )
    return inputs._replace(descheduler=structs.replace(descheduler, profiles=profiles))


# -- nodes ----------------------------------------------------------------------------------------


def node_options(inputs: PlanInputs, refusal: Refusal) -> Iterator[ChangeOption]:
    """Cordoned nodes uncordoned, and the node that lacks the least of one resource made larger."""
    grounds: list[NodeRejection] = refusal.facts.get("ruled_out", [])
    shortages: list[Shortage] = refusal.facts.get("short", [])
    node_index = inputs.snapshot.node_index
    for ground in grounds:
        if ground.code == "cordoned":
            for node in islice(node_index.members(ground.nodes), MOST_CORDONED):
                yield _uncordon_option(node)
    for short in shortages:
        if node_short := node_index.get(short.node):
            yield _enlarge_option(node_short, short)


def _uncordon_option(node: Node) -> ChangeOption:
    return ChangeOption(
        name="unschedulable",
        where=f"node {node.name}",
        current=True,
        values=(False,),
        apply=partial(_uncordon, node.name),
        describe=lambda _: f"{node.name} were not cordoned",
        lifts=NODE_CODES,
        scope=ChangeScope.NODE,
    )


def _uncordon(name: str, inputs: PlanInputs, _: Any) -> PlanInputs:
    """The node schedulable, without the taint that Kubernetes gives to a cordoned node."""
    node = inputs.snapshot.node_index.get(name)
    if node is None:
        return inputs
    taints = tuple(taint for taint in node.taints if taint.key != CORDON)
    return _with_node(inputs, structs.replace(node, unschedulable=False, taints=taints))


def _enlarge_option(node: Node, short: Shortage) -> ChangeOption:
    offer = in_resource_unit(short.resource, node.allocatable.get(short.resource, 0))
    return ChangeOption(
        name=f"allocatable.{short.resource}",
        where=f"node {node.name}",
        current=offer,
        values=tuple(offer + more for more in (short.amount - 1, short.amount) if more),
        apply=partial(_enlarge, node.name, short.resource),
        describe=lambda amount: _more(node.name, short.resource, amount - offer),
        lifts=NODE_CODES,
        scope=ChangeScope.NODE,
    )


def _enlarge(name: str, resource: str, inputs: PlanInputs, amount: int) -> PlanInputs:
    node = inputs.snapshot.node_index.get(name)
    if node is None:
        return inputs
    unit = _MILLI if resource == "cpu" else NANO
    offer = {**node.allocatable, resource: amount * unit}
    return _with_node(inputs, structs.replace(node, allocatable=offer))


def _more(name: str, resource: str, amount: int) -> str:
    if resource == "pods":
        return f"{name} took {'one more pod' if amount == 1 else f'{amount} more pods'}"
    return f"{name} had {format_amount(resource, amount)} more {resource}"


def _with_node(inputs: PlanInputs, node: Node) -> PlanInputs:
    changes = Changes(at=inputs.snapshot.taken_at, nodes=Change(put=(node,)))
    return inputs._replace(snapshot=inputs.snapshot.next(changes))
