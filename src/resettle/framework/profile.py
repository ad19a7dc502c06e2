"""Guards in a row: what the first one that refuses says, and who need not be asked about at all.

Most pods are let go for reasons that they share with all pods of their template. A guard that can
tell so beforehand (`PreparedGuard.lets_go`) is not asked about each of them.

A profile: plugins with their arguments, in the order they serve each extension point.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Any, cast

from msgspec import Struct, structs

from resettle.framework.plugin import Guard, Plugin, PreparedGuard, SortKey, Sweep
from resettle.framework.verdict import Refusal
from resettle.framework.view import View
from resettle.model.pod import Pod, Template
from resettle.policy.args import Args, ExtensionPoint


class Instance(Struct, frozen=True):
    """A plugin at work: one function of it, bound to its arguments."""

    plugin: Plugin
    args: Args
    point: ExtensionPoint

    @property
    def name(self) -> str:
        return self.plugin.name

    @property
    def sweep(self) -> Sweep:
        """The function of a deschedule or balance plugin."""
        return cast("Sweep", self.plugin.function(self.point))

    def guarding(self, view: View) -> Callable[[Pod], Refusal | None]:
        """The filter as a question about a pod alone."""
        guard = cast("Guard", self.plugin.function(self.point))
        if isinstance(guard, PreparedGuard):
            return guard.bound(self.args, view)
        return partial(guard, self.args, view)

    def letting_go(self, view: View) -> Callable[[Template], bool] | None:
        """Of which templates the filter lets every pod go that is not terminating, if it knows."""
        guard = cast("Guard", self.plugin.function(self.point))
        return guard.letting_go(self.args, view) if isinstance(guard, PreparedGuard) else None

    def all_refusals(self, view: View, pod: Pod) -> Iterator[Refusal]:
        """All that the guard has against the pod, as far as it can tell more than the first."""
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
    """How its pods leave; None leaves that to whoever carries the plan out."""

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
        )


Asked = tuple[str, Callable[[Pod], Refusal | None]]
"""A guard's name, and its question about a pod."""


class Guards:
    """A chain of guards in one view."""

    def __init__(self, chain: Iterable[Instance], view: View) -> None:
        instances = list(chain)
        self.asked: list[Asked] = [(it.name, it.guarding(view)) for it in instances]
        self._easy = [it.letting_go(view) for it in instances]
        self._lets_go: dict[Template, bool] = {}

    def refusal(self, pod: Pod) -> Refusal | None:
        """What the first guard to refuse the pod says, signed with its name."""
        template = pod.template
        free = self._lets_go.get(template)
        if free is None:
            free = self._lets_go[template] = self._frees(template)
        return None if free and not pod.terminating else first_refusal(self.asked, pod)

    def _frees(self, template: Template) -> bool:
        """Whether no guard has anything against pods of the template, as far as they can tell."""
        try:
            return all(lets_go is not None and lets_go(template) for lets_go in self._easy)
        except Exception:
            return False  # each pod is asked about, and refused if that fails too


class Chains:
    """The guards of a profile: those of the filters, and those and the pre-eviction filters."""

    def __init__(self, profile: Profile, view: View) -> None:
        self.filters = Guards(profile.filters, view)
        self.all = Guards((*profile.filters, *profile.pre_eviction_filters), view)


def first_refusal(asked: Iterable[Asked], pod: Pod) -> Refusal | None:
    """What the first of these guards to refuse says, signed with its name."""
    name = ""
    try:
        for name, ask in asked:
            said = ask(pod)
            if said is not None:
                return said if said.by else structs.replace(said, by=name)
    except Exception as error:
        # Unknown denies: a guard that cannot answer lets nothing go.
        facts = {"guard": name, "error": f"{type(error).__name__}: {error}"}
        return Refusal("guard-failed", "could not answer: {error}", name, facts, subject="{guard}")
    return None
