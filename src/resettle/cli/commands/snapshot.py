"""`resettle snapshot`: a live cluster in one small file, for plans elsewhere. It only reads.

The file is replaced in one step, so an interrupted capture leaves the old one as it was.
"""

from __future__ import annotations

import argparse
import sys
from contextlib import AbstractContextManager, nullcontext
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from resettle.cli.commands.policy import print_warnings
from resettle.cli.flags.common import add_context_flag, add_kubeconfig_flag, add_policy_flag
from resettle.errors import InputError
from resettle.files import display_name, read_text

if TYPE_CHECKING:
    from resettle.dumps.anonymize import Anonymizer
    from resettle.dumps.writer import CaptureSummary
    from resettle.framework.descheduler import Descheduler
    from resettle.kube.auth.access import Access
    from resettle.model.kinds import Kind
    from resettle.model.measurements import Measured
    from resettle.model.workloads import Workload

DEFAULT_FILE = "cluster.json.gz"
STDOUT = "-"
RANDOM_SALT_BYTES = 32
_EXAMPLE = """\
examples:
  $ resettle snapshot
  $ resettle plan --cluster cluster.json.gz --policy policy.yaml
  $ resettle snapshot --kubeconfig reader.conf --context production -o production.json.gz
  $ resettle snapshot --hash-names -o for-a-bug-report.json.gz
  $ resettle snapshot -o - | resettle explain cycle --cluster - --policy policy.yaml

exit codes:
  0 the file was written; 1 it could not be written, and the old one stays;
  2 usage error
"""


def register(subcommands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add `snapshot` to the command line."""
    summary = "Write a live cluster to a small file, for plans elsewhere; changes nothing."
    command = subcommands.add_parser(
        "snapshot",
        help=summary,
        description=summary,
        epilog=_EXAMPLE,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add_kubeconfig_flag(command)
    add_context_flag(command)
    add_policy_flag(
        command,
        "list only what this policy reads; `-` for stdin (default: every kind that resettle reads)",
        required=False,
    )
    command.add_argument(
        "-o",
        "--output",
        metavar="FILE",
        default=DEFAULT_FILE,
        help="where to write it, gzipped; `-` for stdout (default: %(default)s)",
    )
    command.add_argument(
        "--hash-names",
        action="store_true",
        help="write digests in place of names, images and label values",
    )
    command.add_argument(
        "--salt",
        metavar="TEXT",
        help="salt of the digests; the same salt gives the same digests (default: a random one)",
    )
    command.add_argument(
        "--digest",
        metavar="NAME",
        nargs="+",
        help="only print the digests of these names under the salt; reads no cluster",
    )
    command.set_defaults(run=run, usage_error=command.error)


def run(arguments: argparse.Namespace) -> int:
    """Capture the cluster and print a summary on stderr."""
    if conflict := _flag_conflict(arguments):
        arguments.usage_error(conflict)
    if arguments.digest:
        return _print_digests(arguments)
    if arguments.output == STDOUT and sys.stdout.isatty():
        raise InputError("a terminal cannot show the capture; name a file with -o, or use a pipe")
    from resettle.dumps.writer import write_capture
    from resettle.kube.auth.kubeconfig import find_access
    from resettle.kube.watch.lists import ListClient
    from resettle.model.kinds import KINDS

    descheduler = _build_descheduler(arguments.policy)
    kinds = _kinds_to_capture(descheduler)
    digests = _build_digests(arguments)
    access = find_access(arguments.kubeconfig, arguments.context)
    usage = _measure_usage(access, descheduler)
    scales = _read_scales(access, descheduler)
    api = ListClient(access)
    progress = Progress()
    now = datetime.now(UTC)
    try:
        with _open_sink(arguments.output) as sink:
            captured = write_capture(api, kinds, sink, now, digests, progress.show, usage, scales)
    finally:
        progress.clear()
        api.close()
    left_out = [kind.plural for kind in kinds if digests and kind.name not in KINDS]
    if left_out:
        print(
            f"note: plugins read {', '.join(left_out)}, whose names cannot be hashed; left out",
            file=sys.stderr,
        )
    print(_summary(arguments.output, captured), file=sys.stderr)
    return 0


def _flag_conflict(arguments: argparse.Namespace) -> str | None:
    """What is wrong with the flags in combination, or None."""
    if arguments.salt == "":
        return "--salt is empty; write a text, or leave it out"
    if arguments.digest and not arguments.salt:
        return "--digest needs the --salt that the names were hashed with"
    if arguments.salt and not (arguments.hash_names or arguments.digest):
        return "--salt is for --hash-names; add that, or leave it out"
    return None


def _print_digests(arguments: argparse.Namespace) -> int:
    from resettle.dumps.anonymize import Anonymizer

    digests = Anonymizer(arguments.salt.encode())
    for name in arguments.digest:
        print(f"{digests.hash_name(name)}  {name}")
    return 0


def _build_descheduler(policy_file: str | None) -> Descheduler | None:
    """The descheduler of the named policy, or None without one."""
    if policy_file is None:
        return None
    from resettle.framework.descheduler import build_descheduler
    from resettle.framework.registry import default_registry
    from resettle.policy.load import load_policy

    plugins = default_registry()
    policy = load_policy(read_text(policy_file), name=display_name(policy_file), plugins=plugins)
    print_warnings(policy.warnings)
    return build_descheduler(policy, plugins)


def _kinds_to_capture(descheduler: Descheduler | None) -> list[Kind]:
    """The kinds to list: all that resettle reads, or those the policy reads."""
    from resettle.framework.registry import default_registry
    from resettle.model.kinds import kinds_to_list

    brought = [kind for plugin in default_registry().values() for kind in plugin.kinds]
    return kinds_to_list(brought, descheduler.reads if descheduler else None)


def _read_scales(access: Access, descheduler: Descheduler | None) -> tuple[Workload, ...]:
    """The scales that the policy reads; which ones these are is known once all pods are."""
    if descheduler is None or not descheduler.scales:
        return ()
    import asyncio

    from resettle.dumps.collection import list_cluster
    from resettle.kube.watch.scales import read_scales_once

    collection = list_cluster(access, frozenset({"ReplicaSet"}))
    objects = collection.snapshot(datetime.now(UTC)).scaled_objects(descheduler.scales)
    return asyncio.run(read_scales_once(access, objects))


def _measure_usage(access: Access, descheduler: Descheduler | None) -> Measured:
    """Usage of the nodes, from the metrics API or from the sources that the policy names.

    A cluster may have no metrics server, so a missing measurement is noted only if the policy
    uses it.
    """
    import asyncio

    from resettle.model.measurements import METRICS_API
    from resettle.utilization.sources.poller import measure_once

    questions = descheduler.measures if descheduler else frozenset({METRICS_API})
    if not questions:
        return {}
    usage = asyncio.run(
        measure_once(access, questions, descheduler.providers if descheduler else ())
    )
    if descheduler:
        for failure in sorted({answer.failure for answer in usage.values() if answer.failure}):
            print(f"note: left out: {failure}", file=sys.stderr)
    return usage


def _build_digests(arguments: argparse.Namespace) -> Anonymizer | None:
    if not arguments.hash_names:
        return None
    import secrets

    from resettle.dumps.anonymize import Anonymizer

    salt: str | None = arguments.salt
    return Anonymizer(salt.encode() if salt else secrets.token_bytes(RANDOM_SALT_BYTES))


def _open_sink(file: str) -> AbstractContextManager[Any]:
    from resettle.files import replace_file

    return nullcontext(sys.stdout.buffer) if file == STDOUT else replace_file(file)


def _summary(file: str, captured: CaptureSummary) -> str:
    named = "standard output" if file == STDOUT else file
    counts = [f"{n:,} {plural}" for plural, n in captured.counts.items() if n]
    return f"{named}: {', '.join(counts) or 'no objects'}; {captured.size:,} bytes"


class Progress:
    """Progress of the listing, in one line that a terminal overwrites; silent elsewhere."""

    def __init__(self) -> None:
        self._shown = 0
        self._on_terminal = sys.stderr.isatty()

    def show(self, plural: str, count: int) -> None:
        """Show how many objects are listed so far."""
        self._show(f"{count:,} {plural}")

    def clear(self) -> None:
        """Clear the line."""
        if self._shown:
            self._show("")

    def _show(self, text: str) -> None:
        if self._on_terminal:
            blank = " " * (self._shown - len(text))
            end = "" if text else "\r"
            print(f"\r{text}{blank}{end}", end="", file=sys.stderr, flush=True)
            self._shown = len(text)
