"""A profile: plugins with their arguments, in the order they serve each extension point."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

from msgspec import Struct

from resettle.framework.plugin import Guard, Plugin, PreparedGuard, SortKey, Sweep
from resettle.framework.verdict import Refusal
from resettle.framework.view import View
from resettle.model.pod import Pod, Template
from resettle.policy.args import Args


class Instance(Struct, frozen=True):
    """A plugin at work: one function of it, bound to its arguments."""

    plugin: Plugin
    args: Args
    point: str

    @property
    def name(self) -> str:
        return self.plugin.name

    @property
    def sweep(self) -> Sweep:
        """The function of a deschedule or balance plugin."""
        function: Sweep = getattr(self.plugin, self.point)
        return function

    def guarding(self, view: View) -> Callable[[Pod], Refusal | None]:
        """The filter as a question about a pod alone."""
        guard: Guard = getattr(self.plugin, self.point)
        if isinstance(guard, PreparedGuard):
            return guard.bound(self.args, view)
        return partial(guard, self.args, view)

    def letting_go(self, view: View) -> Callable[[Template], bool] | None:
        """Of which templates the filter lets every pod go that is not terminating, if it knows."""
        guard: Guard = getattr(self.plugin, self.point)
        return guard.letting_go(self.args, view) if isinstance(guard, PreparedGuard) else None

    def all_refusals(self, view: View, pod: Pod) -> Iterator[Refusal]:
        """All that the guard has against the pod, as far as it can tell more than the first."""
        hook = self.plugin.refusals
        return iter(()) if hook is None else hook(self.args, view, pod, self.point)

    def key(self, view: View, pod: Pod) -> Any:
        """What a sorter orders the pod by."""
        sorter: SortKey = getattr(self.plugin, self.point)
        return sorter(self.args, view, pod)


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
