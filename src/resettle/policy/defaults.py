"""Safe defaults: what `resettle/v1` goes by where a policy says nothing.

Whatever is written wins, be it `false` or `0`. Policies of the descheduler have none of these.
"""

from __future__ import annotations

from msgspec import Struct

from resettle.policy.known import GUARD

TAINTS = "RemovePodsViolatingNodeTaints"
NODE_FIT = True
MIN_REPLICAS = 2
MIN_POD_AGE = "10m"
MIN_TAINT_AGE = "10m"
PERCENT_OF_PODS = 1.0
PERCENT_OF_NODES = 5.0


class SafeDefault(Struct, frozen=True, kw_only=True):
    """One default in words: where it applies, what it does, and what to do about it."""

    plugin: str = ""
    """Whose argument it is; empty for a key of the top level."""
    unless: tuple[str, ...]
    """Keys any of which, once written, stands in its place."""
    says: str
    remedy: str


SAFE_DEFAULTS = (
    SafeDefault(
        unless=("maxNoOfPodsToEvictTotal", "maxPercentOfPodsToEvict"),
        says=f"at most {PERCENT_OF_PODS:g}% of all pods move in a cycle",
        remedy="write `maxPercentOfPodsToEvict: 100` for no such limit",
    ),
    SafeDefault(
        unless=("maxPercentOfNodesToEvictFrom",),
        says=f"pods leave at most {PERCENT_OF_NODES:g}% of the nodes in a cycle",
        remedy="write `maxPercentOfNodesToEvictFrom: 100` for no such limit",
    ),
    SafeDefault(
        plugin=GUARD,
        unless=("nodeFit",),
        says="`nodeFit` is on",
        remedy="write `nodeFit: false` to keep it off",
    ),
    SafeDefault(
        plugin=GUARD,
        unless=("minReplicas",),
        says=f"`minReplicas` is {MIN_REPLICAS}, so the only pod of an owner stays",
        remedy="write `minReplicas: 0` to let it go",
    ),
    SafeDefault(
        plugin=GUARD,
        unless=("minPodAge",),
        says=f"`minPodAge` is {MIN_POD_AGE}, so pods that have just started stay",
        remedy="write `minPodAge: 0s` to let them go",
    ),
    SafeDefault(
        plugin=TAINTS,
        unless=("includedTaints",),
        says="taints of the life cycle of nodes do not count",
        remedy="list every taint that should in `includedTaints`",
    ),
    SafeDefault(
        plugin=TAINTS,
        unless=("minTaintAge",),
        says=f"taints younger than {MIN_TAINT_AGE} do not count",
        remedy="write `minTaintAge: 0s` to have them count",
    ),
)
