"""Which of the waiting jobs may start, and in which order.

Start with `judgement`, which decides: values in, values out, with the documented order of jobs. Not
here: what becomes of a job once it is accepted (`next_step`). From outside, import from here, or
from `arbiter`, which reads what the decision needs and writes the judgements.
"""

from resettle.controllers.migration.arbitration.judgement import (
    Arbitrated,
    Judgement,
    WaitingJob,
    arbitrate,
    pods_accepted_later,
)

__all__ = ["Arbitrated", "Judgement", "WaitingJob", "arbitrate", "pods_accepted_later"]
