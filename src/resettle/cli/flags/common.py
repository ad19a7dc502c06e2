"""Flags that several commands have: the policy, the cluster, the log; each is declared here once.

They are spelled as those of upstream, kubernetes-sigs/descheduler, so that its manifests work
unchanged.
"""

from __future__ import annotations

import argparse

from resettle.errors import InputError


def add_policy_flag(
    group: argparse._ActionsContainer,
    help_text: str = "the descheduler policy; `-` for stdin",
    *,
    required: bool = True,
    with_upstream_name: bool = False,
) -> None:
    """Add the flag that names the policy, if asked also under upstream's name."""
    group.add_argument(
        "--policy",
        *(["--policy-config-file"] if with_upstream_name else []),
        dest="policy",
        metavar="FILE",
        required=required,
        help=help_text,
    )


def add_policy_problems_flag(group: argparse._ActionsContainer) -> None:
    """Add the flag that makes mistakes which upstream ignores errors or warnings."""
    group.add_argument(
        "--policy-problems",
        dest="lenient",
        type=_parse_policy_problems,
        metavar="{error,warn}",
        default="error",
        help="unknown keys and other mistakes that kubernetes-sigs/descheduler ignores: "
        "error, or warn and continue (%(default)s)",
    )


def _parse_policy_problems(word: str) -> bool:
    if word not in ("error", "warn"):
        raise argparse.ArgumentTypeError(f"`{word}` is neither error nor warn")
    return word == "warn"


def add_kubeconfig_flag(
    group: argparse._ActionsContainer, *, with_upstream_name: bool = False
) -> None:
    """Add the flag that names the kubeconfig, if asked also under upstream's newer name."""
    group.add_argument(
        "--kubeconfig",
        *(["--client-connection-kubeconfig"] if with_upstream_name else []),
        dest="kubeconfig",
        metavar="FILE",
        help="the cluster (default: $KUBECONFIG, ~/.kube/config, or the pod's service account)",
    )


def add_context_flag(group: argparse._ActionsContainer) -> None:
    """Add the flag that names the context of the kubeconfig."""
    group.add_argument("--context", metavar="NAME", help="the context of the kubeconfig to use")


def add_log_flags(group: argparse._ActionsContainer) -> None:
    """Add the flags for verbosity and format of the log."""
    group.add_argument(
        "-v",
        "--v",
        metavar="N",
        type=int,
        default=0,
        help="log verbosity: 1 adds a line per plugin, 3 every detail (%(default)s)",
    )
    group.add_argument(
        "--logging-format",
        choices=("text", "json"),
        default="text",
        help="format of the log (%(default)s)",
    )


def add_switch(group: argparse._ActionsContainer, name: str, help_text: str) -> None:
    """Add a flag that may stand alone or with `=true` or `=false`, as Go's flags do."""
    group.add_argument(
        name, nargs="?", const=True, default=False, type=parse_bool, metavar="BOOL", help=help_text
    )


def parse_bool(word: str) -> bool:
    """The boolean that a word stands for, in the spellings Go accepts."""
    match word.lower():
        case "true" | "t" | "1":
            return True
        case "false" | "f" | "0":
            return False
    raise argparse.ArgumentTypeError(f"`{word}` is neither true nor false")


def parse_seconds(flag: str, text: str) -> float:
    """The duration of a flag in seconds: `5m`, `1h30m`, or plain `0`."""
    import re

    from resettle.policy.args import DURATION, parse_duration

    if text == "0":
        return 0.0
    if not re.fullmatch(DURATION, text) or text.startswith("-"):
        raise InputError(f"{flag}: `{text}` is not a duration; write one such as 5m or 90s")
    return parse_duration(text).total_seconds()
