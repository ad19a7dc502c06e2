"""The load rules, evaluated by a real Prometheus: right to the ninth digit, or absent."""

from __future__ import annotations

import asyncio
import math
import subprocess
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

import pytest
import yaml

from resettle.kube.auth.access import Access
from resettle.kube.transport.client import Client
from resettle.model.measurements import PROMETHEUS, MetricsQuery, Readings
from resettle.model.resources import NANO
from resettle.model.semantics import PARITY
from resettle.policy.document import Prometheus
from resettle.testing import cluster, node
from resettle.utilization.measured_usage import METRIC, PrometheusUsage
from resettle.utilization.metrics_args import MAX_AGE
from resettle.utilization.sources.prometheus import PrometheusServer
from tests.deploy.monitoring import LOAD_RULES
from tests.deploy.test_load_rules import PUBLIC
from tests.e2e.cluster.workspace import eventually
from tests.e2e.servers.alerting_prometheus import load_rules, promtool
from tests.e2e.servers.exporters import Exporter, Load
from tests.e2e.servers.page_prometheus import PagePrometheus

NODES = ("n1", "n2", "n3")
WORKERS = dict.fromkeys(NODES, "worker")
Values = dict[str, float]
Records = dict[str, Values]
"""The value of each node, by record; a record about all nodes has the empty name."""

COMBINED = "descheduler:combined_utilization_and_pressure:avg1m"
DISTANCE = "descheduler:node:ideal_point_positive_distance:avg1m"
K3 = "descheduler:node:linear_amplified_ideal_point_positive_distance:k3:avg1m"
PRIORITY = "descheduler:node:actuation_priority:p66_5m"


def loads(*rows: tuple[float, float, float, float]) -> dict[str, Load]:
    return {name: Load(*row) for name, row in zip(NODES, rows, strict=True)}


A = loads((0.9, 0.5, 0.5, 0.0), (0.5, 0.4, 0.5, 0.0), (0.4, 0.1, 0.5, 0.0))
"""One node is busy and under pressure; the cluster as a whole has free capacity."""
B = loads((0.62, 0.0, 0.3, 0.0), (0.5, 0.0, 0.48, 0.0), (0.38, 0.0, 0.3, 0.0))
"""One node is above the mean in cpu, another in memory, by the same distance."""
C = loads((0.95, 0.6, 0.85, 0.3), (0.9, 0.2, 0.6, 0.3), (0.85, 0.1, 0.5, 0.0))
"""All nodes are busy, and one of them is under pressure."""
CONTROL_PLANE = {"cp": Load(0.1, 0.0, 0.1, 0.0)}


class Case(NamedTuple):
    """A cluster, and the expected values of its records."""

    exporter: Exporter
    loads: Mapping[str, Load]
    combined: tuple[float, ...]
    distance: float
    """The distance of the first node."""
    k3: tuple[float, ...]
    evictions: Mapping[str, float] = {}


OF_A = ((0.9, 0.5, 0.4), 0.448454, (1.0, 0.0, 0.0))
OF_B = ((0.62, 0.5, 0.38), 0.12, (0.36, 0.36, 0.0))
FOUR = {"n1": 4.0}
CASES = {
    "A": lambda: Case(Exporter(A, roles=WORKERS), A, *OF_A),
    "B": lambda: Case(Exporter(B, roles=WORKERS), B, *OF_B),
    "C": lambda: Case(Exporter(C, roles=WORKERS), C, (0.6, 0.2, 0.1), 0.415331, (1.0, 0.0, 0.0)),
    "A without roles": lambda: Case(Exporter(A, roles={}), A, *OF_A),
    "A without kube-state-metrics": lambda: Case(
        Exporter(A, roles={}, allocatable=False), A, *OF_A
    ),
    "A beside a control plane": lambda: Case(
        Exporter(A | CONTROL_PLANE, roles={**WORKERS, "cp": "control-plane"}),
        A | CONTROL_PLANE,
        *OF_A,
    ),
    "A, and only the control plane has a role": lambda: Case(
        Exporter(A | CONTROL_PLANE, roles={"cp": "control-plane"}), A | CONTROL_PLANE, *OF_A
    ),
    "B after four evictions": lambda: Case(
        Exporter(B, roles=WORKERS, evictions=FOUR), B, *OF_B, FOUR
    ),
}


def expected_records(case: Case) -> Records:
    """The expected value of every record; only workers count in a mean."""
    kinds = {
        "utilization:cpu": {name: load.cpu for name, load in case.loads.items()},
        "utilization:memory": {name: load.memory for name, load in case.loads.items()},
        "pressure:cpu": {
            name: load.cpu_pressure if load.cpu > 0.7 else 0.0 for name, load in case.loads.items()
        },
        "pressure:memory": {
            name: load.memory_pressure if load.memory > 0.7 else 0.0
            for name, load in case.loads.items()
        },
    }
    records: Records = {}
    for kind, figures in kinds.items():
        mean = sum(figures[name] for name in NODES) / len(NODES)
        above = {name: max(figure - mean, 0.0) for name, figure in figures.items()}
        records[f"descheduler:node{kind}:avg1m"] = figures
        records[f"descheduler:averageworkers{kind}:avg1m"] = {"": mean}
        for over in ("avg1m", "p66_5m"):
            records[f"descheduler:node{kind}:{over}:positivedeviation"] = above
    for over in ("avg1m", "p66_5m"):
        distance = {
            name: math.hypot(
                *(
                    records[f"descheduler:node{kind}:{over}:positivedeviation"][name]
                    for kind in kinds
                )
            )
            for name in case.loads
        }
        records[f"descheduler:node:ideal_point_positive_distance:{over}"] = distance
        amplified = {name: min(3 * value, 1.0) for name, value in distance.items()}
        records[f"descheduler:node:linear_amplified_ideal_point_positive_distance:k3:{over}"] = (
            amplified
        )
    busy = records["descheduler:averageworkersutilization:cpu:avg1m"][""] >= 0.8
    records[COMBINED] = kinds["pressure:cpu" if busy else "utilization:cpu"]
    evictions = {name: case.evictions.get(name, 0.0) for name in case.loads}
    damped = {name: max(1 - 0.1 * count, 0.01) for name, count in evictions.items()}
    records["descheduler:node:eviction_count:10m"] = evictions
    records["descheduler:node:cooldown_multiplier:10m"] = damped
    records[PRIORITY] = {name: amplified[name] * damped[name] for name in case.loads}
    return records


def records_of(prometheus: PagePrometheus) -> Records:
    """The records in Prometheus."""
    records: Records = {}
    for series in prometheus.query('{__name__=~"descheduler:.+"}'):
        metric = series["metric"]
        figures = records.setdefault(metric["__name__"], {})
        figures[metric.get("instance", "")] = float(series["value"][1])
    return records


def are_equal(some: Records, others: Records) -> bool:
    return some.keys() == others.keys() and all(
        figures.keys() == others[record].keys()
        and all(abs(figure - others[record][name]) < 1e-9 for name, figure in figures.items())
        for record, figures in some.items()
    )


def start_prometheus(folder: Path, exporter: Exporter) -> PagePrometheus:
    """A Prometheus that evaluates the rules every second, with the history of the last minutes."""
    return PagePrometheus(folder, exporter.page, rules=load_rules(), history=exporter.history())


def percentages(prometheus: PagePrometheus, query: str) -> list[int | str]:
    """The percentage that resettle reads for each node, or the code of the problem."""
    question = MetricsQuery(PROMETHEUS, query)

    async def read() -> Readings:
        async with Client(Access(server="http://127.0.0.1:1")) as unused_client:
            server = PrometheusServer(Prometheus(url=prometheus.url), unused_client, environment={})
            try:
                return (await server.answers(frozenset({question})))[question]
            finally:
                await server.close()

    view = cluster(*map(node, NODES), now=datetime.now(UTC)).view(PARITY)
    usage = PrometheusUsage(view, {METRIC: asyncio.run(read())}, MAX_AGE)
    return [
        problem.code if (problem := usage.problem(node)) else usage.of_node(node)[METRIC] // NANO
        for node in view.nodes
    ]


@pytest.mark.parametrize("name", CASES)
def test_every_record_has_the_expected_value_and_resettle_reads_it(
    name: str, tmp_path: Path
) -> None:
    case = CASES[name]()
    wanted = expected_records(case)
    assert wanted.keys() == PUBLIC
    assert [wanted[COMBINED][node_name] for node_name in NODES] == pytest.approx(case.combined)
    assert wanted[DISTANCE]["n1"] == pytest.approx(case.distance, abs=1e-6)
    assert [wanted[K3][node_name] for node_name in NODES] == pytest.approx(case.k3, abs=1e-9)
    with start_prometheus(tmp_path, case.exporter) as prometheus:
        records: Records = {}

        def is_right() -> bool:
            records.clear()
            records.update(records_of(prometheus))
            return are_equal(records, wanted)

        eventually(f"the records of {name}", is_right)
        for record in (COMBINED, K3):
            # A value just below a whole percent is rounded down.
            exact = [wanted[record][node_name] * 100 for node_name in NODES]
            for percent, share in zip(percentages(prometheus, record), exact, strict=True):
                assert percent in {int(share - 1e-7), int(share + 1e-7)}
    if case.evictions:
        assert [records[PRIORITY][node_name] for node_name in NODES] == pytest.approx(
            [0.216, 0.36, 0.0]
        )


def test_without_pressure_metrics_only_utilization_is_recorded(
    tmp_path: Path,
) -> None:
    with start_prometheus(tmp_path, Exporter(A, roles=WORKERS, pressure=False)) as prometheus:
        combined = expected_records(CASES["A"]())[COMBINED]
        eventually(
            "utilization of cpu",
            lambda: are_equal({"": records_of(prometheus).get(COMBINED, {})}, {"": combined}),
        )
        assert K3 not in records_of(prometheus)
        assert percentages(prometheus, COMBINED)[0] in (89, 90)
        assert percentages(prometheus, K3) == ["usage-missing"] * 3


# -- nodes that do not report pressure -------------------------------------------------------------


@pytest.mark.parametrize("roles", [True, False], ids=["with roles", "without roles"])
@pytest.mark.parametrize(
    ("reporting", "minutes", "fires"),
    [(3, 60, False), (2, 14, False), (2, 16, True), (0, 14, False), (0, 16, True)],
)
def test_an_alert_fires_if_nodes_do_not_report_pressure(
    reporting: int, minutes: int, fires: bool, roles: bool, tmp_path: Path
) -> None:
    series = [
        f'node_cpu_seconds_total{{instance="{name}", cpu="0", mode="idle"}}' for name in NODES
    ]
    series += [
        f'node_pressure_cpu_waiting_seconds_total{{instance="{name}"}}'
        for name in NODES[:reporting]
    ]
    if roles:
        series += [
            f'kube_node_role{{instance="k", node="{name}", role="worker"}}' for name in NODES
        ]

    done = run_promtool(series, minutes, fires, tmp_path)

    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize(("minutes", "fires"), [(14, False), (16, True)])
def test_the_alert_also_fires_where_nothing_is_scraped_at_all(
    minutes: int, fires: bool, tmp_path: Path
) -> None:
    done = run_promtool([], minutes, fires, tmp_path)

    assert done.returncode == 0, done.stdout + done.stderr


def run_promtool(
    series: list[str], minutes: int, fires: bool, folder: Path
) -> subprocess.CompletedProcess[str]:
    """Runs promtool with the expectation that the alert fires by then, or that none does."""
    samples = [{"labels": '{alertname="ResettlePressureNotReported"}', "value": 1}]
    read = {
        "expr": 'count by (alertname) (ALERTS{alertstate="firing"})',
        "eval_time": f"{minutes}m",
        "exp_samples": samples if fires else [],
    }
    given = [{"series": one_series, "values": "1+0x200"} for one_series in series]
    test = {"interval": "30s", "input_series": given, "promql_expr_test": [read]}
    document = {"rule_files": [str(LOAD_RULES)], "evaluation_interval": "30s", "tests": [test]}
    file = folder / "test.yaml"
    file.write_text(yaml.safe_dump(document))
    return promtool("test", "rules", file)
