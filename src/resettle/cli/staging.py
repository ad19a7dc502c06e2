"""All that a simulation begins with: the cluster, the policies, and what is to happen."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping
from datetime import timedelta
from typing import NamedTuple

from msgspec import structs

from resettle.cli.happenings import events_of
from resettle.cli.policy import STDIN, print_warnings, read_text, shown_name
from resettle.cli.reading import collect, instant, remarks
from resettle.cli.scenario import Scenario, read_scenario
from resettle.cli.stopwatch import Stopwatch
from resettle.errors import InputError
from resettle.framework.descheduler import Descheduler, assembled
from resettle.framework.plugin import Plugin
from resettle.framework.registry import default_registry
from resettle.model.semantics import IMPROVED
from resettle.model.snapshot import Snapshot
from resettle.policy.load import load_policy
from resettle.simulate.events import Event

CYCLES = 10
INTERVAL = timedelta(minutes=5)


class Stage(NamedTuple):
    """What is simulated."""

    planners: Mapping[str, Descheduler]
    """The policies made ready, by what they are called."""
    snapshot: Snapshot
    events: tuple[Event, ...]
    cycles: int
    interval: timedelta
    until_settled: bool
    """Whether nobody has said how many cycles to run."""


def staged(arguments: argparse.Namespace) -> Stage:
    """Reads what the flags and the scenario name."""
    scenario = completed(arguments)
    plugins = default_registry()
    planners = _planners(arguments, plugins)
    snapshot = _snapshot(arguments, planners, plugins)
    cycles = arguments.cycles or CYCLES
    events: tuple[Event, ...] = ()
    if scenario is not None:
        kinds = [kind for plugin in plugins.values() for kind in plugin.kinds]
        events = events_of(scenario, snapshot, cycles, kinds)
    return Stage(
        planners=planners,
        snapshot=snapshot,
        events=events,
        cycles=cycles,
        interval=arguments.interval or INTERVAL,
        until_settled=arguments.cycles is None,
    )


def completed(arguments: argparse.Namespace) -> Scenario | None:
    """The scenario, if one is named; what the flags leave open is taken from it."""
    once = [arguments.policy, arguments.against, arguments.scenario, *(arguments.cluster or ())]
    if once.count(STDIN) > 1:
        raise InputError("stdin can be only one of these files; write the others to disk")
    scenario = None
    if arguments.scenario:
        scenario = read_scenario(arguments.scenario)
        document = scenario.document
        if not arguments.cluster and not arguments.kubeconfig:
            arguments.cluster = scenario.cluster
        arguments.policy = arguments.policy or scenario.found(document.policy)
        arguments.against = arguments.against or scenario.found(document.against)
        arguments.cycles = arguments.cycles or document.cycles
        arguments.interval = arguments.interval or scenario.interval
        arguments.now = arguments.now or document.now or None
    if not arguments.policy:
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
        policy = load_policy(read_text(file), name=name, plugins=plugins)
        print_warnings(policy.warnings)
        if name in found:
            raise InputError(f"--policy and --against both name {name}; name two different ones")
        found[name] = assembled(policy, plugins)
    return found


def _snapshot(
    arguments: argparse.Namespace,
    planners: Mapping[str, Descheduler],
    plugins: Mapping[str, Plugin],
) -> Snapshot:
    """The cluster at the start, with all that any of the policies and the scheduler reads."""
    now = instant(arguments.now)
    first, *_ = planners.values()
    profiles = tuple(profile for planner in planners.values() for profile in planner.profiles)
    # The stand-in for the scheduler asks for more than the policies of the peer do.
    everything = structs.replace(first, profiles=profiles, semantics=IMPROVED)
    collection, skipped = collect(arguments, everything, plugins, Stopwatch())
    snapshot = collection.snapshot(now)
    told = dict.fromkeys(
        remark
        for planner in planners.values()
        for remark in remarks(planner, skipped, snapshot, from_dump=bool(arguments.cluster))
    )
    for remark in told:
        print(f"note: {remark}", file=sys.stderr)
    return snapshot
