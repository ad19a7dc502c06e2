"""Not more requests than agreed upon: a bucket that fills steadily and lends out turns in order."""

from __future__ import annotations

from resettle.clock import SYSTEM, Clock

DEFAULT_QPS = 5.0
DEFAULT_BURST = 10


class Pace:
    """So many turns a second, and so many at once after a rest.

    Zero stands for the defaults of Kubernetes clients, 5 and 10.
    """

    def __init__(self, qps: float = 0, burst: int = 0, clock: Clock = SYSTEM) -> None:
        self.qps = qps or DEFAULT_QPS
        self.burst = max(burst or DEFAULT_BURST, 1)
        self._clock = clock
        self._left = float(self.burst)
        self._counted_at = clock.steady()

    async def turn(self) -> None:
        """Returns when it is the caller's turn; first come, first served."""
        self._refill()
        # The turn is taken at once, if need be from what is still to come: who asks next waits
        # longer, so nobody overtakes, and waking late costs no later turn.
        self._left -= 1
        if self._left >= 0:
            return
        try:
            await self._clock.sleep(-self._left / self.qps)
        except BaseException:
            self._left += 1  # who left the queue leaves its turn to others
            raise

    def at_once(self) -> float:
        """How many turns could be had now without waiting."""
        self._refill()
        return max(0.0, self._left)

    def _refill(self) -> None:
        now = self._clock.steady()
        grown = (now - self._counted_at) * self.qps
        self._left = min(self._left + grown, float(self.burst))
        self._counted_at = now
