"""Every metric of the soft tainter, as `docs/reference/metrics.md` lists them.

What it shares with a run has the name that it has there. Its build has a name of its own, so that
a run which is gone is missed while a tainter is still scraped.
"""

from __future__ import annotations

from resettle.serving import catalogue
from resettle.serving.catalogue import Meter

_PREFIX = "resettle_soft_tainter"

ROUNDS = Meter(f"{_PREFIX}_rounds_total", "counter", "Rounds, by how they ended.", ("result",))
LAST_ROUND_TIME = Meter(
    f"{_PREFIX}_last_round_timestamp_seconds",
    "gauge",
    "When the last round ended, in Unix time; 0 before the first.",
)
LAST_ROUND_DURATION = Meter(
    f"{_PREFIX}_last_round_duration_seconds", "gauge", "How long the last round took."
)
LAST_ROUND_RESULT = Meter(
    f"{_PREFIX}_last_round_result",
    "gauge",
    "1 for how the last round ended, 0 for the other ways.",
    ("result",),
)
INTERVAL = Meter(
    f"{_PREFIX}_round_interval_seconds",
    "gauge",
    "The time from one round's start to the next; 0 for a single round.",
)
NODES = Meter(
    f"{_PREFIX}_nodes",
    "gauge",
    "Nodes that are balanced, by the band that the last round found them in.",
    ("band",),
)
MARKED = Meter(
    f"{_PREFIX}_marked_nodes",
    "gauge",
    "Nodes that should have a taint by the last round, and in a dry run would; by the name of the "
    "taint, without its prefix.",
    ("taint",),
)
IN_DOUBT = Meter(
    f"{_PREFIX}_nodes_in_doubt",
    "gauge",
    "Nodes that the last round left as they are since nobody can say how full they are, by why.",
    ("code",),
)
WRITES = Meter(
    f"{_PREFIX}_writes_total",
    "counter",
    "Nodes whose taints were to be written, by what came of it.",
    ("outcome",),
)
BUILD_INFO = Meter(
    f"{_PREFIX}_build_info", "gauge", "Always 1; which build this is.", ("version", "python")
)

GROUPS: dict[str, tuple[Meter, ...]] = {
    "Rounds of the soft tainter": (
        *(ROUNDS, LAST_ROUND_TIME, LAST_ROUND_DURATION, LAST_ROUND_RESULT, INTERVAL),
    ),
    "Nodes, as the soft tainter sees and marks them": (NODES, MARKED, IN_DOUBT, WRITES),
    "How the soft tainter stands": (BUILD_INFO,),
}
SHARED = (
    catalogue.CACHE_AGE,
    catalogue.CACHE_SYNCED,
    catalogue.ROLE,
    catalogue.POLICY_USABLE,
    catalogue.POLICY_TIME,
)
"""What it tells under the names that a run has."""
CATALOGUE = (*(meter for group in GROUPS.values() for meter in group), *SHARED)
