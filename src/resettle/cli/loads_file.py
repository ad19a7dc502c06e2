"""What each pod wants, as written, and what that makes of the queries of the policies.

queries:
Pressure: avg by (instance) (rate(node_pressure_cpu_waiting_seconds_total[1m]))
pods:
vms/virt-launcher-db-1: 2.5
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated

from msgspec import Meta, Struct, structs

from resettle.cli.written import read_written
from resettle.framework.descheduler import Descheduler
from resettle.model.readings import PROMETHEUS, Question
from resettle.model.snapshot import Snapshot
from resettle.policy.problem import nearest
from resettle.policy.report import Report
from resettle.simulate.wants import Wants

Cores = Annotated[float, Meta(ge=0, le=100_000, description="a number of cores")]


class Queries(Struct, frozen=True, kw_only=True, rename="pascal"):
    """The queries of a policy, by what they are about."""

    use: str = ""
    pressure: str = ""


class LoadsDocument(Struct, frozen=True, kw_only=True):
    """What pods want, as written."""

    queries: Queries = Queries()
    pods: dict[str, Cores] = {}


def read_loads(file: str, snapshot: Snapshot, planners: Iterable[Descheduler]) -> Wants:
    """What the file says, read against the cluster; raises `PolicyError` with every problem."""
    document, report = read_written(file, LoadsDocument, "a file of loads", ("queries", "pods"))
    asked = {
        question
        for planner in planners
        for question in planner.measures
        if question.source == PROMETHEUS
    }
    queries = _queries(document.queries, asked, report)
    there = {pod.key for pods in snapshot.population.templates.values() for pod in pods}
    for key in document.pods:
        if key not in there:
            near = nearest(key, there)
            fix = f"did you mean `{near}`?" if near else "write `NAMESPACE/NAME` of one that it has"
            report.error(("pods", key), f"the cluster has no pod `{key}`", fix)
    report.raise_errors()
    return Wants(document.pods, queries)


def _queries(written: Queries, asked: set[Question], report: Report) -> dict[Question, str]:
    found: dict[Question, str] = {}
    for field in structs.fields(Queries):
        query = getattr(written, field.name).strip()
        matching = [it for it in asked if it.query.strip() == query]
        if query and not matching:
            fix = f"write it as the policy does: {_known(asked)}"
            report.error(("queries", field.encode_name), "no policy asks this query", fix)
        found |= dict.fromkeys(matching, field.encode_name)
    if not (written.use or written.pressure):
        what = "nothing says which query tells of what the pods want"
        report.error(
            ("queries",), what, f"write `Use` or `Pressure`, and beside it {_known(asked)}"
        )
    return found


def _known(asked: Iterable[Question]) -> str:
    """The queries there are, to choose from."""
    known = " or ".join(f"`{it.query.strip()}`" for it in sorted(asked))
    return known or "a query of the policy, which asks none so far"
