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
from resettle.cli.inputs.cluster import about_time, collect, remarks
from resettle.cli.inputs.recorded import another, picked
from resettle.cli.inputs.scenario import Scenario, events_of, read_scenario, read_written
from resettle.clock import Stopwatch
from resettle.controllers.soft_taints.reconcile import Mode, SimulatedTainter, task_of
from resettle.errors import InputError
from resettle.files import STDIN, read_text, shown_name
from resettle.framework.descheduler import PLACING, Descheduler, assembled
from resettle.framework.plugin import Plugin
from resettle.framework.registry import default_registry
from resettle.model.measurements import PROMETHEUS, Question
from resettle.model.semantics import IMPROVED
from resettle.model.snapshot import Snapshot
from resettle.policy.document import BALANCER
from resettle.policy.load import load_policy
from resettle.policy.problems import Report, nearest
from resettle.simulate.events import Event
from resettle.simulate.load_model import NONE_KNOWN, Wants
from resettle.times import named_time


class Part(NamedTuple):
    """A policy made ready, and whoever taints nodes by it."""

    planner: Descheduler
    tainter: SimulatedTainter | None = None


def cast(planners: Mapping[str, Descheduler], soft_taints: str | None) -> dict[str, Part]:
    """The parts, by what they are called; to compare, one policy has two of them."""
    if soft_taints is None:
        return {name: Part(planner) for name, planner in planners.items()}
    tainted = {name: Part(planner, _tainter(name, planner)) for name, planner in planners.items()}
    if soft_taints == "with":
        return tainted
    if len(planners) > 1:
        raise InputError(
            "--soft-taints compare runs one policy without taints and with them; "
            "leave out --against, or write --soft-taints to have both policies taint"
        )
    ((name, part),) = tainted.items()
    return {name: Part(part.planner), f"{name} with taints": part}


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


CYCLES = 10
INTERVAL = timedelta(minutes=5)


class Stage(NamedTuple):
    """What is simulated."""

    parts: Mapping[str, Part]
    """The policies made ready, by what they are called."""
    snapshot: Snapshot
    wants: Wants
    events: tuple[Event, ...]
    cycles: int
    interval: timedelta
    until_settled: bool
    """Whether nobody has said how many cycles to run."""


def staged(arguments: argparse.Namespace) -> Stage:
    """Reads what the flags and the scenario name."""
    scenario = completed(arguments)
    plugins = default_registry()
    if arguments.record:
        planners, snapshot = _recorded(arguments, plugins)
        parts = cast(planners, arguments.soft_taints)
    else:
        planners = _planners(arguments, plugins)
        parts = cast(planners, arguments.soft_taints)
        snapshot = _snapshot(arguments, planners, plugins)
    cycles = arguments.cycles or CYCLES
    events: tuple[Event, ...] = ()
    if scenario is not None:
        kinds = [kind for plugin in plugins.values() for kind in plugin.kinds]
        events = events_of(scenario, snapshot, cycles, kinds)
    wants = NONE_KNOWN
    if arguments.loads:
        wants = read_loads(arguments.loads, snapshot, planners.values())
    return Stage(
        parts=parts,
        snapshot=snapshot,
        wants=wants,
        events=events,
        cycles=cycles,
        interval=arguments.interval or INTERVAL,
        until_settled=arguments.cycles is None,
    )


def completed(arguments: argparse.Namespace) -> Scenario | None:
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
        arguments.policy = arguments.policy or scenario.found(document.policy)
        arguments.against = arguments.against or scenario.found(document.against)
        arguments.loads = arguments.loads or scenario.found(document.loads)
        arguments.soft_taints = arguments.soft_taints or document.soft_taints
        arguments.cycles = arguments.cycles or document.cycles
        arguments.interval = arguments.interval or scenario.interval
        if not arguments.record:
            arguments.now = arguments.now or document.now or None
    if not arguments.policy and not arguments.record:
        where = f", or `policy` to {shown_name(arguments.scenario)}" if scenario else ""
        raise InputError(f"no policy is named; add --policy FILE{where}")
    return scenario


def _planners(
    arguments: argparse.Namespace, plugins: Mapping[str, Plugin]
) -> dict[str, Descheduler]:
    """The policies made ready, by what they are called."""
    found = {}
    for file in filter(None, (arguments.policy, arguments.against)):
        name = shown_name(file)
        policy = load_policy(
            read_text(file), name=name, plugins=plugins, forgiving=arguments.forgiving
        )
        print_warnings(policy.warnings)
        if name in found:
            raise InputError(f"--policy and --against both name {name}; name two different ones")
        found[name] = assembled(policy, plugins)
    return found


def _recorded(
    arguments: argparse.Namespace, plugins: Mapping[str, Plugin]
) -> tuple[dict[str, Descheduler], Snapshot]:
    """The policy of a recorded cycle, or those that are to take its place, and what it saw."""
    past = picked(arguments, plugins)
    files = [file for file in (arguments.policy, arguments.against) if file]
    if len(set(files)) < len(files):
        raise InputError(f"--policy and --against both name {files[0]}; name two different ones")
    planners = {
        shown_name(file): another(file, past, plugins, forgiving=arguments.forgiving)
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


def _snapshot(
    arguments: argparse.Namespace,
    planners: Mapping[str, Descheduler],
    plugins: Mapping[str, Plugin],
) -> Snapshot:
    """The cluster at the start, with all that any of the policies and the scheduler reads."""
    named = named_time(arguments.now)
    first, *_ = planners.values()
    profiles = tuple(profile for planner in planners.values() for profile in planner.profiles)
    # The stand-in for the scheduler asks for more than the policies of the peer do.
    providers = tuple(it for planner in planners.values() for it in planner.providers)
    everything = structs.replace(first, profiles=profiles, semantics=IMPROVED, providers=providers)
    collection, skipped = collect(arguments, everything, plugins, Stopwatch())
    snapshot = collection.snapshot(named or collection.taken_at or datetime.now(UTC))
    for remark in about_time(arguments, collection, everything):
        print(f"note: {remark}", file=sys.stderr)
    told = dict.fromkeys(
        remark
        for planner in planners.values()
        for remark in remarks(planner, skipped, snapshot, from_dump=bool(arguments.cluster))
    )
    for remark in told:
        print(f"note: {remark}", file=sys.stderr)
    return snapshot
