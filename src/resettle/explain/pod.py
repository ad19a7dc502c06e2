"""The answer about one pod: whether it moves, what each plugin decided, what would change that.

Why a plugin did not propose a pod is answered here as far as it concerns every plugin, and by the
plugin's hook `why_not_proposed` for the rest. A pod that the plugin would have proposed was
not reached, and the reason for that is in the plan.
"""

from __future__ import annotations

from msgspec import Struct, structs

from resettle.errors import InputError
from resettle.explain.cycle import PluginTurn, WatchedPlan
from resettle.explain.smallest_change import SmallestChange, find_smallest_change
from resettle.explain.what_if import PlanInputs, filter_refusals
from resettle.framework.plan import Move, Plan, Proposal
from resettle.framework.verdict import NotProposed
from resettle.framework.view import View
from resettle.model.pod import Pod
from resettle.model.snapshot import Snapshot
from resettle.policy.args import ExtensionPoint, SelectingArgs
from resettle.policy.problems import nearest

NO_TURN = "no-turn"
FOUND_NO_CANDIDATE = ("no-candidate", "balanced")
"""Stops of plugins that look only at pods that may leave: then a filter may be the reason."""
MOST_SUGGESTIONS = 3


class PluginDecision(Struct, frozen=True, kw_only=True):
    """What one plugin decided about the pod: one or more proposals, or a reason for none."""

    profile: str
    plugin: str
    point: ExtensionPoint
    proposals: tuple[Proposal, ...] = ()
    not_proposed: NotProposed | None = None


class PodAnswer(Struct, frozen=True, kw_only=True):
    """Whether a pod moves, what each plugin decided about it, and what would change that."""

    pod: Pod
    plan: Plan
    move: Move | None
    decisions: tuple[PluginDecision, ...]
    smallest_change: SmallestChange = SmallestChange()

    @property
    def refused(self) -> bool:
        """Whether it stays although some plugin proposed it, or would have in its turn."""
        return self.move is None and any(
            decision.proposals or (decision.not_proposed and decision.not_proposed.code == NO_TURN)
            for decision in self.decisions
        )

    @property
    def proposed(self) -> bool:
        """Whether some plugin proposed it."""
        return any(decision.proposals for decision in self.decisions)


def explain_pod(inputs: PlanInputs, pod: Pod) -> PodAnswer:
    """The answer about a pod, with the smallest change that would move a refused one."""
    watched = WatchedPlan(inputs, [pod.key, pod.node])
    answer = answer_for(watched, pod)
    if not answer.refused or pod.uid in watched.view.moving:
        return answer
    smallest_change = find_smallest_change(inputs, pod, watched.plan)
    return structs.replace(answer, smallest_change=smallest_change)


def answer_for(watched: WatchedPlan, pod: Pod) -> PodAnswer:
    """The answer about a pod from a plan in which it was watched, without what would change it."""
    decisions = tuple(_decision(watched, turn, pod) for turn in watched.turns)
    return PodAnswer(pod=pod, plan=watched.plan, move=watched.move_of(pod), decisions=decisions)


def _decision(watched: WatchedPlan, turn: PluginTurn, pod: Pod) -> PluginDecision:
    profile, plugin = turn.profile.name, turn.instance.name
    proposals = tuple(
        proposal
        for proposal in watched.proposals_of(pod)
        if (proposal.profile, proposal.plugin) == (profile, plugin)
    )
    return PluginDecision(
        profile=profile,
        plugin=plugin,
        point=turn.instance.point,
        proposals=proposals,
        not_proposed=None if proposals else why_not_proposed(watched, turn, pod),
    )


# -- why a plugin did not propose a pod -----------------------------------------------------------


def why_not_proposed(watched: WatchedPlan, turn: PluginTurn, pod: Pod) -> NotProposed:
    """The first reason that applies, from those for all plugins to the plugin's own."""
    plan, view = watched.plan, watched.view
    if plan.skipped:
        return NotProposed("not-run", f"no plugin ran: {plan.skipped.says}")
    if turn.run is not None and turn.run.error:
        return NotProposed("plugin-failed", f"the plugin failed: {turn.run.error}")
    if reason := _out_of_scope_for_all(view, pod) or _out_of_scope_for(view, turn, pod):
        return reason
    if note := watched.note_on(pod.key, turn):
        return NotProposed(note.code, note.says)
    return _by_its_own_rule(watched, turn, pod)


def _out_of_scope_for_all(view: View, pod: Pod) -> NotProposed | None:
    """Why no plugin looks at the pod, if none does."""
    if not pod.node:
        return NotProposed("unbound", "is not bound to a node yet")
    return node_out_of_scope(view, pod.node)


def node_out_of_scope(view: View, name: str) -> NotProposed | None:
    """Why no plugin looks at the pods of this node, if none does."""
    node = view.node_index.get(name)
    if node is None:
        return NotProposed("node-unknown", f"{name} is not among the nodes that are listed")
    if not node.ready:
        return NotProposed("node-unready", f"{name} is not ready")
    if name not in view.names_in_scope:
        return NotProposed("node-not-selected", f"{name} is not selected by `nodeSelector`")
    return None


def _out_of_scope_for(view: View, turn: PluginTurn, pod: Pod) -> NotProposed | None:
    """Why this plugin does not look at the pod, by the arguments that many plugins share."""
    plugin, args = turn.instance.plugin, turn.instance.args
    if plugin.unfinished_only and pod.finished:
        return NotProposed("finished", f"is finished ({pod.state.phase})")
    if isinstance(args, SelectingArgs) and pod.template not in view.templates_selected_by(args):
        if args.namespaces is not None and not args.namespaces.admits(pod.namespace):
            says = f"its namespace {pod.namespace} is excluded by `namespaces`"
            return NotProposed("namespace-left-out", says)
        return NotProposed("labels-left-out", "its labels are not selected by `labelSelector`")
    return None


def _by_its_own_rule(watched: WatchedPlan, turn: PluginTurn, pod: Pod) -> NotProposed:
    hook = turn.instance.plugin.why_not_proposed
    if hook is None:
        return NotProposed("not-wanted", "was not proposed, and the plugin does not say why")
    try:
        reason = hook(turn.instance.args, watched.view, pod)
    except Exception as error:
        failure = f"{type(error).__name__}: {error}"
        says = f"was not proposed; asked why, the plugin failed: {failure}"
        return NotProposed("not-wanted", says)
    return reason or _turn_did_not_come(watched, turn, pod)


def _turn_did_not_come(watched: WatchedPlan, turn: PluginTurn, pod: Pod) -> NotProposed:
    """Why the plugin did not come to a pod that its rule is about."""
    if pod.terminating:
        return NotProposed("terminating", "is already terminating")
    if (move := watched.move_of(pod)) and watched.is_from_earlier_turn(move, turn):
        return NotProposed("leaving", f"is leaving already, proposed by {move.plugin}")
    node, stopped = pod.node, turn.run.stopped if turn.run else None
    if stopped is not None and stopped.code not in FOUND_NO_CANDIDATE:
        return NotProposed(NO_TURN, f"not reached: {stopped.says}")
    if refusal := next(filter_refusals(turn.profile, watched.view, pod), None):
        return NotProposed(NO_TURN, f"is not a candidate: {refusal.sentence}")
    if why := watched.note_on(node, turn) or stopped:
        return NotProposed(NO_TURN, f"not reached: {why.says}")
    first = sum(
        move.pod.node == node and move.plugin == turn.instance.name for move in watched.plan.moves
    )
    if first:
        leave = "1 other pod leaves" if first == 1 else f"{first} other pods leave"
        return NotProposed(NO_TURN, f"not reached: {leave} {node} instead")
    return NotProposed(
        NO_TURN, "not reached: other pods are evicted first, or evicting it would not help"
    )


# -- pods and nodes that do not exist -------------------------------------------------------------


def no_such_pod(snapshot: Snapshot, namespace: str, name: str) -> InputError:
    """An error that suggests pods of the same name elsewhere, or one with a similar name."""
    pod_index = snapshot.pod_index
    namespaces = sorted(pod_index.namespaces)
    same_name = [f"{other}/{name}" for other in namespaces if pod_index.get(other, name)]
    if same_name:
        return _no_such("pod", f"{namespace}/{name}", same_name)
    known = namespace in pod_index.namespaces
    similar_namespace = namespace if known else nearest(namespace, namespaces)
    names = (
        [
            pod.name
            for template in pod_index.namespaces[similar_namespace]
            for pod in pod_index.templates[template]
        ]
        if similar_namespace
        else []
    )
    similar = nearest(name, names)
    suggestions = [f"{similar_namespace}/{similar}"] if similar else []
    return _no_such("pod", f"{namespace}/{name}", suggestions)


def no_such_node(snapshot: Snapshot, name: str) -> InputError:
    """An error that suggests the node with the most similar name."""
    similar = nearest(name, snapshot.node_index.position)
    return _no_such("node", name, [similar] if similar else [])


def _no_such(kind: str, name: str, suggestions: list[str]) -> InputError:
    if not suggestions:
        return InputError(f"there is no {kind} `{name}`; list them with `kubectl get {kind}s`")
    choices = " or ".join(f"`{name}`" for name in suggestions[:MOST_SUGGESTIONS])
    return InputError(f"there is no {kind} `{name}`; did you mean {choices}?")
