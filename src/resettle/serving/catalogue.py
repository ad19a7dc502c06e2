"""Every metric there is: name, kind, labels and meaning, as `docs/reference/metrics.md` lists them.

Those that begin with `descheduler_` are kubernetes-sigs/descheduler's, to the letter, so that its
dashboards and alerts go on working, and four of OpenShift's build of it; a `twin` is the name that
one of them had before. Namespace and node are labels of theirs. Ours have none that grows with the
cluster.
"""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

Kind = Literal["counter", "gauge", "histogram"]

_BUCKETS = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 25, 50, 100)
_PLUGIN = ("profile", "plugin")


class Meter(Struct, frozen=True):
    """What one metric is called, and what it says."""

    name: str
    kind: Kind
    says: str
    labels: tuple[str, ...] = ()
    buckets: tuple[float, ...] = ()
    twin: str = ""
    """The deprecated name under which the same is told once more."""


# -- of kubernetes-sigs/descheduler --------------------------------------------------------------

PODS_EVICTED = Meter(
    "descheduler_pods_evicted_total",
    "counter",
    "Pods that a plan would move, by what came of it.",
    ("result", "strategy", "profile", "namespace", "node"),
    twin="descheduler_pods_evicted",
)
LOOP_DURATION = Meter(
    "descheduler_loop_duration_seconds",
    "histogram",
    "How long cycles took, those that were skipped or failed included.",
    buckets=(*_BUCKETS, 250, 500),
    twin="descheduler_descheduler_loop_duration_seconds",
)
STRATEGY_DURATION = Meter(
    "descheduler_strategy_duration_seconds",
    "histogram",
    "How long strategies took to decide in a cycle.",
    ("strategy", "profile"),
    _BUCKETS,
    twin="descheduler_descheduler_strategy_duration_seconds",
)
PEER_BUILD_INFO = Meter(
    "descheduler_build_info",
    "gauge",
    "Always 1; which build this is.",
    ("GoVersion", "AppVersion", "DeschedulerVersion", "GitBranch", "GitSha1"),
)

# -- of OpenShift's build of it ------------------------------------------------------------------

NODE_SHARE = Meter(
    "descheduler_lownodeutilization_node_utilization_value",
    "gauge",
    "What a node uses, from 0 to 1, as LowNodeUtilization found it in the last cycle.",
    ("node", "resource"),
)
NODE_LINE = Meter(
    "descheduler_lownodeutilization_node_utilization_threshold",
    "gauge",
    "The lines it was held against, from 0 to 1.",
    ("node", "resource", "threshold_type"),
)
NODE_BAND = Meter(
    "descheduler_lownodeutilization_node_classification",
    "gauge",
    "Its band: 0 under, 1 within, 2 over; a node that was not measured is not told of.",
    ("node",),
)
LINES_MODE = Meter(
    "descheduler_lownodeutilization_threshold_mode",
    "gauge",
    "1 if the lines follow the mean of all nodes, 0 if they stand still.",
)

# -- cycles --------------------------------------------------------------------------------------

CYCLES = Meter("resettle_cycles_total", "counter", "Cycles, by how they ended.", ("result",))
LAST_CYCLE_TIME = Meter(
    "resettle_last_cycle_timestamp_seconds",
    "gauge",
    "When the last cycle ended, in Unix time; 0 before the first.",
)
LAST_CYCLE_DURATION = Meter(
    "resettle_last_cycle_duration_seconds", "gauge", "How long the last cycle took."
)
LAST_CYCLE_RESULT = Meter(
    "resettle_last_cycle_result",
    "gauge",
    "1 for how the last cycle ended, 0 for the other ways.",
    ("result",),
)
INTERVAL = Meter(
    "resettle_cycle_interval_seconds",
    "gauge",
    "The time from one cycle's start to the next; 0 for a single cycle.",
)
PHASE_DURATION = Meter(
    "resettle_phase_duration_seconds",
    "histogram",
    "How long the phases of a cycle took.",
    ("phase",),
    (*_BUCKETS, 250, 500),
)

# -- deciding ------------------------------------------------------------------------------------

POINT_DURATION = Meter(
    "resettle_extension_point_duration_seconds",
    "histogram",
    "How long plugins were at work in a cycle, by extension point.",
    ("point", *_PLUGIN),
    _BUCKETS,
)
POINT_RUNS = Meter(
    "resettle_extension_point_runs_total",
    "counter",
    "Turns of plugins, by extension point and by how they ended.",
    ("point", *_PLUGIN, "result"),
)
VERDICTS = Meter(
    "resettle_verdicts_total",
    "counter",
    "Answers to proposals; refusals by their code. A plan that is drawn again counts again.",
    (*_PLUGIN, "verdict", "code"),
)
PLAN_MOVES = Meter("resettle_plan_moves", "gauge", "Moves that the last cycle planned.")
PLAN_PODS = Meter("resettle_plan_pods", "gauge", "Pods that the last cycle looked at.")
PLAN_NODES = Meter("resettle_plan_nodes", "gauge", "Nodes in the scope of the last cycle.")
NODES = Meter(
    "resettle_nodes",
    "gauge",
    "Nodes by the band that a balancing plugin found them in, in the last cycle.",
    (*_PLUGIN, "band"),
)
TEMPLATES_PER_POD = Meter(
    "resettle_templates_per_pod",
    "gauge",
    "Distinct pod templates for each pod; close to 1 means that little could be shared.",
)

# -- acting --------------------------------------------------------------------------------------

MOVES = Meter(
    "resettle_moves_total",
    "counter",
    "Moves that were tried, by what came of them at once.",
    (*_PLUGIN, "outcome"),
)
IN_FLIGHT = Meter(
    "resettle_moves_in_flight",
    "gauge",
    "Pods on their way that have not been seen to leave, by how far they have come.",
    ("stage",),
)

# -- how it stands -------------------------------------------------------------------------------

CACHE_AGE = Meter(
    "resettle_cache_age_seconds",
    "gauge",
    "Time since all there was to know of a kind was known.",
    ("kind",),
)
CACHE_SYNCED = Meter(
    "resettle_cache_synced", "gauge", "1 once every kind that the policy needs has been listed."
)
ROLE = Meter(
    "resettle_role", "gauge", "1 for the part we play in leader election, 0 for others.", ("role",)
)
POLICY_USABLE = Meter(
    "resettle_policy_last_reload_successful",
    "gauge",
    "1 if the policy could be used when its file was last read, else 0.",
)
POLICY_TIME = Meter(
    "resettle_policy_last_reload_success_timestamp_seconds",
    "gauge",
    "When the policy in force was taken, in Unix time; 0 before the first.",
)
BUILD_INFO = Meter(
    "resettle_build_info", "gauge", "Always 1; which build this is.", ("version", "python")
)

GROUPS: dict[str, tuple[Meter, ...]] = {
    "As kubernetes-sigs/descheduler has them": (
        *(PODS_EVICTED, LOOP_DURATION, STRATEGY_DURATION, PEER_BUILD_INFO),
    ),
    "As OpenShift's descheduler has them": (NODE_SHARE, NODE_LINE, NODE_BAND, LINES_MODE),
    "Cycles": (
        *(CYCLES, LAST_CYCLE_TIME, LAST_CYCLE_DURATION, LAST_CYCLE_RESULT),
        *(INTERVAL, PHASE_DURATION),
    ),
    "Deciding": (
        *(POINT_DURATION, POINT_RUNS, VERDICTS),
        *(PLAN_MOVES, PLAN_PODS, PLAN_NODES, NODES, TEMPLATES_PER_POD),
    ),
    "Acting": (MOVES, IN_FLIGHT),
    "How it stands": (CACHE_AGE, CACHE_SYNCED, ROLE, POLICY_USABLE, POLICY_TIME, BUILD_INFO),
}
CATALOGUE = tuple(meter for group in GROUPS.values() for meter in group)
