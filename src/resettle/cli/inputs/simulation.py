"""Inputs of a simulation: the cluster, the policies, the events, and the CPU demand of pods.

Flags win over the scenario file. A file of loads names the policy's queries and the demand of pods,
from which the results of these queries are computed as pods move:

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
from resettle.cli.inputs.cluster import add_scales, collect_objects, input_notes, time_notes
from resettle.cli.inputs.recorded import pick_cycle, read_other_policy
from resettle.cli.inputs.scenario import Scenario, read_document, read_events, read_scenario
from resettle.clock import Stopwatch
from resettle.controllers.soft_taints.reconcile import Mode, SimulatedTainter, task_of
from resettle.errors import InputError
from resettle.files import STDIN, display_name, read_text
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
    """A policy as a descheduler, and its soft tainter, if nodes are tainted."""

    descheduler: Descheduler
    tainter: SimulatedTainter | None = None


def build_simulated_policies(
    planners: Mapping[str, Descheduler], soft_taints: str | None
) -> dict[str, SimulatedPolicy]:
    """The policies to simulate, by name; `compare` gives one policy without and with taints."""
    if soft_taints is None:
        return {name: SimulatedPolicy(planner) for name, planner in planners.items()}
    tainted = {
        name: SimulatedPolicy(planner, _tainter(name, planner))
        for name, planner in planners.items()
    }
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
            f"{name} does not enable {BALANCER}, whose thresholds decide which nodes are tainted; "
            "enable it under `balance`, or simulate without soft taints"
        )
    return SimulatedTainter(task)


Cores = Annotated[float, Meta(ge=0, le=100_000, description="a number of cores")]


class Queries(Struct, frozen=True, kw_only=True, rename="pascal"):
    """Queries of the policy, by what they measure."""

    use: str = ""
    pressure: str = ""


class LoadsDocument(Struct, frozen=True, kw_only=True):
    """The file of loads: the CPU demand of pods."""

    queries: Queries = Queries()
    pods: dict[str, Cores] = {}


def read_loads(file: str, snapshot: Snapshot, planners: Iterable[Descheduler]) -> CpuDemand:
    """Read a file of loads, checked against the cluster; raise `PolicyError` with all problems."""
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


def _queries(
    written: Queries, asked: set[MetricsQuery], report: ProblemCollector
) -> dict[MetricsQuery, str]:
    names: dict[MetricsQuery, str] = {}
    for field in structs.fields(Queries):
        query = getattr(written, field.name).strip()
        matching = [question for question in asked if question.query.strip() == query]
        if query and not matching:
            fix = f"write it as the policy does: {_queries_to_choose_from(asked)}"
            report.error(("queries", field.encode_name), "no policy has this query", fix)
        names |= dict.fromkeys(matching, field.encode_name)
    if not (written.use or written.pressure):
        what = "no query is named for the demand of the pods"
        report.error(
            ("queries",),
            what,
            f"write `Use` or `Pressure`, with the value {_queries_to_choose_from(asked)}",
        )
    return names


def _queries_to_choose_from(asked: Iterable[MetricsQuery]) -> str:
    """The queries of the policies, as a list for an error."""
    known = " or ".join(f"`{question.query.strip()}`" for question in sorted(asked))
    return known or "a query of the policy, which has none so far"


DEFAULT_CYCLES = 10
DEFAULT_INTERVAL = timedelta(minutes=5)


class SimulationInputs(NamedTuple):
    """All inputs of a simulation."""

    policies: Mapping[str, SimulatedPolicy]
    """By the names they have in the output."""
    snapshot: Snapshot
    loads: CpuDemand
    events: tuple[Event, ...]
    cycles: int
    interval: timedelta
    until_settled: bool
    """Whether to stop once nothing moves, as no number of cycles is given."""


def read_simulation_inputs(arguments: argparse.Namespace) -> SimulationInputs:
    """Read all that the flags and the scenario name."""
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
    """Read the scenario, if one is named, and set the flags that are not given from it."""
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
    """The policies as deschedulers, by name."""
    deschedulers: dict[str, Descheduler] = {}
    for file in filter(None, (arguments.policy, arguments.against)):
        name = display_name(file)
        policy = load_policy(read_text(file), name=name, plugins=plugins, lenient=arguments.lenient)
        print_warnings(policy.warnings)
        if name in deschedulers:
            raise InputError(f"--policy and --against both name {name}; name two different ones")
        deschedulers[name] = build_descheduler(policy, plugins)
    return deschedulers


def _read_recorded(
    arguments: argparse.Namespace, plugins: Mapping[str, Plugin]
) -> tuple[dict[str, Descheduler], Snapshot]:
    """The policy of a recorded cycle, or those used instead of it, and the snapshot it saw."""
    past = pick_cycle(arguments, plugins)
    files = [file for file in (arguments.policy, arguments.against) if file]
    if len(set(files)) < len(files):
        raise InputError(f"--policy and --against both name {files[0]}; name two different ones")
    planners = {
        display_name(file): read_other_policy(file, past, plugins, lenient=arguments.lenient)
        for file in files
    }
    if not arguments.policy:
        planners = {f"cycle {past.recorded.entry.cycle}": past.descheduler} | planners
    if unread := sorted(PLACING - past.descheduler.reads):
        print(
            f"note: the recorded policy did not read {', '.join(unread)}, so the scheduler is "
            "simulated without",
            file=sys.stderr,
        )
    return planners, past.snapshot


def _read_snapshot(
    arguments: argparse.Namespace,
    planners: Mapping[str, Descheduler],
    plugins: Mapping[str, Plugin],
) -> Snapshot:
    """The cluster at the start, with all kinds that the policies and the scheduler read."""
    named = parse_time_flag(arguments.now)
    first, *_ = planners.values()
    profiles = tuple(profile for planner in planners.values() for profile in planner.profiles)
    # The stand-in for kube-scheduler reads more kinds than policies of upstream do.
    providers = tuple(provider for planner in planners.values() for provider in planner.providers)
    everything = structs.replace(first, profiles=profiles, semantics=IMPROVED, providers=providers)
    collection, skipped = collect_objects(arguments, everything, plugins, Stopwatch())
    snapshot = collection.snapshot(named or collection.taken_at or datetime.now(UTC))
    if not arguments.cluster:
        snapshot = add_scales(arguments, everything, snapshot)
    for remark in time_notes(arguments, collection, everything):
        print(f"note: {remark}", file=sys.stderr)
    notes = dict.fromkeys(
        remark
        for planner in planners.values()
        for remark in input_notes(planner, skipped, snapshot, from_dump=bool(arguments.cluster))
    )
    for remark in notes:
        print(f"note: {remark}", file=sys.stderr)
    return snapshot
