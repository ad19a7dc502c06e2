"""Flags that name a cluster and a policy, and how `plan`, `explain` and `simulate` read them.

The objects come from dump files, a live cluster or a record; unusual input is noted on stderr.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from datetime import UTC, datetime
from typing import TYPE_CHECKING, NamedTuple

from resettle.cli.commands.policy import print_warnings
from resettle.cli.flags.common import (
    add_context_flag,
    add_kubeconfig_flag,
    add_policy_flag,
    add_policy_problems_flag,
)
from resettle.cli.flags.record import add_cycle_flags, flag_conflict
from resettle.errors import InputError
from resettle.files import display_name, read_text
from resettle.times import parse_time_flag

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from resettle.clock import Stopwatch
    from resettle.dumps.collection import Collection
    from resettle.framework.descheduler import Descheduler
    from resettle.framework.plan_state import EarlierRounds
    from resettle.framework.plugin import Plugin
    from resettle.kube.auth.access import Access
    from resettle.model.measurements import Measured
    from resettle.model.snapshot import Snapshot


class ClusterInputs(NamedTuple):
    """A policy as a descheduler, the snapshot it decides on, and earlier rounds of the cycle."""

    descheduler: Descheduler
    snapshot: Snapshot
    earlier_rounds: EarlierRounds


def add_source_flags(command: argparse.ArgumentParser) -> None:
    """Add the flags that name a cluster, a policy and a time, or a cycle of a record."""
    source = command.add_mutually_exclusive_group()
    source.add_argument(
        "--cluster",
        metavar="FILE",
        nargs="+",
        help="output of `kubectl get … -o json` or `-o yaml`: files, folders, `-` for stdin",
    )
    add_kubeconfig_flag(source)
    source.add_argument(
        "--record", metavar="DIR", help="a past cycle, from the folder that `run --record` wrote"
    )
    add_cycle_flags(command)
    add_context_flag(command)
    add_policy_flag(
        command,
        "the descheduler policy; `-` for stdin "
        "(default with --record: the policy used at that time)",
        required=False,
    )
    add_policy_problems_flag(command)
    command.add_argument(
        "--now",
        metavar="TIME",
        help="the time to plan for, such as 2026-01-31T12:00:00Z "
        "(default: the time of the capture, else the present)",
    )
    command.set_defaults(usage_error=command.error)


def read_inputs(
    arguments: argparse.Namespace, watch: Stopwatch[str], pod: tuple[str, str] | None = None
) -> ClusterInputs:
    """Read policy and cluster, and print notes on stderr about what is unusual in them.

    With `pod`, the cycle taken from a record is the last one that moved or saw this pod.
    """
    if wrong := flag_conflict(arguments):
        arguments.usage_error(wrong)
    if arguments.record:
        from resettle.cli.inputs.recorded import replay_inputs

        return ClusterInputs(*replay_inputs(arguments, pod))
    if not arguments.policy:
        arguments.usage_error("the following arguments are required: --policy")
    with watch.phase("start"):
        from resettle.framework.descheduler import build_descheduler
        from resettle.framework.plan_state import NO_EARLIER_ROUNDS
        from resettle.framework.registry import default_registry
        from resettle.policy.load import load_policy

        named = parse_time_flag(arguments.now)
        plugins = default_registry()
        policy = load_policy(
            read_policy_text(arguments),
            name=display_name(arguments.policy),
            plugins=plugins,
            lenient=arguments.lenient,
        )
        print_warnings(policy.warnings)
        descheduler = build_descheduler(policy, plugins)
    collection, skipped = collect_objects(arguments, descheduler, plugins, watch)
    with watch.phase("snapshot"):
        snapshot = collection.snapshot(named or collection.taken_at or datetime.now(UTC))
        if not arguments.cluster:
            snapshot = add_scales(arguments, descheduler, snapshot)
        for remark in time_notes(arguments, collection, descheduler):
            print(f"note: {remark}", file=sys.stderr)
        del collection
    for remark in input_notes(descheduler, skipped, snapshot, from_dump=bool(arguments.cluster)):
        print(f"note: {remark}", file=sys.stderr)
    return ClusterInputs(descheduler, snapshot, NO_EARLIER_ROUNDS)


def read_policy_text(arguments: argparse.Namespace) -> str:
    """The text of the policy; stdin cannot be both policy and cluster."""
    if arguments.policy == "-" and "-" in (arguments.cluster or ()):
        raise InputError("stdin cannot be both policy and cluster; write one of them to a file")
    return read_text(arguments.policy)


def collect_objects(
    arguments: argparse.Namespace,
    descheduler: Descheduler,
    plugins: Mapping[str, Plugin],
    watch: Stopwatch[str],
) -> tuple[Collection, Counter[str]]:
    """The objects of the cluster, from dumps or live, and counts of kinds that were ignored."""
    kinds = [kind for plugin in plugins.values() for kind in plugin.kinds]
    if arguments.cluster:
        from resettle.dumps.reader import Dump

        with watch.phase("read and decode"):
            dump = Dump(kinds, descheduler.reads)
            dump.read(arguments.cluster)
        return dump.collection, dump.ignored
    from resettle.dumps.collection import list_cluster
    from resettle.kube.auth.kubeconfig import find_access

    access = find_access(arguments.kubeconfig, arguments.context)
    collection = list_cluster(access, descheduler.reads, kinds, watch.phase)
    collection.measured = measure_usage(access, descheduler, watch)
    return collection, Counter()


def measure_usage(access: Access, descheduler: Descheduler, watch: Stopwatch[str]) -> Measured:
    """Measured usage of the nodes of a live cluster, as far as the policy uses it."""
    if not descheduler.measures:
        return {}
    import asyncio

    from resettle.utilization.sources.poller import measure_once

    with watch.phase("measure"):
        return asyncio.run(measure_once(access, descheduler.measures, descheduler.providers))


def add_scales(
    arguments: argparse.Namespace, descheduler: Descheduler, snapshot: Snapshot
) -> Snapshot:
    """The snapshot of a live cluster with the scales that the policy reads."""
    if not descheduler.scales:
        return snapshot
    import asyncio

    from resettle.kube.auth.kubeconfig import find_access
    from resettle.kube.watch.scales import read_scales_once

    access = find_access(arguments.kubeconfig, arguments.context)
    objects = snapshot.scaled_objects(descheduler.scales)
    return snapshot.with_scales(asyncio.run(read_scales_once(access, objects)))


NO_CAPTURE_TIME = (
    "the dump does not say when it was taken, so its measurements are judged at the present time; "
    "set another with --now"
)


def time_notes(
    arguments: argparse.Namespace, collection: Collection, descheduler: Descheduler
) -> Iterator[str]:
    """Notes on the time of the plan, where `--now` is not given."""
    if arguments.now is not None:
        return
    if len(collection.taken_times) > 1:
        yield capture_times_note(collection.taken_times)
    if arguments.cluster and not collection.taken_times and descheduler.measures:
        yield NO_CAPTURE_TIME


def capture_times_note(stamps: Iterable[datetime]) -> str:
    """A note on captures that were taken at different times."""
    times = " and ".join(f"{at.astimezone(UTC):%Y-%m-%dT%H:%M:%SZ}" for at in sorted(stamps))
    return (
        f"the captures were taken at {times}, so the plan is for the present; "
        "set another time with --now"
    )


def input_notes(
    descheduler: Descheduler,
    skipped: Mapping[str, int],
    snapshot: Snapshot,
    *,
    from_dump: bool,
) -> Iterator[str]:
    """Notes on what is unusual in the input, though it can be planned with."""
    yield from descheduler.cautions
    if skipped:
        kinds = ", ".join(f"{n} {kind}" for kind, n in sorted(skipped.items()))
        yield f"ignored object kinds: {kinds}"
    if not snapshot.node_index.nodes:
        yield "there are no nodes"
    if not len(snapshot.pod_index):
        yield "there are no pods"
    if snapshot.pods_on_unknown_nodes:
        nodes = sorted({pod.node for pod in snapshot.pods_on_unknown_nodes})
        names = ", ".join(nodes[:3]) + (", …" if len(nodes) > 3 else "")
        yield (
            f"pods on nodes that are not listed ({names}) count as replicas "
            f"and stay where they are: {len(snapshot.pods_on_unknown_nodes)}"
        )
    if from_dump and not snapshot.budgets:
        yield "the dump holds no disruption budgets, so the plan assumes there are none"
    if not descheduler.profiles:
        yield "the policy has no profiles, so nothing will move"
