"""All that a simulation begins with: the cluster, the policies, and what is to happen.

Who takes part in a simulation: a policy each, with or without a soft tainter at its side.

What each pod wants, as written, and what that makes of the queries of the policies.

queries:
Pressure: avg by (instance) (rate(node_pressure_cpu_waiting_seconds_total[1m]))
pods:
vms/virt-launcher-db-1: 2.5
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Annotated, NamedTuple

from msgspec import Meta, Struct, structs

from resettle.cli.commands.policy import print_warnings
from resettle.cli.inputs.cluster import time_notes, collect_objects, input_notes
from resettle.cli.inputs.recorded import read_other_policy, pick_cycle
from resettle.cli.inputs.scenario import Scenario, read_events, read_scenario, read_document
from resettle.clock import Stopwatch
from resettle.controllers.soft_taints.reconcile import Mode, SimulatedTainter, task_of
from resettle.errors import InputError
from resettle.files import STDIN, read_text, display_name
from resettle.framework.descheduler import PLACING, Descheduler, build_descheduler
from resettle.framework.plugin import Plugin
from resettle.framework.registry import default_registry
from resettle.model.measurements import PROMETHEUS, MetricsQuery
from resettle.model.semantics import IMPROVED
from resettle.model.snapshot import Snapshot
from resettle.policy.document import BALANCER
from resettle.policy.load import load_policy
from resettle.policy.problems import ProblemCollector, nearest
from resettle.simulate.events import Event
from resettle.simulate.load_model import NO_DEMAND, CpuDemand
from resettle.times import parse_time_flag


class SimulatedPolicy(NamedTuple):
    """A policy made ready, and whoever taints nodes by it."""

    descheduler: Descheduler
    tainter: SimulatedTainter | None = None


def build_simulated_policies(planners: Mapping[str, Descheduler], soft_taints: str | None) -> dict[str, SimulatedPolicy]:
    """The parts, by what they are called; to compare, one policy has two of them."""
    if soft_taints is None:
        return {name: SimulatedPolicy(planner) for name, planner in planners.items()}
    tainted = {name: SimulatedPolicy(planner, _tainter(name, planner)) for name, planner in planners.items()}
    if soft_taints == "with":
        return tainted
    if len(planners) > 1:
        raise InputError(
            "--soft-taints compare runs one policy without taints and with them; "
            "leave out --against, or write --soft-taints to have both policies taint"
        )
    ((name, part),) = tainted.items()
    return {name: SimulatedPolicy(part.descheduler), f"{name} with taints": part}


def _tainter(name: str, planner: Descheduler) -> SimulatedTainter:
    task = task_of(planner, Mode.TAINT)
    if task.thresholds is None:
        raise InputError(
            f"{name} does not balance with {BALANCER}, by whose thresholds nodes are tainted; "
            "enable it under `balance`, or simulate without soft taints"
        )
    return SimulatedTainter(task)


Cores = Annotated[float, Meta(ge=0, le=100_000, description="a number of cores")]


class Queries(Struct, frozen=True, kw_only=True, rename="pascal"):
    """The queries of a policy, by what they are about."""

    use: str = ""
    pressure: str = ""


class LoadsDocument(Struct, frozen=True, kw_only=True):
    """What pods want, as written."""

    queries: Queries = Queries()
    pods: dict[str, Cores] = {}


def read_loads(file: str, snapshot: Snapshot, planners: Iterable[Descheduler]) -> CpuDemand:
    """What the file says, read against the cluster; raises `PolicyError` with every problem."""
    document, report = read_document(file, LoadsDocument, "a file of loads", ("queries", "pods"))
    asked = {
        question
        for planner in planners
        for question in planner.measures
        if question.source == PROMETHEUS
    }
    queries = _queries(document.queries, asked, report)
    there = {pod.key for pods in snapshot.pod_index.templates.values() for pod in pods}
    for key in document.pods:
        if key not in there:
            near = nearest(key, there)
            fix = f"did you mean `{near}`?" if near else "write `NAMESPACE/NAME` of one that it has"
            report.error(("pods", key), f"the cluster has no pod `{key}`", fix)
    report.raise_errors()
    return CpuDemand(document.pods, queries)


def _queries(written: Queries, asked: set[MetricsQuery], report: ProblemCollector) -> dict[MetricsQuery, str]:
    found: dict[MetricsQuery, str] = {}
    for field in structs.fields(Queries):
        query = getattr(written, field.name).strip()
        matching = [it for it in asked if it.query.strip() == query]
        if query and not matching:
            fix = f"write it as the policy does: {_queries_to_choose_from(asked)}"
            report.error(("queries", field.encode_name), "no policy asks this query", fix)
        found |= dict.fromkeys(matching, field.encode_name)
    if not (written.use or written.pressure):
        what = "nothing says which query tells of what the pods want"
        report.error(
            ("queries",), what, f"write `Use` or `Pressure`, and beside it {_queries_to_choose_from(asked)}"
        )
    return found


def _queries_to_choose_from(asked: Iterable[MetricsQuery]) -> str:
    """The queries there are, to choose from."""
    known = " or ".join(f"`{it.query.strip()}`" for it in sorted(asked))
    return known or "a query of the policy, which asks none so far"


DEFAULT_CYCLES = 10
DEFAULT_INTERVAL = timedelta(minutes=5)


class SimulationInputs(NamedTuple):
    """What is simulated."""

    policies: Mapping[str, SimulatedPolicy]
    """The policies made ready, by what they are called."""
    snapshot: Snapshot
    loads: CpuDemand
    events: tuple[Event, ...]
    cycles: int
    interval: timedelta
    until_settled: bool
    """Whether nobody has said how many cycles to run."""


def read_simulation_inputs(arguments: argparse.Namespace) -> SimulationInputs:
    """Reads what the flags and the scenario name."""
    scenario = complete_from_scenario(arguments)
    plugins = default_registry()
    if arguments.record:
        planners, snapshot = _read_recorded(arguments, plugins)
        parts = build_simulated_policies(planners, arguments.soft_taints)
    else:
        planners = _read_policies(arguments, plugins)
        parts = build_simulated_policies(planners, arguments.soft_taints)
        snapshot = _read_snapshot(arguments, planners, plugins)
    cycles = arguments.cycles or DEFAULT_CYCLES
    events: tuple[Event, ...] = ()
    if scenario is not None:
        kinds = [kind for plugin in plugins.values() for kind in plugin.kinds]
        events = read_events(scenario, snapshot, cycles, kinds)
    wants = NO_DEMAND
    if arguments.loads:
        wants = read_loads(arguments.loads, snapshot, planners.values())
    return SimulationInputs(
        policies=parts,
        snapshot=snapshot,
        loads=wants,
        events=events,
        cycles=cycles,
        interval=arguments.interval or DEFAULT_INTERVAL,
        until_settled=arguments.cycles is None,
    )


def complete_from_scenario(arguments: argparse.Namespace) -> Scenario | None:
    """The scenario, if one is named; what the flags leave open is taken from it."""
    named = [arguments.policy, arguments.against, arguments.scenario, arguments.loads]
    once = [*named, *(arguments.cluster or ())]
    if once.count(STDIN) > 1:
        raise InputError("stdin can be only one of these files; write the others to disk")
    scenario = None
    if arguments.scenario:
        scenario = read_scenario(arguments.scenario)
        document = scenario.document
        if not (arguments.cluster or arguments.kubeconfig or arguments.record):
            arguments.cluster = scenario.cluster
        arguments.policy = arguments.policy or scenario.resolve_path(document.policy)
        arguments.against = arguments.against or scenario.resolve_path(document.against)
        arguments.loads = arguments.loads or scenario.resolve_path(document.loads)
        arguments.soft_taints = arguments.soft_taints or document.soft_taints
        arguments.cycles = arguments.cycles or document.cycles
        arguments.interval = arguments.interval or scenario.interval
        if not arguments.record:
            arguments.now = arguments.now or document.now or None
    if not arguments.policy and not arguments.record:
        where = f", or `policy` to {display_name(arguments.scenario)}" if scenario else ""
        raise InputError(f"no policy is named; add --policy FILE{where}")
    return scenario


def _read_policies(
    arguments: argparse.Namespace, plugins: Mapping[str, Plugin]
) -> dict[str, Descheduler]:
    """The policies made ready, by what they are called."""
    found = {}
    for file in filter(None, (arguments.policy, arguments.against)):
        name = display_name(file)
        policy = load_policy(
            read_text(file), name=name, plugins=plugins, lenient=arguments.forgiving
        )
        print_warnings(policy.warnings)
        if name in found:
            raise InputError(f"--policy and --against both name {name}; name two different ones")
        found[name] = build_descheduler(policy, plugins)
    return found


def _read_recorded(
    arguments: argparse.Namespace, plugins: Mapping[str, Plugin]
) -> tuple[dict[str, Descheduler], Snapshot]:
    """The policy of a recorded cycle, or those that are to take its place, and what it saw."""
    past = pick_cycle(arguments, plugins)
    files = [file for file in (arguments.policy, arguments.against) if file]
    if len(set(files)) < len(files):
        raise InputError(f"--policy and --against both name {files[0]}; name two different ones")
    planners = {
        display_name(file): read_other_policy(file, past, plugins, forgiving=arguments.forgiving)
        for file in files
    }
    if not arguments.policy:
        planners = {f"cycle {past.recorded.entry.cycle}": past.descheduler} | planners
    if unread := sorted(PLACING - past.descheduler.reads):
        print(
            f"note: the policy of then did not read {', '.join(unread)}, so the scheduler is "
            "imagined without",
            file=sys.stderr,
        )
    return planners, past.snapshot


def _read_snapshot(
    arguments: argparse.Namespace,
    planners: Mapping[str, Descheduler],
    plugins: Mapping[str, Plugin],
) -> Snapshot:
    """The cluster at the start, with all that any of the policies and the scheduler reads."""
    named = parse_time_flag(arguments.now)
    first, *_ = planners.values()
    profiles = tuple(profile for planner in planners.values() for profile in planner.profiles)
    # The stand-in for the scheduler asks for more than the policies of the peer do.
    providers = tuple(it for planner in planners.values() for it in planner.providers)
    everything = structs.replace(first, profiles=profiles, semantics=IMPROVED, providers=providers)
    collection, skipped = collect_objects(arguments, everything, plugins, Stopwatch())
    snapshot = collection.snapshot(named or collection.taken_at or datetime.now(UTC))
    for remark in time_notes(arguments, collection, everything):
        print(f"note: {remark}", file=sys.stderr)
    told = dict.fromkeys(
        remark
        for planner in planners.values()
        for remark in input_notes(planner, skipped, snapshot, from_dump=bool(arguments.cluster))
    )
    for remark in told:
        print(f"note: {remark}", file=sys.stderr)
    return snapshot
