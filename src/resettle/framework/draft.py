"""A plan being written, as one plugin of one profile sees it.

Questions (`may_leave`, `could_go`) leave no trace. Only `propose` enters the books, and its answer
is a verdict with a reason. A pod is asked about as the cycle sees it by then: once admitted it
looks like a terminating pod to everything that comes later.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from msgspec import structs

from resettle.framework.books import BUDGET, LIMITS, Books
from resettle.framework.guards import Chains, first_refusal
from resettle.framework.nowhere import in_full
from resettle.framework.plan import HeldBack, Limited, Move, Note, PluginRun, Proposal
from resettle.framework.profile import Instance, Profile
from resettle.framework.survey import Survey
from resettle.framework.verdict import ADMITTED, MOVING, Limit, Refusal, Stopped, Verdict, refused
from resettle.model.fleet import NodeSet
from resettle.model.node import Node
from resettle.model.pod import Pod
from resettle.model.semantics import Semantics
from resettle.model.snapshot import Snapshot

NO_UID = Refusal("no-uid", "has no uid, so that it could not be told from a namesake", "plan")
NO_NODE = Refusal("no-node-fits", "would take it", "plan", subject="no node")
WOULD_BREAK = Refusal(
    "would-break",
    "would be broken",
    "plan",
    subject="wherever it could go, a rule that holds today",
)
NO_BETTER_NODE = Refusal(
    "no-better-node", "is better than its own", "plan", subject="no node that would take it"
)
WOULD_RETURN = Refusal(
    "would-return",
    "would most likely put it back where it is",
    "plan",
    subject="the scheduler",
)
WOULD_STRAY = Refusal(
    "would-stray",
    "would most likely put it on a node that is no better",
    "plan",
    subject="the scheduler",
)
_FORETOLD = (WOULD_RETURN.code, WOULD_STRAY.code)
ALREADY_PLANNED = Refusal("already-planned", "is in this plan already", "plan")


class Draft:
    """The view one plugin has of the plan that all plugins write together."""

    def __init__(
        self,
        profile: Profile,
        plugin: str,
        snapshot: Snapshot,
        books: Books,
        watched: frozenset[str] = frozenset(),
        *,
        keeps_held_back: bool = False,
    ) -> None:
        self._profile = profile
        self._plugin = plugin
        self._snapshot = snapshot
        self._books = books
        self._weak_fit = snapshot.semantics.weak_fit
        self._redrawn = books.redrawn
        self._watched = watched
        chains = snapshot.prepared(profile, Chains)
        self._filters, self._guards = chains.filters, chains.all
        self._admitted: set[Pod] = set()
        self._verdicts: Counter[str] = Counter()
        self._refusals: Counter[str] = Counter()
        self._says: dict[str, str] = {}
        self._limited: Counter[tuple[Limit, str, str]] = Counter()
        self._keeps_held_back = keeps_held_back
        self.held_back: list[HeldBack] = []
        self.notes: list[Note] = []
        self.proposals: list[Proposal] = []
        self.memory: Any = None
        self._surveys: list[Survey] = []

    @property
    def semantics(self) -> Semantics:
        """How the policy wants decisions read."""
        return self._snapshot.semantics

    # -- questions ------------------------------------------------------------------------------

    def may_leave(self, pod: Pod) -> bool:
        """Whether every filter of the profile lets the pod leave."""
        return self._filters.refusal(self._books.seen(pod)) is None

    def could_go(self, pod: Pod) -> bool:
        """The same, and the pre-eviction filters too."""
        return self._guards.refusal(self._books.seen(pod)) is None

    def terminating(self, pod: Pod) -> bool:
        """Whether the pod is on its way out, by the cluster's word or by this plan's."""
        return pod.terminating or self._books.admitted(pod)

    def places(self, pod: Pod) -> NodeSet:
        """Nodes that would take the pod, with no harm done to others, as things stand by now."""
        return self._snapshot.outlook.places(pod)

    def objection(
        self, pod: Pod, onto: NodeSet | None = None, *, packing: bool = False
    ) -> Refusal | None:
        """What `propose` would refuse the pod for, if it would."""
        return None if self._books.admitted(pod) else self._judge(pod, onto, packing).refusal

    def walked(self, pods: Iterable[Pod]) -> list[Pod]:
        """Pods in the order a strategy looks at them: the profile's pre-sort, else as they come."""
        return self._sorted(pods, self._profile.presort, None)

    def ordered(
        self, pods: Iterable[Pod], default: Callable[[Pod], Any] | None = None
    ) -> list[Pod]:
        """Pods in the order a strategy proposes them: the profile's sort, else its own."""
        return self._sorted(pods, self._profile.sort, default)

    # -- entries --------------------------------------------------------------------------------

    def propose(
        self, pod: Pod, *, because: str, onto: NodeSet | None = None, packing: bool = False
    ) -> Verdict:
        """Asks for the pod to move; the answer says whether it does, and if not, why not.

        `onto` are the nodes that would be better for it by the plugin's own measure, where the
        plugin has one: without such a node that takes the pod, or if the scheduler would rather
        put it back, there is no point in the move. `packing` says that the plugin counts on a
        scheduler that fills nodes up, of which the forecast knows nothing.
        """
        return self._enter(pod, self._judge(pod, onto, packing), because, onto)

    def decline(
        self, pod: Pod, objection: Refusal, *, because: str, onto: NodeSet | None = None
    ) -> None:
        """Enters a refusal that `objection` has found, as if the pod had been proposed."""
        self._enter(pod, refused(objection), because, onto)

    def _enter(self, pod: Pod, verdict: Verdict, because: str, onto: NodeSet | None) -> Verdict:
        self._verdicts[verdict.kind] += 1
        if verdict.admitted:
            self._admitted.add(pod)
            lands_on = "" if self._weak_fit else self._lands_on(pod, onto)
            self._books.admit(Move(pod, self._plugin, self._profile.name, because, lands_on))
        elif self._redrawn and verdict.gone and self._books.meet(pod):
            self._admitted.add(pod)
        if refusal := verdict.refusal:
            if self._keeps_held_back and refusal.by in (LIMITS, BUDGET):
                move = Move(pod, self._plugin, self._profile.name, because)
                self.held_back.append(HeldBack(move, refusal))
            self._refusals[refusal.code] += 1
            if refusal.limit is not None:
                self._limited[refusal.limit, pod.namespace, pod.node] += 1
            if refusal.code not in self._says:
                self._says[refusal.code] = refusal.sentence
        if self._watched:
            self._keep(pod, because, verdict, onto)
            said = f"{because}, but {refusal.sentence}" if refusal else because
            self.note(pod, refusal.code if refusal else verdict.kind, said)
        return verdict

    @property
    def keeps_notes(self) -> bool:
        """Whether some pod or node is watched; else notes need not be made."""
        return bool(self._watched)

    def note(self, subject: Pod | Node, code: str, says: str) -> None:
        """Remembers a word about a pod or node if somebody asked about it, else does nothing."""
        if not self._watched:
            return
        name = subject.key if isinstance(subject, Pod) else subject.name
        if name in self._watched:
            self.notes.append(
                Note(
                    subject=name,
                    profile=self._profile.name,
                    plugin=self._plugin,
                    code=code,
                    says=says,
                )
            )

    def survey(self, found: Survey) -> None:
        """Tells those who watch how full the plugin finds its nodes; nothing is decided by it."""
        self._surveys.append(found)

    def recall(self) -> Any:
        """What this plugin remembered in the cycle before, or None."""
        return self._snapshot.history.get((self._profile.name, self._plugin))

    def remember(self, value: Any) -> None:
        """Keeps a value for this plugin's next cycle; plain, as JSON has it, or no record can."""
        self.memory = value

    def run(self, point: str, stopped: Stopped | None, error: str = "") -> PluginRun:
        """The account of this plugin's turn."""
        return PluginRun(
            profile=self._profile.name,
            plugin=self._plugin,
            point=point,
            proposed=self._verdicts.total(),
            admitted=self._verdicts["admitted"],
            already_moving=self._verdicts["moving"],
            refused=dict(sorted(self._refusals.items())),
            for_instance=self._says,
            limited=tuple(Limited(*met, count) for met, count in sorted(self._limited.items())),
            stopped=stopped,
            error=error,
            surveys=tuple(self._surveys),
        )

    # -- within ---------------------------------------------------------------------------------

    def _judge(self, pod: Pod, onto: NodeSet | None, packing: bool) -> Verdict:
        books = self._books
        again = books.admitted(pod)
        if pod.uid in self._snapshot.moving or (again and not self.semantics.repeat_spends_limits):
            return MOVING
        if again:
            return self._judge_again(pod)
        if self._redrawn and books.left_before(pod):
            return MOVING
        refusal = self._guards.refusal(pod) or (None if pod.uid else NO_UID)
        if refusal is None and not self._weak_fit and self._needs_a_place(pod):
            refusal = self._nowhere_to_go(pod, onto, packing)
        # A declined pod used nothing up, so it must not stop a plugin as a full limit would.
        if self._redrawn:
            refusal = refusal or books.declined(pod)
        refusal = refusal or books.over_limit(pod) or books.over_budget(pod)
        return refused(refusal) if refusal else ADMITTED

    def _keep(self, pod: Pod, because: str, verdict: Verdict, onto: NodeSet | None) -> None:
        """Keeps what became of the proposal if somebody asked about the pod."""
        if pod.key in self._watched:
            self.proposals.append(
                Proposal(
                    subject=pod.key,
                    profile=self._profile.name,
                    plugin=self._plugin,
                    because=because,
                    verdict=verdict.kind,
                    refusals=self._all_refusals(pod, verdict.refusal, onto),
                )
            )

    def _all_refusals(
        self, pod: Pod, first: Refusal | None, onto: NodeSet | None
    ) -> tuple[Refusal, ...]:
        """All that stands against the pod now, what it was refused with first."""
        if first is None or first.code == ALREADY_PLANNED.code:
            return (first,) if first else ()
        books, snapshot = self._books, self._snapshot
        found = {refusal.code: refusal for refusal in self._grounds(pod)}
        if not pod.uid:
            found[NO_UID.code] = NO_UID
        nowhere = None
        if self._needs_a_place(pod):
            # Of what follows from the forecast only what was refused first is told.
            nowhere = self._nowhere_to_go(pod, onto, packing=first.code not in _FORETOLD)
        if nowhere and NO_NODE.code not in found:
            better = onto if nowhere.code == NO_BETTER_NODE.code else None
            nodes = snapshot.fleet.everyone if better is None else better
            found[nowhere.code] = in_full(nowhere, pod, snapshot, nodes)
        found |= {refusal.code: refusal for refusal in books.over_limits(pod)}
        if spent := books.over_budget(pod):
            found[spent.code] = spent
        return (found.pop(first.code, first), *found.values())

    def _grounds(self, pod: Pod) -> Iterator[Refusal]:
        """What each guard has against the pod, all of it where the guard can tell."""
        profile, snapshot = self._profile, self._snapshot
        chain = (*profile.filters, *profile.pre_eviction_filters)
        for instance, guard in zip(chain, self._guards.asked, strict=True):
            try:
                said = list(instance.all_refusals(snapshot, pod))
            except Exception:
                said = []  # the guard's own answer, or its failure, will have to do
            first = first_refusal([guard], pod)
            if first is not None and not any(it.code == first.code for it in said):
                said.insert(0, first)
            yield from (it if it.by else structs.replace(it, by=instance.name) for it in said)

    def _needs_a_place(self, pod: Pod) -> bool:
        """Whether a replacement is looked after; a pod that has run its course gets none."""
        return not self._weak_fit and not pod.finished

    def _nowhere_to_go(self, pod: Pod, onto: NodeSet | None, packing: bool) -> Refusal | None:
        """Why no node will do for the pod."""
        outlook = self._snapshot.outlook
        takers = outlook.takers(pod)
        if not takers:
            return NO_NODE
        places = takers & outlook.sparing(pod)
        if not places:
            return WOULD_BREAK
        if onto is None or self.semantics.moves_without_gain:
            return None
        if not places & onto:
            return NO_BETTER_NODE
        if packing:
            return None
        lands_on = outlook.drawn_to(pod, takers)
        if lands_on == outlook.residents.home(pod):
            return WOULD_RETURN
        better = places & onto & self._snapshot.fleet.only(lands_on)
        return None if better else WOULD_STRAY

    def _lands_on(self, pod: Pod, onto: NodeSet | None) -> str:
        """Where the pod's replacement will most likely be; unknown to a weak fit."""
        if not self._needs_a_place(pod):
            return ""
        places = self.places(pod)
        better = places if onto is None else places & onto
        return self._snapshot.outlook.likeliest(pod, better or places)

    def _judge_again(self, pod: Pod) -> Verdict:
        """The peer evicts such a pod a second time; here that only spends the limits."""
        # It asked its filters before its turn's first eviction, so they do not see that one.
        if pod not in self._admitted and not self.could_go(pod):
            return refused(ALREADY_PLANNED)
        if refusal := self._books.over_limit(pod):
            return refused(refusal)
        self._books.count(pod)
        return MOVING

    def _sorted(
        self,
        pods: Iterable[Pod],
        keys: tuple[Instance, ...],
        default: Callable[[Pod], Any] | None,
    ) -> list[Pod]:
        in_order = list(pods) if default is None else sorted(pods, key=default)
        if keys:
            snapshot = self._snapshot
            in_order.sort(key=lambda pod: [key.key(snapshot, pod) for key in keys])
        return in_order
