"""A setting that could be turned so that a pod goes, from the least change to the greatest.

A guard that refuses a pod may name the settings behind its refusal. Nobody takes its word for it:
every value that is offered to an operator has been tried on the whole plan.

What a plugin is: a name, its arguments, and a function for each extension point it serves.

| extension point     | function                                   | answers                       |
|---------------------|--------------------------------------------|-------------------------------|
| `deschedule`        | `(args, view, draft)`                      | proposes pods to the draft    |
| `balance`           | `(args, view, draft)`                      | the same, after all of those  |
| `filter`            | `(args, view, pod) -> Refusal or None`     | may this pod leave at all?    |
| `preevictionfilter` | `(args, view, pod) -> Refusal or None`     | may it leave right now?       |
| `presort`, `sort`   | `(args, view, pod) -> key`                 | smallest first                |
| `evict`             | `(args, hands) -> Mover`                   | how pods of a plan leave      |

Five more explain its decisions; all may be left out:

| hook               | function                                       | answers                    |
|--------------------|------------------------------------------------|----------------------------|
| `why_not_proposed` | `(args, view, pod) -> NotProposed or None` | why was it not proposed?   |
| `near_misses`      | `(args, view) -> sentences`                | what came closest to it?   |
| `band`             | `(args, view, node) -> Band or None`       | how full does it find it?  |
| `refusals`         | `(args, view, pod, point) -> Refusals`     | all grounds, not the first |
| `knobs`            | `(args, view, pod) -> Knobs`               | which settings would help? |

A plugin keeps no state: what it must know next time goes through `draft.remember`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from enum import IntEnum
from functools import partial
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from resettle.policy.args import Args, ExtensionPoint
from resettle.policy.problems import Problem


class Reach(IntEnum):
    """How far a change reaches; among changes that help, the nearest is offered first."""

    FIGURE = 1
    """A figure of the policy: a limit, an age, a number of replicas."""
    BUDGET = 2
    """What a disruption budget allows, or that it is there."""
    NODE = 3
    """One node of the cluster."""
    SELECTION = 4
    """Which pods the policy means at all."""
    PROTECTION = 5
    """A protection that holds for every pod."""
    CHECK = 6
    """A check that keeps evicted pods from having nowhere to go."""


class Knob(Struct, frozen=True, kw_only=True):
    """One setting of a plugin's arguments, and the values it could have instead.

    `turned(args, value)` gives the arguments with the value in place. `says(value)` completes the
    sentence "would move if …".
    """

    setting: str
    """As the policy spells it."""
    was: Any
    ladder: Sequence[Any]
    """The values to try, the least change first."""
    turned: Callable[[Any, Any], Any]
    says: Callable[[Any], str]
    lifts: frozenset[str]
    """Codes of the refusals it can lift."""
    reach: Reach = Reach.FIGURE


if TYPE_CHECKING:
    from resettle.framework.draft import Draft
    from resettle.framework.mover import MakeMover
    from resettle.framework.verdict import Band, NotProposed, Refusal, Stopped
    from resettle.framework.view import View
    from resettle.model.kinds import Kind
    from resettle.model.measurements import Question
    from resettle.model.objects import Node
    from resettle.model.pod import Pod, Template
    from resettle.model.semantics import Semantics

# Functions of a plugin take their own Args; a registry holds plugins of every kind.
Sweep = Callable[[Any, "View", "Draft"], "Stopped | None"]
Guard = Callable[[Any, "View", "Pod"], "Refusal | None"]
SortKey = Callable[[Any, "View", "Pod"], Any]
WhyNotProposed = Callable[[Any, "View", "Pod"], "NotProposed | None"]
BandOf = Callable[[Any, "View", "Node"], "Band | None"]
NearMisses = Callable[[Any, "View"], "Iterator[str]"]
Refusals = Callable[[Any, "View", "Pod", ExtensionPoint], "Iterator[Refusal]"]
Knobs = Callable[[Any, "View", "Pod"], "Iterator[Knob]"]


class PreparedGuard:
    """A guard that works things out once for its arguments and a view, then answers for pods.

    `make(args, view)` gives whatever `ask(made, pod)` needs. `lets_go(made, template)`, if it
    is there, says of a template that every pod of it may go unless it is terminating, whatever the
    plan holds by then; such pods are not asked about.
    """

    def __init__(
        self,
        make: Callable[[Any, View], Any],
        ask: Callable[[Any, Pod], Refusal | None],
        lets_go: Callable[[Any, Template], bool] | None = None,
    ) -> None:
        self._make = make
        self._ask = ask
        self._lets_go = lets_go

    def __call__(self, args: Any, view: View, pod: Pod) -> Refusal | None:
        return self._ask(view.prepared(args, self._make), pod)

    def bound(self, args: Any, view: View) -> Callable[[Pod], Refusal | None]:
        """The question about a pod alone."""
        try:
            return partial(self._ask, view.prepared(args, self._make))
        except Exception:
            # Asked about a pod it will fail again, and the pod is refused for that.
            return partial(self, args, view)

    def letting_go(self, args: Any, view: View) -> Callable[[Template], bool] | None:
        """The question about a template alone; None if there is no telling."""
        if self._lets_go is None:
            return None
        try:
            return partial(self._lets_go, view.prepared(args, self._make))
        except Exception:
            return None


class Deed(Struct, frozen=True):
    """Something a mover must be allowed to do, everywhere in the cluster."""

    verb: str
    resource: str
    """A plural, or a subresource such as `pods/eviction`."""
    group: str = ""


def _no_deeds(args: Any) -> tuple[Deed, ...]:
    return ()


def _nothing(args: Any) -> frozenset[str]:
    return frozenset()


def _no_questions(args: Any) -> frozenset[Question]:
    return frozenset()


def _no_cautions(args: Any, semantics: Semantics) -> Iterator[str]:
    return iter(())


def _no_needs(args: Any, view: View) -> Iterator[Problem]:
    return iter(())


def _no_misses(args: Any, view: View) -> Iterator[str]:
    return iter(())


def _no_knobs(args: Any, view: View, pod: Pod) -> Iterator[Knob]:
    return iter(())


class Plugin(Struct, frozen=True, kw_only=True):
    """A plugin, as its author declares it and a registry finds it."""

    name: str
    args: type[Args] = Args
    deschedule: Sweep | None = None
    balance: Sweep | None = None
    filter: Guard | None = None
    preevictionfilter: Guard | None = None
    presort: SortKey | None = None
    sort: SortKey | None = None
    evict: MakeMover | None = None
    acts: Callable[[Any], tuple[Deed, ...]] = _no_deeds
    """What its mover does to the cluster, given the arguments; roles are made from it."""
    reads: Callable[[Any], frozenset[str]] = _nothing
    """Kinds read beyond nodes and pods, `history`, `conditions` of pods, given the arguments."""
    measures: Callable[[Any], frozenset[Question]] = _no_questions
    """What has to be measured for it, given the arguments; read as `view.usage`."""
    kinds: tuple[Kind, ...] = ()
    """Structs for kinds of this plugin's own; read as `view.others[name]`."""
    cautions: Callable[[Any, Semantics], Iterator[str]] = _no_cautions
    """What an operator should be told once about these arguments, though they are no mistake."""
    needs: Callable[[Any, View], Iterator[Problem]] = _no_needs
    """What the snapshot lacks for these arguments; any problem ends the cycle before it starts."""
    unfinished_only: bool = False
    """Whether it passes over pods that have run their course, so that explanations can say so."""
    why_not_proposed: WhyNotProposed | None = None
    """Why its rule does not apply to a pod; None if it does, and the pod's turn did not come."""
    near_misses: NearMisses = _no_misses
    """Up to three sentences about the pods or nodes that came closest to being its business."""
    band: BandOf | None = None
    """How full the plugin finds a node, for plugins that go by that."""
    refusals: Refusals | None = None
    """All grounds on which the guard at this extension point refuses a pod, the first one first."""
    knobs: Knobs = _no_knobs
    """Settings of the guard that could be turned so that it refuses the pod no longer."""

    @property
    def points(self) -> frozenset[ExtensionPoint]:
        """The extension points this plugin may be listed under."""
        return frozenset(point for point in ExtensionPoint if self.function(point) is not None)

    def function(self, point: ExtensionPoint) -> Callable[..., Any] | None:
        """What the plugin does at an extension point; None if it does not serve it."""
        function: Callable[..., Any] | None = getattr(self, point)
        return function
