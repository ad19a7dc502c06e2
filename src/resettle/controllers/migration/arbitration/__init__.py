"""Which of the waiting jobs may start, and in which order.

Start with `judgement`, which decides: values in, values out, with the documented order of jobs;
`arbiter` reads what the decision needs and writes the judgements. Not here: what becomes of a job
once it is accepted (`next_step`).

Import from outside: what is here, `arbiter`.
"""

from resettle.controllers.migration.arbitration.judgement import (
    Arbitrated,
    Judgement,
    WaitingJob,
    arbitrate,
    pods_accepted_later,
)

__all__ = ["Arbitrated", "Judgement", "WaitingJob", "arbitrate", "pods_accepted_later"]
