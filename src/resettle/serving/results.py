"""What kubernetes-sigs/descheduler calls what became of a move, in its metric of evictions."""

from __future__ import annotations

from resettle.evict.ledger import Entry, Stage
from resettle.framework.mover import Ending
from resettle.framework.verdict import Limit

SUCCESS, ERROR, BACKGROUND = "success", "error", "background"

AT_ONCE = {
    Ending.EVICTED: SUCCESS,
    Ending.SHOWN: SUCCESS,  # so it counts in a dry run
    Ending.BACKGROUND: BACKGROUND,
    Ending.BUDGET: ERROR,
    Ending.WEBHOOK: ERROR,
    Ending.ERROR: ERROR,
}
"""Moves that were not asked for count nowhere, and those whose answer was lost count later."""

LIMITED = {
    Limit.TOTAL: "maximum number of evicted pods per a descheduling cycle reached",
    Limit.NODE: "maximum number of evicted pods per node reached",
    Limit.NAMESPACE: "maximum number of evicted pods per namespace reached",
}


def in_the_end(entry: Entry, left: bool) -> str:
    """The result of a move that was in flight; empty if it has been counted, or was not ours."""
    if entry.stage is Stage.EVICTED or not entry.plugin:
        return ""
    return SUCCESS if left else ERROR
