"""What commands that look at a cluster share: their flags, and how they read what these name."""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from datetime import UTC, datetime
from typing import TYPE_CHECKING, NamedTuple

from resettle.cli.commands.policy import print_warnings
from resettle.cli.flags.common import add_context, add_kubeconfig, add_policy, add_policy_problems
from resettle.cli.flags.record import add_cycle, asked_wrongly
from resettle.errors import InputError
from resettle.files import read_text, shown_name
from resettle.times import named_time

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


class Reading(NamedTuple):
    """A policy made ready, the cluster it is to decide on, and what has been done there so far."""

    descheduler: Descheduler
    snapshot: Snapshot
    earlier_rounds: EarlierRounds


def add_sources(command: argparse.ArgumentParser) -> None:
    """Adds the flags that name a cluster, a policy and a time, or a cycle of a record."""
    source = command.add_mutually_exclusive_group()
    source.add_argument(
        "--cluster",
        metavar="FILE",
        nargs="+",
        help="what `kubectl get … -o json` or `-o yaml` wrote: files, folders, `-` for stdin",
    )
    add_kubeconfig(source)
    source.add_argument(
        "--record", metavar="DIR", help="a cycle of the past, from what `run --record` wrote"
    )
    add_cycle(command)
    add_context(command)
    add_policy(
        command,
        "the descheduler policy; `-` for stdin (default with --record: the one of then)",
        required=False,
    )
    add_policy_problems(command)
    command.add_argument(
        "--now",
        metavar="TIME",
        help="the time to plan for, such as 2026-01-31T12:00:00Z "
        "(default: when a capture was taken, else the present)",
    )
    command.set_defaults(usage_error=command.error)


def read(
    arguments: argparse.Namespace, watch: Stopwatch[str], pod: tuple[str, str] | None = None
) -> Reading:
    """Reads policy and cluster, and says on stderr what is unusual about them.

    `pod` is whom it is about, if it is about one: a record is then asked for its last cycle.
    """
    if wrong := asked_wrongly(arguments):
        arguments.usage_error(wrong)
    if arguments.record:
        from resettle.cli.inputs.recorded import play

        return Reading(*play(arguments, pod))
    if not arguments.policy:
        arguments.usage_error("the following arguments are required: --policy")
    with watch.phase("start"):
        from resettle.framework.descheduler import assembled
        from resettle.framework.plan_state import NO_EARLIER_ROUNDS
        from resettle.framework.registry import default_registry
        from resettle.policy.load import load_policy

        named = named_time(arguments.now)
        plugins = default_registry()
        policy = load_policy(
            policy_text(arguments),
            name=shown_name(arguments.policy),
            plugins=plugins,
            forgiving=arguments.forgiving,
        )
        print_warnings(policy.warnings)
        descheduler = assembled(policy, plugins)
    collection, skipped = collect(arguments, descheduler, plugins, watch)
    with watch.phase("snapshot"):
        snapshot = collection.snapshot(named or collection.taken_at or datetime.now(UTC))
        for remark in about_time(arguments, collection, descheduler):
            print(f"note: {remark}", file=sys.stderr)
        del collection
    for remark in remarks(descheduler, skipped, snapshot, from_dump=bool(arguments.cluster)):
        print(f"note: {remark}", file=sys.stderr)
    return Reading(descheduler, snapshot, NO_EARLIER_ROUNDS)


def policy_text(arguments: argparse.Namespace) -> str:
    """The policy; stdin serves one purpose only."""
    if arguments.policy == "-" and "-" in (arguments.cluster or ()):
        raise InputError("stdin cannot be both policy and cluster; write one of them to a file")
    return read_text(arguments.policy)


def collect(
    arguments: argparse.Namespace,
    descheduler: Descheduler,
    plugins: Mapping[str, Plugin],
    watch: Stopwatch[str],
) -> tuple[Collection, Counter[str]]:
    """The objects of the cluster, from dumps or live, and what a dump held besides."""
    kinds = [kind for plugin in plugins.values() for kind in plugin.kinds]
    if arguments.cluster:
        from resettle.dumps.reader import Dump

        with watch.phase("read and decode"):
            dump = Dump(kinds, descheduler.reads)
            dump.read(arguments.cluster)
        return dump.collection, dump.unread
    from resettle.dumps.collection import list_cluster
    from resettle.kube.auth.kubeconfig import find_access

    access = find_access(arguments.kubeconfig, arguments.context)
    collection = list_cluster(access, descheduler.reads, kinds, watch.phase)
    collection.measured = measured(access, descheduler, watch)
    return collection, Counter()


def measured(access: Access, descheduler: Descheduler, watch: Stopwatch[str]) -> Measured:
    """How busy the nodes of a live cluster are, as far as the policy goes by it."""
    if not descheduler.measures:
        return {}
    import asyncio

    from resettle.utilization.sources.poller import measured_once

    with watch.phase("measure"):
        return asyncio.run(measured_once(access, descheduler.measures, descheduler.providers))


UNTIMED = (
    "the dump does not say when it was taken, so its figures are as old as they are now; "
    "--now names the time to judge them by"
)


def about_time(
    arguments: argparse.Namespace, collection: Collection, descheduler: Descheduler
) -> Iterator[str]:
    """What is unusual about the time that is planned for, where no flag names one."""
    if arguments.now is not None:
        return
    if len(collection.stamps) > 1:
        yield at_different_times(collection.stamps)
    if arguments.cluster and not collection.stamps and descheduler.measures:
        yield UNTIMED


def at_different_times(stamps: Iterable[datetime]) -> str:
    """A remark on captures that do not agree on when they were taken."""
    times = " and ".join(f"{at.astimezone(UTC):%Y-%m-%dT%H:%M:%SZ}" for at in sorted(stamps))
    return f"the captures were taken at {times}, so the present is planned for; --now names a time"


def remarks(
    descheduler: Descheduler,
    skipped: Mapping[str, int],
    snapshot: Snapshot,
    *,
    from_dump: bool,
) -> Iterator[str]:
    """What is unusual about the input, though it can be planned with."""
    yield from descheduler.cautions
    if skipped:
        kinds = ", ".join(f"{n} {kind}" for kind, n in sorted(skipped.items()))
        yield f"objects of kinds that do not matter were skipped: {kinds}"
    if not snapshot.fleet.nodes:
        yield "there are no nodes"
    if not len(snapshot.population):
        yield "there are no pods"
    if snapshot.strays:
        nodes = sorted({pod.node for pod in snapshot.strays})
        names = ", ".join(nodes[:3]) + (", …" if len(nodes) > 3 else "")
        yield (
            f"pods on nodes that are not listed ({names}) count as replicas "
            f"and stay where they are: {len(snapshot.strays)}"
        )
    if from_dump and not snapshot.budgets:
        yield "the dump holds no disruption budgets, so the plan reckons with none"
    if not descheduler.profiles:
        yield "the policy has no profiles, so nothing is looked for"
