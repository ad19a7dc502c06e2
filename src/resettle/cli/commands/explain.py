"""`resettle explain`: why a pod moves or stays, and the same for a node and a whole cycle.

It only reads. What could be changed is found by planning again with each change.
"""

from __future__ import annotations

import argparse
import gc
import json
import sys
from typing import TYPE_CHECKING, Any

from resettle.cli.inputs.cluster import add_source_flags, read_inputs
from resettle.clock import Stopwatch

if TYPE_CHECKING:
    from resettle.explain.what_if import PlanInputs
    from resettle.framework.plan import Plan

_EXAMPLE = """\
examples:
  $ resettle explain pod shop/cart-1 --cluster cluster.json --policy policy.yaml
  $ resettle explain node node-3 --policy policy.yaml
  $ resettle explain cycle --cluster dumps/ --policy policy.yaml -o json
  $ resettle explain pod shop/cart-1 --record /var/lib/resettle

exit codes:
  0 success; 1 the pod or node was not found, the input cannot be read, or a plugin failed;
  2 usage error
"""


def register(subcommands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add `explain` and its subcommands to the command line."""
    summary = "Show why a pod would move or stay, and what would change that; changes nothing."
    explain = subcommands.add_parser(
        "explain",
        help=summary,
        description=summary,
        epilog=_EXAMPLE,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    commands = explain.add_subparsers(metavar="WHAT", required=True, title="what to explain")
    pod = _add_command(
        commands,
        "pod",
        "NAMESPACE/NAME",
        "Show whether a pod moves, and if not, what would change that.",
    )
    pod.add_argument("pod", metavar="NAMESPACE/NAME", type=parse_pod_key, help="the pod")
    pod.set_defaults(run=run_pod)
    node = _add_command(
        commands, "node", "NAME", "Show how full a node is, and which of its pods move."
    )
    node.add_argument("node", metavar="NAME", help="the node")
    node.set_defaults(run=run_node)
    cycle = _add_command(
        commands, "cycle", "", "Show what each plugin did, and what was close to a threshold."
    )
    cycle.set_defaults(run=run_cycle)
    for command in (pod, node, cycle):
        add_source_flags(command)
        command.add_argument(
            "-o",
            "--output",
            choices=("text", "json"),
            default="text",
            help="for people (%(default)s) or for programs",
        )


def _add_command(
    commands: argparse._SubParsersAction[argparse.ArgumentParser],
    name: str,
    argument: str,
    summary: str,
) -> argparse.ArgumentParser:
    """A command whose usage has its argument before `--cluster`, which takes all that follows."""
    words = f"{name} {argument}" if argument else name
    return commands.add_parser(
        name,
        help=summary,
        description=summary,
        usage=f"resettle explain {words} (--policy FILE | --record DIR) [options]",
    )


def parse_pod_key(text: str) -> tuple[str, str]:
    """The namespace and the name of a pod written as NAMESPACE/NAME."""
    namespace, slash, name = text.partition("/")
    if not slash or not namespace or not name or "/" in name:
        raise argparse.ArgumentTypeError(f"`{text}` is not the name of a pod; write NAMESPACE/NAME")
    return namespace, name


def run_pod(arguments: argparse.Namespace) -> int:
    """Explain a pod."""
    from resettle.cli.text.explain_pod import pod_document, pod_text
    from resettle.explain.pod import explain_pod, no_such_pod

    inputs = _read_inputs(arguments, arguments.pod)
    pod = inputs.snapshot.pod(*arguments.pod)
    if pod is None:
        raise no_such_pod(inputs.snapshot, *arguments.pod)
    answer = explain_pod(inputs, pod)
    if arguments.output == "json":
        _print_json(pod_document(answer, inputs.snapshot))
    else:
        _print_text(pod_text, answer)
    return _exit_code(answer.plan)


def run_node(arguments: argparse.Namespace) -> int:
    """Explain a node."""
    from resettle.cli.text.explain_node import node_document, node_text
    from resettle.explain.node import explain_node
    from resettle.explain.pod import no_such_node

    inputs = _read_inputs(arguments)
    node = inputs.snapshot.node_index.get(arguments.node)
    if node is None:
        raise no_such_node(inputs.snapshot, arguments.node)
    answer = explain_node(inputs, node)
    if arguments.output == "json":
        _print_json(node_document(answer))
    else:
        _print_text(node_text, answer)
    return _exit_code(answer.plan)


def run_cycle(arguments: argparse.Namespace) -> int:
    """Explain the whole cycle."""
    from resettle.cli.text.explain_cycle import cycle_document, cycle_text
    from resettle.explain.cycle import explain_cycle

    answer = explain_cycle(_read_inputs(arguments))
    if arguments.output == "json":
        _print_json(cycle_document(answer))
    else:
        _print_text(cycle_text, answer)
    return _exit_code(answer.plan)


def _read_inputs(arguments: argparse.Namespace, pod: tuple[str, str] | None = None) -> PlanInputs:
    """The policy and the cluster; both stay in memory, so the garbage collector skips them."""
    gc.disable()
    from resettle.explain.what_if import PlanInputs

    inputs = PlanInputs(*read_inputs(arguments, Stopwatch(), pod))
    # Each plan that is tried leaves a snapshot that refers to itself, for the collector to free.
    gc.freeze()
    gc.enable()
    return inputs


def _print_text(render: Any, answer: Any) -> None:
    from resettle.cli.text.plan import Paint, use_colour
    from resettle.cli.text.terminal import terminal_width

    print(render(answer, Paint(use_colour(sys.stdout)), terminal_width()), end="")


def _print_json(document: dict[str, Any]) -> None:
    print(json.dumps(document, indent=2, ensure_ascii=False))


def _exit_code(plan: Plan) -> int:
    """1 if a plugin failed, after printing its error; else 0."""
    for failed in plan.errors:
        print(f"error: {failed}", file=sys.stderr)
    return 1 if plan.errors else 0
