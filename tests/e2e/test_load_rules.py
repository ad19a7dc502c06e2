"""The rules of load, worked out by a real Prometheus: right to the ninth digit, or not there."""

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
from tests.e2e.servers.page_prometheus import Scraped

NODES = ("n1", "n2", "n3")
WORKERS = dict.fromkeys(NODES, "worker")
Figures = dict[str, float]
Records = dict[str, Figures]
"""The value of each node, by record; of one that is about all nodes it stands under no name."""

COMBINED = "descheduler:combined_utilization_and_pressure:avg1m"
DISTANCE = "descheduler:node:ideal_point_positive_distance:avg1m"
K3 = "descheduler:node:linear_amplified_ideal_point_positive_distance:k3:avg1m"
PRIORITY = "descheduler:node:actuation_priority:p66_5m"


def loads(*rows: tuple[float, float, float, float]) -> dict[str, Load]:
    return {name: Load(*row) for name, row in zip(NODES, rows, strict=True)}


A = loads((0.9, 0.5, 0.5, 0.0), (0.5, 0.4, 0.5, 0.0), (0.4, 0.1, 0.5, 0.0))
"""One node is busy and waits; the cluster as a whole has room."""
B = loads((0.62, 0.0, 0.3, 0.0), (0.5, 0.0, 0.48, 0.0), (0.38, 0.0, 0.3, 0.0))
"""One node is above the mean by its cpu, another by its memory, as far."""
C = loads((0.95, 0.6, 0.85, 0.3), (0.9, 0.2, 0.6, 0.3), (0.85, 0.1, 0.5, 0.0))
"""All nodes are busy, and one of them suffers."""
CONTROL_PLANE = {"cp": Load(0.1, 0.0, 0.1, 0.0)}


class Case(NamedTuple):
    """A cluster, and what is to come of it."""

    exporter: Exporter
    loads: Mapping[str, Load]
    combined: tuple[float, ...]
    distance: float
    """Of the first node."""
    k3: tuple[float, ...]
    evictions: Mapping[str, float] = {}


OF_A = ((0.9, 0.5, 0.4), 0.448454, (1.0, 0.0, 0.0))
OF_B = ((0.62, 0.5, 0.38), 0.12, (0.36, 0.36, 0.0))
FOUR = {"n1": 4.0}
CASES = {
    "A": lambda: Case(Exporter(A, roles=WORKERS), A, *OF_A),
    "B": lambda: Case(Exporter(B, roles=WORKERS), B, *OF_B),
    "C": lambda: Case(Exporter(C, roles=WORKERS), C, (0.6, 0.2, 0.1), 0.415331, (1.0, 0.0, 0.0)),
    "A, and nobody tells roles": lambda: Case(Exporter(A, roles={}), A, *OF_A),
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


def worked_out(case: Case) -> Records:
    """Every record, by plain arithmetic; only workers count in a mean."""
    kinds = {
        "utilization:cpu": {name: it.cpu for name, it in case.loads.items()},
        "utilization:memory": {name: it.memory for name, it in case.loads.items()},
        "pressure:cpu": {
            name: it.cpu_pressure if it.cpu > 0.7 else 0.0 for name, it in case.loads.items()
        },
        "pressure:memory": {
            name: it.memory_pressure if it.memory > 0.7 else 0.0 for name, it in case.loads.items()
        },
    }
    found: Records = {}
    for kind, figures in kinds.items():
        mean = sum(figures[name] for name in NODES) / len(NODES)
        above = {name: max(it - mean, 0.0) for name, it in figures.items()}
        found[f"descheduler:node{kind}:avg1m"] = figures
        found[f"descheduler:averageworkers{kind}:avg1m"] = {"": mean}
        for over in ("avg1m", "p66_5m"):
            found[f"descheduler:node{kind}:{over}:positivedeviation"] = above
    for over in ("avg1m", "p66_5m"):
        distance = {
            name: math.hypot(
                *(found[f"descheduler:node{kind}:{over}:positivedeviation"][name] for kind in kinds)
            )
            for name in case.loads
        }
        found[f"descheduler:node:ideal_point_positive_distance:{over}"] = distance
        amplified = {name: min(3 * it, 1.0) for name, it in distance.items()}
        found[f"descheduler:node:linear_amplified_ideal_point_positive_distance:k3:{over}"] = (
            amplified
        )
    busy = found["descheduler:averageworkersutilization:cpu:avg1m"][""] >= 0.8
    found[COMBINED] = kinds["pressure:cpu" if busy else "utilization:cpu"]
    evicted = {name: case.evictions.get(name, 0.0) for name in case.loads}
    damped = {name: max(1 - 0.1 * it, 0.01) for name, it in evicted.items()}
    found["descheduler:node:eviction_count:10m"] = evicted
    found["descheduler:node:cooldown_multiplier:10m"] = damped
    found[PRIORITY] = {name: amplified[name] * damped[name] for name in case.loads}
    return found


def told(prometheus: Scraped) -> Records:
    """What Prometheus has recorded."""
    found: Records = {}
    for it in prometheus.asked('{__name__=~"descheduler:.+"}'):
        metric = it["metric"]
        figures = found.setdefault(metric["__name__"], {})
        figures[metric.get("instance", "")] = float(it["value"][1])
    return found


def alike(some: Records, others: Records) -> bool:
    return some.keys() == others.keys() and all(
        figures.keys() == others[record].keys()
        and all(abs(it - others[record][name]) < 1e-9 for name, it in figures.items())
        for record, figures in some.items()
    )


def scraped(folder: Path, exporter: Exporter) -> Scraped:
    """A Prometheus that works the rules out every second, and knows the last minutes."""
    return Scraped(folder, exporter.page, rules=load_rules(), history=exporter.history())


def percentages(prometheus: Scraped, query: str) -> list[int | str]:
    """What resettle takes each node to use, or its doubt."""
    question = MetricsQuery(PROMETHEUS, query)

    async def asked() -> Readings:
        async with Client(Access(server="http://127.0.0.1:1")) as nobody:
            server = PrometheusServer(Prometheus(url=prometheus.url), nobody, environment={})
            try:
                return (await server.answers(frozenset({question})))[question]
            finally:
                await server.close()

    view = cluster(*map(node, NODES), now=datetime.now(UTC)).view(PARITY)
    usage = PrometheusUsage(view, {METRIC: asyncio.run(asked())}, MAX_AGE)
    return [
        doubt.code if (doubt := usage.problem(it)) else usage.of_node(it)[METRIC] // NANO
        for it in view.nodes
    ]


@pytest.mark.parametrize("name", CASES)
def test_every_record_is_what_it_should_be_and_resettle_reads_it_so(
    name: str, tmp_path: Path
) -> None:
    case = CASES[name]()
    wanted = worked_out(case)
    assert wanted.keys() == PUBLIC
    assert [wanted[COMBINED][it] for it in NODES] == pytest.approx(case.combined)
    assert wanted[DISTANCE]["n1"] == pytest.approx(case.distance, abs=1e-6)
    assert [wanted[K3][it] for it in NODES] == pytest.approx(case.k3, abs=1e-9)
    with scraped(tmp_path, case.exporter) as prometheus:
        found: Records = {}

        def right() -> bool:
            found.clear()
            found.update(told(prometheus))
            return alike(found, wanted)

        eventually(f"all that {name} comes to", right)
        for record in (COMBINED, K3):
            # What is a hair below a whole percent counts as the one before.
            exact = [wanted[record][it] * 100 for it in NODES]
            for percent, share in zip(percentages(prometheus, record), exact, strict=True):
                assert percent in {int(share - 1e-7), int(share + 1e-7)}
    if case.evictions:
        assert [found[PRIORITY][it] for it in NODES] == pytest.approx([0.216, 0.36, 0.0])


def test_without_pressure_metrics_only_use_is_recorded_and_nothing_can_be_moved(
    tmp_path: Path,
) -> None:
    with scraped(tmp_path, Exporter(A, roles=WORKERS, pressure=False)) as prometheus:
        combined = worked_out(CASES["A"]())[COMBINED]
        eventually(
            "use of cpu", lambda: alike({"": told(prometheus).get(COMBINED, {})}, {"": combined})
        )
        assert K3 not in told(prometheus)
        assert percentages(prometheus, COMBINED)[0] in (89, 90)
        assert percentages(prometheus, K3) == ["usage-missing"] * 3


# -- nodes that do not report pressure -------------------------------------------------------------


@pytest.mark.parametrize("roles", [True, False], ids=["with roles", "without roles"])
@pytest.mark.parametrize(
    ("reporting", "minutes", "fires"),
    [(3, 60, False), (2, 14, False), (2, 16, True), (0, 14, False), (0, 16, True)],
)
def test_an_alert_tells_of_nodes_that_do_not_report_pressure(
    reporting: int, minutes: int, fires: bool, roles: bool, tmp_path: Path
) -> None:
    series = [f'node_cpu_seconds_total{{instance="{it}", cpu="0", mode="idle"}}' for it in NODES]
    series += [
        f'node_pressure_cpu_waiting_seconds_total{{instance="{it}"}}' for it in NODES[:reporting]
    ]
    if roles:
        series += [f'kube_node_role{{instance="k", node="{it}", role="worker"}}' for it in NODES]

    done = tried(series, minutes, fires, tmp_path)

    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize(("minutes", "fires"), [(14, False), (16, True)])
def test_the_alert_also_fires_where_nothing_is_scraped_at_all(
    minutes: int, fires: bool, tmp_path: Path
) -> None:
    done = tried([], minutes, fires, tmp_path)

    assert done.returncode == 0, done.stdout + done.stderr


def tried(
    series: list[str], minutes: int, fires: bool, folder: Path
) -> subprocess.CompletedProcess[str]:
    """How promtool ends, told that the alert fires by then or that none does."""
    told = [{"labels": '{alertname="ResettlePressureNotReported"}', "value": 1}]
    asked = {
        "expr": 'count by (alertname) (ALERTS{alertstate="firing"})',
        "eval_time": f"{minutes}m",
        "exp_samples": told if fires else [],
    }
    given = [{"series": it, "values": "1+0x200"} for it in series]
    test = {"interval": "30s", "input_series": given, "promql_expr_test": [asked]}
    document = {"rule_files": [str(LOAD_RULES)], "evaluation_interval": "30s", "tests": [test]}
    file = folder / "test.yaml"
    file.write_text(yaml.safe_dump(document))
    return promtool("test", "rules", file)
