"""When a request may be sent: a client-side rate limiter, and which requests are repeated.

Only what was certainly not acted upon is repeated: after an overloaded server's 429 any request,
and reads also while a server is starting or about to stop. A spent budget's 429 is a response like
any other, and a request whose response was lost is judged by its caller, who knows what it did.
"""

from __future__ import annotations

from resettle.clock import SYSTEM, Clock
from resettle.errors import ClusterUnreachable
from resettle.kube.status import Answer, is_overload, status_of

DEFAULT_QPS = 5.0
DEFAULT_BURST = 10
TRIES = 6
_UNAVAILABLE = 503
_FIRST_PAUSE = 0.5
_DEFAULT_PAUSE = 1.0


class RateLimiter:
    """Client-side rate limiter: a token bucket, first come first served.

    Zero stands for the defaults of Kubernetes clients, 5 requests a second and bursts of 10.
    """

    def __init__(self, qps: float = 0, burst: int = 0, clock: Clock = SYSTEM) -> None:
        self.qps = qps or DEFAULT_QPS
        self.burst = max(burst or DEFAULT_BURST, 1)
        self._clock = clock
        self._tokens = float(self.burst)
        self._refilled_at = clock.steady()

    async def acquire(self) -> None:
        """Take a token, and wait until it is there."""
        self._refill()
        # The token is taken at once, if need be a future one: later callers wait longer, so none
        # overtakes, and waking late delays no later caller.
        self._tokens -= 1
        if self._tokens >= 0:
            return
        try:
            await self._clock.sleep(-self._tokens / self.qps)
        except BaseException:
            self._tokens += 1  # a caller that stops waiting leaves its token to the others
            raise

    def available(self) -> float:
        """How many tokens could be taken now without waiting."""
        self._refill()
        return max(0.0, self._tokens)

    def _refill(self) -> None:
        now = self._clock.steady()
        grown = (now - self._refilled_at) * self.qps
        self._tokens = min(self._tokens + grown, float(self.burst))
        self._refilled_at = now


def pause_before_retry(
    method: str, result: Answer | ClusterUnreachable, tries: int, seconds_left: float
) -> float | None:
    """Seconds to wait before the next try; None when the result is final."""
    pause = _pause(method, result, tries)
    if pause is None or tries >= TRIES or pause > seconds_left:
        return None
    return pause


def _pause(method: str, result: Answer | ClusterUnreachable, tries: int) -> float | None:
    if isinstance(result, ClusterUnreachable):
        reads = method == "GET" and result.connection_refused
        return _FIRST_PAUSE * 2 ** (tries - 1) if reads else None
    if is_overload(result):
        return status_of(result).retry_after_seconds or _DEFAULT_PAUSE
    if method == "GET" and result.status == _UNAVAILABLE:
        return status_of(result).retry_after_seconds
    return None
