"""The state machine of a job: what comes next for it, from its status and what was observed.

No request is made here and no clock is read. Start with `machine`, which has a drawing of the
states; `before_eviction` and `after_eviction` are its halves, `job_pass` is what both use.
"""

from resettle.controllers.migration.next_step.before_eviction import why_not_reservable
from resettle.controllers.migration.next_step.machine import next_step

__all__ = ["next_step", "why_not_reservable"]
