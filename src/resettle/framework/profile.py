"""A profile: plugins with their arguments, in the order they serve each extension point.

Most pods pass the filters for reasons that they share with all pods of their template. A filter
that knows this beforehand (`passes_template` of `PreparedFilter`) does not check each of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Any, cast

from msgspec import Struct, structs

from resettle.framework.plugin import Filter, Plugin, PreparedFilter, SortKey, StrategyFunction
from resettle.framework.verdict import Refusal
from resettle.framework.view import View
from resettle.model.pod import Pod, Template
from resettle.policy.args import Args, ExtensionPoint


class Instance(Struct, frozen=True):
    """A plugin in a profile: one extension point of it, with its arguments."""

    plugin: Plugin
    args: Args
    point: ExtensionPoint

    @property
    def name(self) -> str:
        return self.plugin.name

    @property
    def strategy(self) -> StrategyFunction:
        """The function of a deschedule or balance plugin."""
        return cast("StrategyFunction", self.plugin.function(self.point))

    def pod_check(self, view: View) -> Callable[[Pod], Refusal | None]:
        """The filter as a function of a pod alone."""
        check = cast("Filter", self.plugin.function(self.point))
        if isinstance(check, PreparedFilter):
            return check.pod_check(self.args, view)
        return partial(check, self.args, view)

    def template_check(self, view: View) -> Callable[[Template], bool] | None:
        """Whether every pod of a template passes unless it is terminating; None if unknown."""
        check = cast("Filter", self.plugin.function(self.point))
        return check.template_check(self.args, view) if isinstance(check, PreparedFilter) else None

    def all_refusals(self, view: View, pod: Pod) -> Iterator[Refusal]:
        """All refusals of the pod by the filter, where the filter lists more than the first."""
        hook = self.plugin.refusals
        return iter(()) if hook is None else hook(self.args, view, pod, self.point)

    def sort_key(self, view: View) -> Callable[[Pod], Any]:
        """The sorter as a function of a pod alone."""
        return partial(cast("SortKey", self.plugin.function(self.point)), self.args, view)


class Profile(Struct, frozen=True, kw_only=True):
    """Instances for each extension point, in order."""

    name: str
    deschedule: tuple[Instance, ...] = ()
    balance: tuple[Instance, ...] = ()
    filters: tuple[Instance, ...] = ()
    pre_eviction_filters: tuple[Instance, ...] = ()
    presort: tuple[Instance, ...] = ()
    sort: tuple[Instance, ...] = ()
    mover: Instance | None = None
    """How its pods leave; None leaves that to the component that executes the plan."""
    controllers: tuple[Instance, ...] = ()

    def strategies(self, point: ExtensionPoint) -> tuple[Instance, ...]:
        """The instances at `deschedule` or `balance`."""
        return self.deschedule if point == ExtensionPoint.DESCHEDULE else self.balance

    @property
    def instances(self) -> tuple[Instance, ...]:
        """All instances of all extension points."""
        return (
            *self.presort,
            *self.sort,
            *self.filters,
            *self.pre_eviction_filters,
            *self.deschedule,
            *self.balance,
            *((self.mover,) if self.mover else ()),
            *self.controllers,
        )


NamedCheck = tuple[str, Callable[[Pod], Refusal | None]]
"""The name of a filter, and its check of one pod."""


class FilterChain:
    """Several filters in order, in one view."""

    def __init__(self, chain: Iterable[Instance], view: View) -> None:
        instances = list(chain)
        self.checks: list[NamedCheck] = [
            (instance.name, instance.pod_check(view)) for instance in instances
        ]
        self._template_checks = [instance.template_check(view) for instance in instances]
        self._passing: dict[Template, bool] = {}

    def refusal(self, pod: Pod) -> Refusal | None:
        """The refusal of the first filter that refuses the pod, with the name of the filter."""
        template = pod.template
        passes = self._passing.get(template)
        if passes is None:
            passes = self._passing[template] = self._passes(template)
        return None if passes and not pod.terminating else first_refusal(self.checks, pod)

    def _passes(self, template: Template) -> bool:
        """Whether all filters know that pods of the template pass."""
        try:
            return all(check is not None and check(template) for check in self._template_checks)
        except Exception:
            return False  # each pod is checked, and refused if that fails too


class ProfileFilters:
    """The filter chains of a profile: filters alone, and with the pre-eviction filters."""

    def __init__(self, profile: Profile, view: View) -> None:
        self.filters = FilterChain(profile.filters, view)
        self.all = FilterChain((*profile.filters, *profile.pre_eviction_filters), view)


def first_refusal(checks: Iterable[NamedCheck], pod: Pod) -> Refusal | None:
    """The refusal of the first check that refuses the pod, with the name of its filter."""
    name = ""
    try:
        for name, check in checks:
            refusal = check(pod)
            if refusal is not None:
                return refusal if refusal.by else structs.replace(refusal, by=name)
    except Exception as error:
        # A filter that cannot answer refuses the pod.
        facts = {"guard": name, "error": f"{type(error).__name__}: {error}"}
        return Refusal("guard-failed", "could not answer: {error}", name, facts, subject="{guard}")
    return None
