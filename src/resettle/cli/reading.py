"""What commands that look at a cluster share: their flags, and how they read what these name."""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from datetime import UTC, datetime
from typing import TYPE_CHECKING, NamedTuple

from resettle.cli.policy import print_warnings, read_text, shown_name
from resettle.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from resettle.cli.stopwatch import Stopwatch
    from resettle.cluster.collect import Collection
    from resettle.framework.descheduler import Descheduler
    from resettle.framework.plugin import Plugin
    from resettle.model.snapshot import Snapshot


class Reading(NamedTuple):
    """A policy made ready, and the cluster it is to decide on."""

    descheduler: Descheduler
    snapshot: Snapshot


def add_sources(command: argparse.ArgumentParser, *, policy_required: bool = True) -> None:
    """Adds the flags that name a cluster, a policy and a time."""
    source = command.add_mutually_exclusive_group()
    source.add_argument(
        "--cluster",
        metavar="FILE",
        nargs="+",
        help="what `kubectl get … -o json` or `-o yaml` wrote: files, folders, `-` for stdin",
    )
    source.add_argument(
        "--kubeconfig",
        metavar="FILE",
        help="a live cluster (default: $KUBECONFIG, else ~/.kube/config)",
    )
    command.add_argument("--context", metavar="NAME", help="the context of the kubeconfig to use")
    command.add_argument(
        "--policy",
        metavar="FILE",
        required=policy_required,
        help="the descheduler policy; `-` for stdin",
    )
    command.add_argument(
        "--now",
        metavar="TIME",
        help="the time to plan for, such as 2026-01-31T12:00:00Z (default: the present)",
    )


def read(arguments: argparse.Namespace, watch: Stopwatch) -> Reading:
    """Reads policy and cluster, and says on stderr what is unusual about them."""
    with watch.phase("start"):
        from resettle.framework.descheduler import assembled
        from resettle.framework.registry import default_registry
        from resettle.policy.load import load_policy

        now = instant(arguments.now)
        plugins = default_registry()
        policy = load_policy(
            policy_text(arguments), name=shown_name(arguments.policy), plugins=plugins
        )
        print_warnings(policy.warnings)
        descheduler = assembled(policy, plugins)
    collection, skipped = collect(arguments, descheduler, plugins, watch)
    with watch.phase("snapshot"):
        snapshot = collection.snapshot(now)
        del collection
    for remark in remarks(descheduler, skipped, snapshot, from_dump=bool(arguments.cluster)):
        print(f"note: {remark}", file=sys.stderr)
    return Reading(descheduler, snapshot)


def policy_text(arguments: argparse.Namespace) -> str:
    """The policy; stdin serves one purpose only."""
    if arguments.policy == "-" and "-" in (arguments.cluster or ()):
        raise InputError("stdin cannot be both policy and cluster; write one of them to a file")
    return read_text(arguments.policy)


def collect(
    arguments: argparse.Namespace,
    descheduler: Descheduler,
    plugins: Mapping[str, Plugin],
    watch: Stopwatch,
) -> tuple[Collection, Counter[str]]:
    """The objects of the cluster, from dumps or live, and what a dump held besides."""
    kinds = [kind for plugin in plugins.values() for kind in plugin.kinds]
    if arguments.cluster:
        from resettle.cluster.dump import Dump

        with watch.phase("read and decode"):
            dump = Dump(kinds)
            dump.read(arguments.cluster)
        return dump.collection, dump.unread
    from resettle.cluster.api import list_cluster
    from resettle.cluster.kubeconfig import default_kubeconfig, read_kubeconfig

    file = arguments.kubeconfig or default_kubeconfig()
    access = read_kubeconfig(file, arguments.context)
    return list_cluster(access, descheduler.reads, kinds, watch.phase), Counter()


def instant(text: str | None) -> datetime:
    """The time a flag names, or the present."""
    from resettle.model.parts import parse_time

    if text is None:
        return datetime.now(UTC)
    try:
        named = parse_time(text)
    except InputError as error:
        raise InputError(f"--now: {error}") from None
    if named is None:
        raise InputError("--now is empty; write a time such as 2026-01-31T12:00:00Z")
    return named


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
