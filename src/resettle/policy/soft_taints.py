"""`softTaints`: how the soft tainter marks nodes that are too full.

It stands in the policy, beside the thresholds it goes by: both are checked, changed and taken anew
together. A policy of the descheduler has no words for it and gets what stands here unwritten.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Annotated, Literal

from msgspec import Meta

from resettle.policy.args import Args
from resettle.policy.problem import Problem

BALANCER = "LowNodeUtilization"
"""The plugin whose thresholds and source of usage the tainter shares."""
PREFIXES = {
    "Levels": "nodeutilization.descheduler.kubernetes.io",
    "OpenShift": "nodeutilization.descheduler.openshift.io",
}
"""What stands before the `/` of a key unless a policy says otherwise, for each style."""
MOST_LEVELS = 10
_DOMAIN = re.compile(
    r"(?=.{1,253}$)[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*"
)

Points = Annotated[float, Meta(ge=0, le=100, description="a number of percentage points")]
Percent = Annotated[float, Meta(gt=0, le=100, description="a share in percent")]


class SoftTaints(Args, frozen=True, kw_only=True):
    """Which soft taints a node gets, and how many nodes may have some."""

    profile: str = ""
    """Whose thresholds to go by, where several profiles have some."""
    style: Literal["Levels", "OpenShift"] = "Levels"
    prefix: str = ""
    levels: Annotated[int, Meta(ge=1, le=MOST_LEVELS)] = 1
    scale: Literal["Linear", "Exponential"] = "Linear"
    release_margin: Points = 0.0
    max_percent_of_nodes: Percent | None = None

    @property
    def domain(self) -> str:
        """What stands before the `/` of every key."""
        return self.prefix or PREFIXES[self.style]

    def problems(self) -> Iterator[Problem]:
        if self.prefix and not _DOMAIN.fullmatch(self.prefix):
            yield Problem(
                what=f"`{self.prefix}` cannot stand before the `/` of a taint's key",
                fix=f"write a domain such as `{PREFIXES['Levels']}`",
                at=("prefix",),
            )
        if self.style == "OpenShift" and self.levels > 1:
            yield Problem(
                what="the style `OpenShift` has two taints and no levels",
                fix="remove `levels`, or write `style: Levels`",
                at=("levels",),
            )
