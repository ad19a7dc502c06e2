"""Which requests are worth another try, and when.

Only what was certainly not acted upon: an overloaded server's 429 whatever was asked, and for
reading also a server that is starting or about to stop. A spent budget's 429 is an answer like any
other, and a request whose answer was lost is for those to judge who know what it did.
"""

from __future__ import annotations

from resettle.cluster.statuses import Answer, is_overload, status_of
from resettle.errors import ClusterUnreachable

TRIES = 6
_UNAVAILABLE = 503
_FIRST_PAUSE = 0.5
_PAUSE_UNTOLD = 1.0


def pause_before_retry(
    method: str, heard: Answer | ClusterUnreachable, tries: int, seconds_left: float
) -> float | None:
    """How long to wait before the next try; None when what was heard is the end of it."""
    pause = _pause(method, heard, tries)
    if pause is None or tries >= TRIES or pause > seconds_left:
        return None
    return pause


def _pause(method: str, heard: Answer | ClusterUnreachable, tries: int) -> float | None:
    if isinstance(heard, ClusterUnreachable):
        reads = method == "GET" and heard.nobody_there
        return _FIRST_PAUSE * 2 ** (tries - 1) if reads else None
    if is_overload(heard):
        return status_of(heard).retry_after_seconds or _PAUSE_UNTOLD
    if method == "GET" and heard.status == _UNAVAILABLE:
        return status_of(heard).retry_after_seconds
    return None
