"""Why a plugin did not propose a pod.

What holds for every plugin is answered here; what is a plugin's own business, by its hook. A pod
that the plugin would have wanted has not had its turn, and the reason for that is in the plan.
"""

from __future__ import annotations

from collections.abc import Iterator

from resettle.explain.watched import Turn, Watched
from resettle.framework.profile import Profile
from resettle.framework.verdict import Refusal, Unwanted
from resettle.framework.view import View
from resettle.model.pod import Pod
from resettle.policy.args import SelectingArgs

NO_TURN = "no-turn"
FOUND_NOBODY = ("no-candidate", "balanced")
"""Stops of plugins that look only at pods that could go: then a guard may be the reason."""


def why_overlooked(watched: Watched, turn: Turn, pod: Pod) -> Unwanted:
    """The first reason there is, from the cluster at large to the plugin's own rule."""
    plan, view = watched.plan, watched.view
    if plan.skipped:
        return Unwanted("not-run", f"no plugin had a turn: {plan.skipped.says}")
    if turn.run is not None and turn.run.error:
        return Unwanted("plugin-failed", f"the plugin failed: {turn.run.error}")
    if (found := out_of_sight(view, pod)) or (found := _out_of_view(view, turn, pod)):
        return found
    if note := watched.note_on(pod.key, turn):
        return Unwanted(note.code, note.says)
    return _by_its_own_rule(watched, turn, pod)


def out_of_sight(view: View, pod: Pod) -> Unwanted | None:
    """Why no plugin looks at the pod, if none does."""
    if not pod.node:
        return Unwanted("unbound", "is not bound to a node yet")
    return out_of_scope(view, pod.node)


def out_of_scope(view: View, name: str) -> Unwanted | None:
    """Why a cycle does not work on this node, if it does not."""
    node = view.fleet.get(name)
    if node is None:
        return Unwanted("node-unknown", f"{name} is not among the nodes that are listed")
    if not node.ready:
        return Unwanted("node-unready", f"{name} is not ready")
    if name not in view.names_in_scope:
        return Unwanted("node-not-selected", f"{name} is not selected by `nodeSelector`")
    return None


def _out_of_view(view: View, turn: Turn, pod: Pod) -> Unwanted | None:
    """Why this plugin does not look at the pod, by what plugins have in common."""
    plugin, args = turn.instance.plugin, turn.instance.args
    if plugin.unfinished_only and pod.finished:
        return Unwanted("finished", f"has run its course ({pod.state.phase})")
    if isinstance(args, SelectingArgs) and pod.template not in view.templates_selected_by(args):
        if args.namespaces is not None and not args.namespaces.admits(pod.namespace):
            said = f"its namespace {pod.namespace} is left out by `namespaces`"
            return Unwanted("namespace-left-out", said)
        return Unwanted("labels-left-out", "its labels are not selected by `labelSelector`")
    return None


def _by_its_own_rule(watched: Watched, turn: Turn, pod: Pod) -> Unwanted:
    hook = turn.instance.plugin.overlooks
    if hook is None:
        return Unwanted("not-wanted", "was not proposed, and the plugin does not say why")
    try:
        unwanted = hook(turn.instance.args, watched.view, pod)
    except Exception as error:
        failure = f"{type(error).__name__}: {error}"
        return Unwanted("not-wanted", f"was not proposed; asked why, the plugin failed: {failure}")
    return unwanted or _wanted_in_vain(watched, turn, pod)


def _wanted_in_vain(watched: Watched, turn: Turn, pod: Pod) -> Unwanted:
    """Why the plugin did not come to propose a pod that is its business."""
    if pod.terminating:
        return Unwanted("terminating", "is already terminating")
    if (move := watched.move_of(pod)) and watched.earlier(move, turn):
        return Unwanted("leaving", f"is leaving already, on the word of {move.plugin}")
    node, stopped = pod.node, turn.run.stopped if turn.run else None
    if stopped is not None and stopped.code not in FOUND_NOBODY:
        return Unwanted(NO_TURN, f"its turn did not come: {stopped.says}")
    if refusal := next(grounds(turn.profile, watched.view, pod), None):
        return Unwanted(NO_TURN, f"is not counted on to leave: {refusal.sentence}")
    if why := watched.note_on(node, turn) or stopped:
        return Unwanted(NO_TURN, f"its turn did not come: {why.says}")
    first = sum(
        move.pod.node == node and move.plugin == turn.instance.name for move in watched.plan.moves
    )
    if first:
        leave = "1 other pod leaves" if first == 1 else f"{first} other pods leave"
        return Unwanted(NO_TURN, f"its turn did not come: {leave} {node} instead")
    return Unwanted(NO_TURN, "its turn did not come: others go first, or its going helps nobody")


def grounds(profile: Profile, view: View, pod: Pod) -> Iterator[Refusal]:
    """What the guards of a profile have against the pod, whoever would propose it."""
    for instance in (*profile.filters, *profile.pre_eviction_filters):
        try:
            first = instance.guarding(view)(pod)
        except Exception:
            continue  # in a plan such a guard refuses, and the plan says so
        if first is not None:
            yield from list(instance.all_refusals(view, pod)) or [first]
