"""RemovePodsViolatingNodeTaints: evict pods that do not tolerate a taint of their node.

NoExecute taints are never looked at: Kubernetes itself removes pods for those.
"""

from __future__ import annotations

from collections.abc import Iterator

from resettle.framework.draft import Draft
from resettle.framework.plugin import Plugin
from resettle.framework.selection import selected
from resettle.framework.verdict import Stopped
from resettle.model.node import Node
from resettle.model.pod import Spec
from resettle.model.snapshot import Snapshot
from resettle.model.taint import NO_SCHEDULE, PREFER_NO_SCHEDULE, Taint
from resettle.plugins.reporting import LIMIT_REACHED, NO_CANDIDATE, Next, propose_in_turn
from resettle.policy.args import SelectingArgs
from resettle.policy.problem import Problem


class Args(SelectingArgs, frozen=True, kw_only=True):
    """Arguments of RemovePodsViolatingNodeTaints; a taint is listed as `key` or `key=value`."""

    include_prefer_no_schedule: bool = False
    excluded_taints: tuple[str, ...] = ()
    included_taints: tuple[str, ...] | None = None
    """Absent means every taint, an empty list none."""

    def problems(self) -> Iterator[Problem]:
        yield from super().problems()
        if self.excluded_taints and self.included_taints:
            yield Problem(
                what="both `includedTaints` and `excludedTaints` are set",
                fix="keep one of the two lists",
                at=("includedTaints",),
            )


def counts(taint: Taint, args: Args) -> bool:
    """Whether the plugin goes by this taint."""
    if taint.effect != NO_SCHEDULE and not (
        args.include_prefer_no_schedule and taint.effect == PREFER_NO_SCHEDULE
    ):
        return False
    if _listed(taint, args.excluded_taints):
        return False
    return args.included_taints is None or _listed(taint, args.included_taints)


def _listed(taint: Taint, entries: tuple[str, ...]) -> bool:
    if taint.key in entries:
        return True
    return bool(taint.value) and f"{taint.key}={taint.value}" in entries


def first_untolerated(spec: Spec, taints: list[Taint]) -> Taint | None:
    """The first of the taints that the pod does not tolerate."""
    return next((taint for taint in taints if not spec.tolerates(taint)), None)


def deschedule(args: Args, snapshot: Snapshot, draft: Draft) -> Stopped | None:
    """Proposes on each node the pods that one of its taints does not suffer."""
    found = False
    for node in snapshot.nodes:
        taints = [taint for taint in node.taints if counts(taint, args)]
        if not taints:
            continue
        found = True
        if _sweep(node, taints, args, snapshot, draft) is Next.NOTHING:
            return LIMIT_REACHED
    return None if found else NO_TAINT


def _sweep(node: Node, taints: list[Taint], args: Args, snapshot: Snapshot, draft: Draft) -> Next:
    offending: dict[Spec, Taint | None] = {}
    candidates = []
    for pod in draft.walked(selected(args, snapshot, snapshot.active_on(node))):
        if pod.spec not in offending:
            offending[pod.spec] = first_untolerated(pod.spec, taints)
        if offending[pod.spec]:
            candidates.append(pod)
    return propose_in_turn(
        draft,
        draft.ordered(candidates),
        lambda pod: f"does not tolerate the taint {offending[pod.spec]} of {node.name}",
    )


NO_TAINT = Stopped(NO_CANDIDATE.code, "no node carries a taint that counts here")

PLUGIN = Plugin(name="RemovePodsViolatingNodeTaints", args=Args, deschedule=deschedule)
