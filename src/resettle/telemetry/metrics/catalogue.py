"""Every metric of a run and of the soft tainter: name, kind, labels and meaning.

`docs/reference/metrics.md` is generated from here. Metrics that begin with `descheduler_` are
exactly those of kubernetes-sigs/descheduler (upstream), so that its dashboards and alerts go on
working, and four of OpenShift's build of it. Some of those have namespace and node as labels. Ours
have no label whose values grow with the cluster.
"""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

Kind = Literal["counter", "gauge", "histogram"]

_BUCKETS = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 25, 50, 100)
_PLUGIN = ("profile", "plugin")


class Metric(Struct, frozen=True):
    """Name, kind and meaning of one metric."""

    name: str
    kind: Kind
    help: str
    labels: tuple[str, ...] = ()
    buckets: tuple[float, ...] = ()
    older_name: str = ""
    """The deprecated name under which the same values are exposed once more."""


# -- of kubernetes-sigs/descheduler --------------------------------------------------------------

PODS_EVICTED = Metric(
    "descheduler_pods_evicted_total",
    "counter",
    "Moves by result: granted, refused, failed, held back by a limit; in a dry run, would be "
    "granted.",
    ("result", "strategy", "profile", "namespace", "node"),
    older_name="descheduler_pods_evicted",
)
LOOP_DURATION = Metric(
    "descheduler_loop_duration_seconds",
    "histogram",
    "How long cycles took, those that were skipped or failed included.",
    buckets=(*_BUCKETS, 250, 500),
    older_name="descheduler_descheduler_loop_duration_seconds",
)
STRATEGY_DURATION = Metric(
    "descheduler_strategy_duration_seconds",
    "histogram",
    "How long strategies took to decide in a cycle.",
    ("strategy", "profile"),
    _BUCKETS,
    older_name="descheduler_descheduler_strategy_duration_seconds",
)
UPSTREAM_BUILD_INFO = Metric(
    "descheduler_build_info",
    "gauge",
    "Always 1; which build this is.",
    ("GoVersion", "AppVersion", "DeschedulerVersion", "GitBranch", "GitSha1"),
)

# -- of OpenShift's build of it ------------------------------------------------------------------

NODE_UTILIZATION = Metric(
    "descheduler_lownodeutilization_node_utilization_value",
    "gauge",
    "What a node uses, from 0 to 1, as LowNodeUtilization measured it in the last cycle.",
    ("node", "resource"),
)
NODE_THRESHOLD = Metric(
    "descheduler_lownodeutilization_node_utilization_threshold",
    "gauge",
    "The thresholds of the node, from 0 to 1.",
    ("node", "resource", "threshold_type"),
)
NODE_BAND = Metric(
    "descheduler_lownodeutilization_node_classification",
    "gauge",
    "Its band: 0 under, 1 within, 2 over; a node that was not measured is left out.",
    ("node",),
)
THRESHOLD_MODE = Metric(
    "descheduler_lownodeutilization_threshold_mode",
    "gauge",
    "1 if the thresholds follow the mean of all nodes, 0 if they are fixed.",
)

# -- cycles --------------------------------------------------------------------------------------

CYCLES = Metric("resettle_cycles_total", "counter", "Cycles, by result.", ("result",))
LAST_CYCLE_TIME = Metric(
    "resettle_last_cycle_timestamp_seconds",
    "gauge",
    "When the last cycle ended, in Unix time; 0 before the first.",
)
LAST_CYCLE_DURATION = Metric(
    "resettle_last_cycle_duration_seconds", "gauge", "How long the last cycle took."
)
LAST_CYCLE_RESULT = Metric(
    "resettle_last_cycle_result",
    "gauge",
    "1 for the result of the last cycle, 0 for the other results.",
    ("result",),
)
INTERVAL = Metric(
    "resettle_cycle_interval_seconds",
    "gauge",
    "The time from one cycle's start to the next; 0 for a single cycle.",
)
PHASE_DURATION = Metric(
    "resettle_phase_duration_seconds",
    "histogram",
    "How long the phases of a cycle took.",
    ("phase",),
    (*_BUCKETS, 250, 500),
)

# -- deciding ------------------------------------------------------------------------------------

POINT_DURATION = Metric(
    "resettle_extension_point_duration_seconds",
    "histogram",
    "How long plugins ran in a cycle, by extension point.",
    ("point", *_PLUGIN),
    _BUCKETS,
)
POINT_RUNS = Metric(
    "resettle_extension_point_runs_total",
    "counter",
    "Runs of plugins, by extension point and result.",
    ("point", *_PLUGIN, "result"),
)
VERDICTS = Metric(
    "resettle_verdicts_total",
    "counter",
    "Verdicts on proposals; refusals by their code. A plan that is drawn again counts again.",
    (*_PLUGIN, "verdict", "code"),
)
PLAN_MOVES = Metric("resettle_plan_moves", "gauge", "Moves that the last cycle planned.")
PLAN_PODS = Metric("resettle_plan_pods", "gauge", "Pods that the last cycle looked at.")
PLAN_NODES = Metric("resettle_plan_nodes", "gauge", "Nodes in the scope of the last cycle.")
NODES = Metric(
    "resettle_nodes",
    "gauge",
    "Nodes by the band that a balancing plugin found them in, in the last cycle.",
    (*_PLUGIN, "band"),
)
TEMPLATES_PER_POD = Metric(
    "resettle_templates_per_pod",
    "gauge",
    "Distinct pod templates per pod; close to 1 means that little could be shared.",
)

# -- acting --------------------------------------------------------------------------------------

MOVES = Metric(
    "resettle_moves_total",
    "counter",
    "Moves that were requested, by the response.",
    (*_PLUGIN, "outcome"),
)
IN_FLIGHT = Metric(
    "resettle_moves_in_flight",
    "gauge",
    "Moves whose pods have not left yet, by stage.",
    ("stage",),
)

CONTROLLER_RUNNING = Metric(
    "resettle_controller_running",
    "gauge",
    "1 while a controller of a plugin runs, 0 while it waits to be started again.",
    ("profile", "controller"),
)
CONTROLLER_RESTARTS = Metric(
    "resettle_controller_restarts",
    "gauge",
    "How often a controller was started again after it failed, since this process leads.",
    ("profile", "controller"),
)
CONTROLLER_FIGURES = Metric(
    "resettle_controller_figure",
    "gauge",
    "Figures that a controller of a plugin reports, such as how many objects wait for it.",
    ("profile", "controller", "figure"),
)
CONTROLLER_METRICS = (CONTROLLER_RUNNING, CONTROLLER_RESTARTS, CONTROLLER_FIGURES)

# -- state -------------------------------------------------------------------------------

CACHE_AGE = Metric(
    "resettle_cache_age_seconds",
    "gauge",
    "Time since the cache of a kind was last known to be complete.",
    ("kind",),
)
CACHE_SYNCED = Metric(
    "resettle_cache_synced", "gauge", "1 once every kind that the policy needs has been listed."
)
ROLE = Metric(
    "resettle_role", "gauge", "1 for the role in leader election, 0 for other roles.", ("role",)
)
POLICY_USABLE = Metric(
    "resettle_policy_last_reload_successful",
    "gauge",
    "1 if the policy file was valid when it was last read, else 0.",
)
POLICY_TIME = Metric(
    "resettle_policy_last_reload_success_timestamp_seconds",
    "gauge",
    "When the policy in use was loaded, in Unix time; 0 before the first.",
)
BUILD_INFO = Metric(
    "resettle_build_info", "gauge", "Always 1; which build this is.", ("version", "python")
)

RUN_GROUPS: dict[str, tuple[Metric, ...]] = {
    "As kubernetes-sigs/descheduler has them": (
        *(PODS_EVICTED, LOOP_DURATION, STRATEGY_DURATION, UPSTREAM_BUILD_INFO),
    ),
    "As OpenShift's descheduler has them": (
        NODE_UTILIZATION,
        NODE_THRESHOLD,
        NODE_BAND,
        THRESHOLD_MODE,
    ),
    "Cycles": (
        *(CYCLES, LAST_CYCLE_TIME, LAST_CYCLE_DURATION, LAST_CYCLE_RESULT),
        *(INTERVAL, PHASE_DURATION),
    ),
    "Deciding": (
        *(POINT_DURATION, POINT_RUNS, VERDICTS),
        *(PLAN_MOVES, PLAN_PODS, PLAN_NODES, NODES, TEMPLATES_PER_POD),
    ),
    "Acting": (MOVES, IN_FLIGHT, *CONTROLLER_METRICS),
    "State": (CACHE_AGE, CACHE_SYNCED, ROLE, POLICY_USABLE, POLICY_TIME, BUILD_INFO),
}
RUN_CATALOGUE = tuple(metric for group in RUN_GROUPS.values() for metric in group)

# -- of the soft tainter -------------------------------------------------------------------------
# Its build has a name of its own, so that an absent run is noticed while a tainter is scraped.

_PREFIX = "resettle_soft_tainter"

ROUNDS = Metric(f"{_PREFIX}_rounds_total", "counter", "Rounds, by result.", ("result",))
LAST_ROUND_TIME = Metric(
    f"{_PREFIX}_last_round_timestamp_seconds",
    "gauge",
    "When the last round ended, in Unix time; 0 before the first.",
)
LAST_ROUND_DURATION = Metric(
    f"{_PREFIX}_last_round_duration_seconds", "gauge", "How long the last round took."
)
LAST_ROUND_RESULT = Metric(
    f"{_PREFIX}_last_round_result",
    "gauge",
    "1 for the result of the last round, 0 for the other results.",
    ("result",),
)
ROUND_INTERVAL = Metric(
    f"{_PREFIX}_round_interval_seconds",
    "gauge",
    "The time from one round's start to the next; 0 for a single round.",
)
NODES_BY_BAND = Metric(
    f"{_PREFIX}_nodes",
    "gauge",
    "Nodes that are balanced, by the band that the last round found them in.",
    ("band",),
)
MARKED_NODES = Metric(
    f"{_PREFIX}_marked_nodes",
    "gauge",
    "Nodes that should have a taint by the last round, and in a dry run would; by the name of the "
    "taint, without its prefix.",
    ("taint",),
)
NODES_IN_DOUBT = Metric(
    f"{_PREFIX}_nodes_in_doubt",
    "gauge",
    "Nodes that the last round left as they are since their usage is unknown, by reason.",
    ("code",),
)
WRITES = Metric(
    f"{_PREFIX}_writes_total",
    "counter",
    "Nodes whose taints were to be written, by result.",
    ("outcome",),
)
SOFT_TAINTER_BUILD_INFO = Metric(
    f"{_PREFIX}_build_info", "gauge", "Always 1; which build this is.", ("version", "python")
)

# -- of the migration controller -----------------------------------------------------------------

MIGRATION_CONTROLLER_BUILD_INFO = Metric(
    "resettle_migration_controller_build_info",
    "gauge",
    "Always 1; which build this is.",
    ("version", "python"),
)
MIGRATION_CONTROLLER_GROUPS: dict[str, tuple[Metric, ...]] = {
    "State of the migration controller": (MIGRATION_CONTROLLER_BUILD_INFO,),
}

SOFT_TAINTER_GROUPS: dict[str, tuple[Metric, ...]] = {
    "Rounds of the soft tainter": (
        *(ROUNDS, LAST_ROUND_TIME, LAST_ROUND_DURATION, LAST_ROUND_RESULT, ROUND_INTERVAL),
    ),
    "Nodes, as the soft tainter sees and marks them": (
        NODES_BY_BAND,
        MARKED_NODES,
        NODES_IN_DOUBT,
        WRITES,
    ),
    "State of the soft tainter": (SOFT_TAINTER_BUILD_INFO,),
}
SHARED = (
    CACHE_AGE,
    CACHE_SYNCED,
    ROLE,
    POLICY_USABLE,
    POLICY_TIME,
)
"""What the soft tainter exposes under the names that a run has."""
SOFT_TAINTER_CATALOGUE = (
    *(metric for group in SOFT_TAINTER_GROUPS.values() for metric in group),
    *SHARED,
)
