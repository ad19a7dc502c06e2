"""All that a simulation begins with: the cluster, the policies, and what is to happen."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import NamedTuple

from msgspec import structs

from resettle.cli.casting import Part, cast
from resettle.cli.happenings import events_of
from resettle.cli.loads_file import read_loads
from resettle.cli.policy import print_warnings
from resettle.cli.reading import about_time, collect, remarks
from resettle.cli.recorded import another, picked
from resettle.cli.scenario import Scenario, read_scenario
from resettle.cli.times import named_time
from resettle.errors import InputError
from resettle.framework.descheduler import PLACING, Descheduler, assembled
from resettle.framework.plugin import Plugin
from resettle.framework.registry import default_registry
from resettle.model.semantics import IMPROVED
from resettle.model.snapshot import Snapshot
from resettle.policy.load import load_policy
from resettle.simulate.events import Event
from resettle.simulate.wants import NONE_KNOWN, Wants
from resettle.stopwatch import Stopwatch
from resettle.texts import STDIN, read_text, shown_name

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
