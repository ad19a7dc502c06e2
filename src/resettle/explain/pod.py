"""The answer about one pod: does it go, who wanted it, what stood in the way, what would help."""

from __future__ import annotations

from msgspec import Struct, structs

from resettle.explain.flips import Flips, flips
from resettle.explain.overlooked import NO_TURN, why_overlooked
from resettle.explain.stage import Stage
from resettle.explain.watched import Turn, Watched
from resettle.framework.plan import Move, Plan, Proposal
from resettle.framework.verdict import Unwanted
from resettle.model.pod import Pod
from resettle.policy.known import ExtensionPoint


class Word(Struct, frozen=True, kw_only=True):
    """What one plugin made of the pod: proposed it, be it several times, or had a reason not to."""

    profile: str
    plugin: str
    point: ExtensionPoint
    proposals: tuple[Proposal, ...] = ()
    unwanted: Unwanted | None = None


class PodAnswer(Struct, frozen=True, kw_only=True):
    """All there is to say of a pod."""

    pod: Pod
    plan: Plan
    move: Move | None
    words: tuple[Word, ...]
    flips: Flips = Flips()

    @property
    def refused(self) -> bool:
        """Whether it stays although some plugin wanted it."""
        return self.move is None and any(
            word.proposals or (word.unwanted and word.unwanted.code == NO_TURN)
            for word in self.words
        )

    @property
    def proposed(self) -> bool:
        """Whether some plugin did propose it."""
        return any(word.proposals for word in self.words)


def explain_pod(stage: Stage, pod: Pod) -> PodAnswer:
    """The answer, with what would have to change for a pod that was refused."""
    answer = answer_for(Watched(stage, [pod.key, pod.node]), pod)
    if not answer.refused or pod.uid in stage.snapshot.moving:
        return answer
    return structs.replace(answer, flips=flips(stage, pod))


def answer_for(watched: Watched, pod: Pod) -> PodAnswer:
    """The answer that a plan already drawn holds, when the pod was watched in it."""
    words = tuple(_word(watched, turn, pod) for turn in watched.turns)
    return PodAnswer(pod=pod, plan=watched.plan, move=watched.move_of(pod), words=words)


def _word(watched: Watched, turn: Turn, pod: Pod) -> Word:
    profile, plugin = turn.profile.name, turn.instance.name
    proposals = tuple(
        it for it in watched.proposals_of(pod) if (it.profile, it.plugin) == (profile, plugin)
    )
    return Word(
        profile=profile,
        plugin=plugin,
        point=turn.instance.point,
        proposals=proposals,
        unwanted=None if proposals else why_overlooked(watched, turn, pod),
    )
