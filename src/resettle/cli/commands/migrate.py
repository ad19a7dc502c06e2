"""`resettle migrate`: what to change in policies, manifests and Helm values of upstream.

Upstream is kubernetes-sigs/descheduler. What is checked, and how, is in `cli/migrate`.
"""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING

from resettle import __version__
from resettle.cli.commands.policy import TARGETS
from resettle.errors import InputError
from resettle.files import STDIN, display_name, read_text

if TYPE_CHECKING:
    from resettle.cli.migrate.findings import MigrationReport

_EXAMPLE = """\
examples:
  $ resettle migrate policy.yaml
  $ resettle migrate deployment.yaml configmap.yaml rbac.yaml
  $ kubectl -n kube-system get cm,cronjob,deploy -o yaml | resettle migrate -
  $ helm get values -n kube-system descheduler -o yaml | resettle migrate -
  $ resettle migrate helm-release.yaml --write policy.yaml --to resettle/v1

exit codes:
  0 ready for the swap; 1 something has to be changed first, or cannot be read;
  2 usage error
"""


def register(subcommands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add `migrate` to the command line."""
    summary = "Show what to change to run resettle in place of kubernetes-sigs/descheduler."
    command = subcommands.add_parser(
        "migrate",
        help=summary,
        description=f"{summary} Reads policies, ConfigMaps, manifests and Helm values; "
        "changes nothing.",
        epilog=_EXAMPLE,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    command.add_argument(
        "files",
        metavar="FILE",
        nargs="+",
        help="a policy, a manifest, what kubectl printed, Helm values; `-` for stdin",
    )
    command.add_argument(
        "--image",
        metavar="NAME:TAG",
        default=f"resettle:{__version__}",
        help="the image of resettle, as your cluster pulls it (%(default)s)",
    )
    command.add_argument("--write", metavar="FILE", help="write the policy to this file, tidied")
    command.add_argument(
        "--to", choices=TARGETS, default=TARGETS[0], help="the apiVersion to write (%(default)s)"
    )
    command.add_argument(
        "-o",
        "--output",
        choices=("text", "json"),
        default="text",
        help="for people (%(default)s) or for programs",
    )
    command.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Print the findings; return 1 if something has to be changed first."""
    from resettle.cli.migrate.findings import assess_inventory, report_json, report_text
    from resettle.cli.migrate.inventory import Inventory
    from resettle.framework.registry import default_registry

    if arguments.files.count(STDIN) > 1:
        raise InputError("stdin is one file; name it once")
    inventory = Inventory()
    for file in arguments.files:
        inventory.read(read_text(file), display_name(file))
    if inventory.is_empty:
        raise InputError(_nothing_found_message(arguments.files, inventory.ignored_kinds))
    verdict = assess_inventory(inventory, default_registry(), arguments.image)
    if arguments.write:
        _write(verdict, arguments)
    if arguments.output == "json":
        print(report_json(verdict))
    else:
        print("\n".join(report_text(verdict, _next_steps(verdict, arguments))))
    return 0 if verdict.ready else 1


def _nothing_found_message(files: list[str], ignored: dict[str, int]) -> str:
    named = ", ".join(map(display_name, files))
    kinds = ", ".join(sorted(kind for kind, count in ignored.items() if count))
    others = f" (it holds: {kinds})" if kinds else ""
    return (
        f"nothing in {named} belongs to descheduler{others}; "
        "name its policy or ConfigMap, the manifest that runs it, or the values of its chart"
    )


def _write(verdict: MigrationReport, arguments: argparse.Namespace) -> None:
    from resettle.files import replace_file
    from resettle.policy.versions.upgrade import write_policy

    usable = [finding for finding in verdict.policies if finding.reading is not None]
    if len(usable) != 1:
        titles = ", ".join(
            f"{finding.policy.source.file}: {finding.policy.title}" for finding in usable
        )
        raise InputError(
            f"--write takes one policy that can be used, and there are {len(usable)}"
            + (f" ({titles}); name its file alone" if usable else "; fix its problems first")
        )
    if arguments.write in arguments.files:
        raise InputError(f"--write would replace {arguments.write}; name another file")
    (chosen,) = usable
    reading = chosen.improved if arguments.to == TARGETS[1] else chosen.reading
    if reading is None:
        says = f"as {arguments.to} the policy has problems"
        raise InputError(f"{says}; run without --write to list them")
    with replace_file(arguments.write) as sink:
        sink.write(write_policy(reading, chosen.policy.title, arguments.to).encode())
    print(f"written: {arguments.write}", file=sys.stderr)


def _next_steps(verdict: MigrationReport, arguments: argparse.Namespace) -> list[str]:
    policy = arguments.write or "policy.yaml"
    steps = []
    if not verdict.ready:
        steps.append(
            "fix the problems listed under `to change first` and `mistakes`, and run this again;"
        )
        steps.append(
            "or run with --policy-problems=warn, which treats mistakes as descheduler does"
        )
    if not arguments.write and verdict.policies:
        steps.append(f"$ resettle migrate {' '.join(arguments.files)} --write {policy}")
    steps += [
        f"$ resettle plan --policy {policy}            # beside what runs now; changes nothing",
        f"$ resettle check-access --policy {policy}    # as the service account that will run it",
        f"then the swap to {arguments.image}; docs/start/migrating.md leads through it, and back",
    ]
    return steps
