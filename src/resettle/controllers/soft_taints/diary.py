"""What an operator reads of a round: a line for each node that changed, and one for the round."""

from __future__ import annotations

from collections.abc import Iterable

from resettle.controllers.soft_taints.wanted import NodeTaints
from resettle.controllers.soft_taints.writing import Ending, Outcome
from resettle.log import Log
from resettle.model.taint import Taint

_NAMED = 5
"""How many nodes a line names before it only counts them."""


def foretell(wishes: NodeTaints, log: Log) -> None:
    """Tells what would be set."""
    for name, wish in wishes.items():
        if wish.taints:
            log.info("would taint", node=name, taints=_texts(wish.taints), reason=wish.because)


def tell(outcome: Outcome, log: Log) -> None:
    """Tells what became of one node, if anything did."""
    patch = outcome.patch
    match outcome.ending:
        case Ending.WRITTEN:
            log.info(
                "tainted" if patch.wanted else "untainted",
                node=patch.node,
                set=_texts(patch.added) or None,
                removed=_texts(patch.removed) or None,
                reason=patch.because,
            )
        case Ending.FAILED:
            log.warning("not tainted", node=patch.node, reason=outcome.says)


def tell_doubt(wishes: NodeTaints, log: Log) -> None:
    """Tells which nodes keep what they have because nobody knows better; once, till it changes."""
    doubtful = {name: wish for name, wish in wishes.items() if wish.doubt}
    for name, wish in doubtful.items():
        log.debug("in doubt", node=name, reason=wish.because)
    if not doubtful:
        log.forget("doubt")
        return
    log.only_when_new("doubt").warning(
        "taints kept as they are",
        nodes=list(doubtful)[:_NAMED],
        and_more=max(0, len(doubtful) - _NAMED) or None,
        reason=sorted({wish.doubt for wish in doubtful.values()}),
    )


def sum_up(wishes: NodeTaints, outcomes: Iterable[Outcome], took: float, log: Log) -> None:
    """The line that a round is worth."""
    every = list(outcomes)
    counts = {ending: sum(it.ending is ending for it in every) for ending in Ending}
    unsent = [it.says for it in every if it.ending is Ending.UNSENT and it.says]
    log.info(
        "round done",
        nodes=len(wishes),
        marked=sum(bool(wish.taints) for wish in wishes.values()),
        in_doubt=sum(bool(wish.doubt) for wish in wishes.values()) or None,
        written=counts[Ending.WRITTEN],
        failed=counts[Ending.FAILED] or None,
        unsent=counts[Ending.UNSENT] or None,
        cut_short=unsent[0] if unsent else None,
        took=took,
    )


def _texts(taints: Iterable[Taint]) -> list[str]:
    return [str(it) for it in taints]
