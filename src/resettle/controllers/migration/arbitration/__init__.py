"""Which of the waiting jobs may start, and in which order.

`judgement` decides: values in, values out, with the documented order of jobs. `arbiter` reads what
the decision needs, and writes the judgements.
"""

from resettle.controllers.migration.arbitration.judgement import (
    Arbitrated,
    Judgement,
    WaitingJob,
    arbitrate,
    pods_accepted_later,
)

__all__ = ["Arbitrated", "Judgement", "WaitingJob", "arbitrate", "pods_accepted_later"]
