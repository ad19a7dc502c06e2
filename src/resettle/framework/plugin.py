"""What a plugin is: a name, its arguments, and a function for each extension point it serves.

| extension point     | function                                   | answers                       |
|---------------------|--------------------------------------------|-------------------------------|
| `deschedule`        | `(args, view, draft)`                      | proposes pods to the draft    |
| `balance`           | `(args, view, draft)`                      | proposes, after all of those  |
| `filter`            | `(args, view, pod) -> Refusal or None`     | may this pod leave at all?    |
| `preevictionfilter` | `(args, view, pod) -> Refusal or None`     | may it leave right now?       |
| `presort`, `sort`   | `(args, view, pod) -> key`                 | smallest first                |
| `evict`             | `(args, evictor) -> Mover`                 | how pods of a plan leave      |
| `controller`        | `(args, handle) -> Controller`             | work that events start        |

Five more explain its decisions; all may be left out:

| hook               | function                                       | answers                    |
|--------------------|------------------------------------------------|----------------------------|
| `why_not_proposed` | `(args, view, pod) -> NotProposed or None` | why was it not proposed?   |
| `near_misses`      | `(args, view) -> sentences`                | what came closest to it?   |
| `band`             | `(args, view, node) -> Band or None`       | how full is this node?     |
| `refusals`         | `(args, view, pod, point) -> Refusals`     | all grounds, not the first |
| `settings`         | `(args, view, pod) -> Settings`            | which settings would help? |

A plugin keeps no state: what it must know next time goes through `draft.remember`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from datetime import timedelta
from enum import IntEnum
from functools import partial
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from resettle.policy.args import Args, ExtensionPoint
from resettle.policy.problems import Problem


class ChangeScope(IntEnum):
    """How much a change affects; among changes that help, the smallest scope is offered first."""

    FIGURE = 1
    """A number in the policy: a limit, an age, a number of replicas."""
    BUDGET = 2
    """What a disruption budget allows, or whether it exists."""
    NODE = 3
    """One node of the cluster."""
    SELECTION = 4
    """Which pods the policy selects."""
    PROTECTION = 5
    """A protection that holds for every pod."""
    CHECK = 6
    """A check that keeps evicted pods from having nowhere to go."""


class Setting(Struct, frozen=True, kw_only=True):
    """One setting of a filter's arguments, and the values it could have instead.

    `apply(args, value)` returns the arguments with the value in place. `describe(value)` completes
    the sentence "would move if …". Every value offered to an operator is first tried on the whole
    plan, so a setting that does not help does no harm.
    """

    key: str
    """The key in the policy."""
    current: Any
    values: Sequence[Any]
    """The values to try, the least change first."""
    apply: Callable[[Any, Any], Any]
    describe: Callable[[Any], str]
    lifts: frozenset[str]
    """Codes of the refusals it can lift."""
    scope: ChangeScope = ChangeScope.FIGURE


if TYPE_CHECKING:
    from resettle.framework.controller import MakeController
    from resettle.framework.draft import Draft
    from resettle.framework.mover import MakeMover
    from resettle.framework.verdict import Band, NotProposed, Refusal, Stopped
    from resettle.framework.view import View
    from resettle.model.kinds import Kind
    from resettle.model.measurements import MetricsQuery
    from resettle.model.migration_job import Steering
    from resettle.model.objects import Node
    from resettle.model.pod import Pod, Template
    from resettle.model.semantics import Semantics
    from resettle.model.snapshot import Snapshot
    from resettle.model.workloads import DepartedPod, Eviction, ScaleKind

# Functions of a plugin take their own Args; a registry holds plugins of every kind.
StrategyFunction = Callable[[Any, "View", "Draft"], "Stopped | None"]
Filter = Callable[[Any, "View", "Pod"], "Refusal | None"]
SortKey = Callable[[Any, "View", "Pod"], Any]
WhyNotProposed = Callable[[Any, "View", "Pod"], "NotProposed | None"]
BandOf = Callable[[Any, "View", "Node"], "Band | None"]
NearMisses = Callable[[Any, "View"], "Iterator[str]"]
Refusals = Callable[[Any, "View", "Pod", ExtensionPoint], "Iterator[Refusal]"]
Settings = Callable[[Any, "View", "Pod"], "Iterator[Setting]"]


class PreparedFilter:
    """A filter that prepares once for its arguments and a view, then answers for each pod.

    `prepare(args, view)` returns what `check(prepared, pod)` needs. `passes_template(prepared,
    template)`, if given, says that every pod of a template passes unless it is terminating,
    whatever the plan holds by then; such pods are not checked one by one.
    """

    def __init__(
        self,
        prepare: Callable[[Any, View], Any],
        check: Callable[[Any, Pod], Refusal | None],
        passes_template: Callable[[Any, Template], bool] | None = None,
    ) -> None:
        self._prepare = prepare
        self._check = check
        self._passes_template = passes_template

    def __call__(self, args: Any, view: View, pod: Pod) -> Refusal | None:
        return self._check(view.prepare_once(args, self._prepare), pod)

    def pod_check(self, args: Any, view: View) -> Callable[[Pod], Refusal | None]:
        """The filter as a function of a pod alone."""
        try:
            return partial(self._check, view.prepare_once(args, self._prepare))
        except Exception:
            # It will fail again for each pod, and the pod is refused for that.
            return partial(self, args, view)

    def template_check(self, args: Any, view: View) -> Callable[[Template], bool] | None:
        """`passes_template` as a function of a template alone; None if it cannot be known."""
        if self._passes_template is None:
            return None
        try:
            return partial(self._passes_template, view.prepare_once(args, self._prepare))
        except Exception:
            return None


class Permission(Struct, frozen=True):
    """Something a plugin must be allowed to do, everywhere or in one namespace."""

    verb: str
    resource: str
    """A plural, or a subresource such as `pods/eviction`."""
    group: str = ""
    namespace: str = ""
    """The only namespace; empty for all of them."""
    name: str = ""
    """The only object; empty for all of them. RBAC cannot limit `create` to a name."""


def _no_permissions(args: Any) -> tuple[Permission, ...]:
    return ()


def _nothing(args: Any) -> frozenset[str]:
    return frozenset()


def _holds_none(args: Any) -> Steering | None:
    return None


def _no_evictions(args: Any, snapshot: Snapshot) -> tuple[Eviction, ...]:
    return ()


def _none_departed(args: Any, snapshot: Snapshot) -> tuple[DepartedPod, ...]:
    return ()


def _nothing_moves(args: Any, snapshot: Snapshot) -> frozenset[str]:
    return frozenset()


def _no_questions(args: Any) -> frozenset[MetricsQuery]:
    return frozenset()


def _no_scales(args: Any) -> frozenset[ScaleKind]:
    return frozenset()


def _no_window(args: Any) -> timedelta:
    return timedelta()


def _no_cautions(args: Any, semantics: Semantics) -> Iterator[str]:
    return iter(())


def _no_needs(args: Any, view: View) -> Iterator[Problem]:
    return iter(())


def _no_misses(args: Any, view: View) -> Iterator[str]:
    return iter(())


def _no_settings(args: Any, view: View, pod: Pod) -> Iterator[Setting]:
    return iter(())


class Plugin(Struct, frozen=True, kw_only=True):
    """A plugin, as its author declares it and a registry finds it."""

    name: str
    args: type[Args] = Args
    deschedule: StrategyFunction | None = None
    balance: StrategyFunction | None = None
    filter: Filter | None = None
    preevictionfilter: Filter | None = None
    presort: SortKey | None = None
    sort: SortKey | None = None
    evict: MakeMover | None = None
    controller: MakeController | None = None
    permissions: Callable[[Any], tuple[Permission, ...]] = _no_permissions
    """What its mover must be allowed to do, given the arguments; roles are made from it."""
    controller_permissions: Callable[[Any], tuple[Permission, ...]] = _no_permissions
    """What its controller must be allowed to do, given the arguments; roles are made from it."""
    controller_reads: Callable[[Any], frozenset[str]] = _nothing
    """Kinds that its controller reads beyond `reads`, given the arguments."""
    holds_place: Callable[[Any], Steering | None] = _holds_none
    """How its mover steers the replacement to a place that it holds; None if it holds none."""
    moving: Callable[[Any, Snapshot], frozenset[str]] = _nothing_moves
    """Uids of pods that objects which its mover created are moving now."""
    departed: Callable[[Any, Snapshot], tuple[DepartedPod, ...]] = _none_departed
    """Pods that are gone while the moves that such objects stand for go on."""
    evictions: Callable[[Any, Snapshot], tuple[Eviction, ...]] = _no_evictions
    """Evictions that objects which its mover created have recorded, for limits over time."""
    reads: Callable[[Any], frozenset[str]] = _nothing
    """Kinds read beyond nodes and pods, `history`, `conditions` of pods, given the arguments."""
    measures: Callable[[Any], frozenset[MetricsQuery]] = _no_questions
    """What has to be measured for it, given the arguments; read as `view.usage`."""
    scales: Callable[[Any], frozenset[ScaleKind]] = _no_scales
    """Kinds of workloads whose `scale` subresource is read, given the arguments."""
    eviction_window: Callable[[Any], timedelta] = _no_window
    """How far back it looks at evictions, given the arguments; read as `view.evictions`."""
    kinds: tuple[Kind, ...] = ()
    """Structs for kinds of this plugin's own; read as `view.others[name]`."""
    cautions: Callable[[Any, Semantics], Iterator[str]] = _no_cautions
    """Warnings about these arguments, printed once, though they are no mistake."""
    needs: Callable[[Any, View], Iterator[Problem]] = _no_needs
    """What the snapshot lacks for these arguments; any problem ends the cycle before it starts."""
    unfinished_only: bool = False
    """Whether it skips finished pods, so that explanations can say so."""
    why_not_proposed: WhyNotProposed | None = None
    """Why its rule does not apply to a pod; None if it does and the pod was not reached."""
    near_misses: NearMisses = _no_misses
    """Up to three sentences about the pods or nodes that came closest to being proposed."""
    band: BandOf | None = None
    """The band in which the plugin puts a node, for plugins that balance utilization."""
    refusals: Refusals | None = None
    """All refusals of a pod by the filter at this extension point, the first one first."""
    settings: Settings = _no_settings
    """Settings of the filter that could be changed so that it no longer refuses the pod."""

    @property
    def points(self) -> frozenset[ExtensionPoint]:
        """The extension points this plugin may be listed under."""
        return frozenset(point for point in ExtensionPoint if self.function(point) is not None)

    def function(self, point: ExtensionPoint) -> Callable[..., Any] | None:
        """What the plugin does at an extension point; None if it does not serve it."""
        function: Callable[..., Any] | None = getattr(self, point)
        return function
