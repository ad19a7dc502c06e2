"""Flags that several commands have: the policy, the cluster, the log; each is declared here once.

They are spelled as those of kubernetes-sigs/descheduler, so that its manifests work unchanged.
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
    """Adds the flag that names the policy, also by the peer's name for it."""
    group.add_argument(
        "--policy",
        *(["--policy-config-file"] if with_upstream_name else []),
        dest="policy",
        metavar="FILE",
        required=required,
        help=help_text,
    )


def add_policy_problems_flag(group: argparse._ActionsContainer) -> None:
    """Adds the flag that says how grave it is what the peer hides; `arguments.forgiving`."""
    group.add_argument(
        "--policy-problems",
        dest="forgiving",
        type=_parse_policy_problems,
        metavar="{error,warn}",
        default="error",
        help="unknown keys and what else kubernetes-sigs/descheduler hides: "
        "`warn` goes on as it does (%(default)s)",
    )


def _parse_policy_problems(word: str) -> bool:
    if word not in ("error", "warn"):
        raise argparse.ArgumentTypeError(f"`{word}` is neither error nor warn")
    return word == "warn"


def add_kubeconfig_flag(group: argparse._ActionsContainer, *, with_upstream_name: bool = False) -> None:
    """Adds the flag that names the kubeconfig, also by the peer's newer name for it."""
    group.add_argument(
        "--kubeconfig",
        *(["--client-connection-kubeconfig"] if with_upstream_name else []),
        dest="kubeconfig",
        metavar="FILE",
        help="the cluster (default: $KUBECONFIG, ~/.kube/config, or the account of the pod)",
    )


def add_context_flag(group: argparse._ActionsContainer) -> None:
    """Adds the flag that chooses within the kubeconfig."""
    group.add_argument("--context", metavar="NAME", help="the context of the kubeconfig to use")


def add_log_flags(group: argparse._ActionsContainer) -> None:
    """Adds the flags that say how the log is written."""
    group.add_argument(
        "-v",
        "--v",
        metavar="N",
        type=int,
        default=0,
        help="how much is told: 1 adds each plugin's turn, 3 every detail (%(default)s)",
    )
    group.add_argument(
        "--logging-format", choices=("text", "json"), default="text", help="(%(default)s)"
    )


def add_switch(group: argparse._ActionsContainer, name: str, help_text: str) -> None:
    """Adds a flag that may stand alone or say `=true` or `=false`, as Go's flags do."""
    group.add_argument(
        name, nargs="?", const=True, default=False, type=parse_bool, metavar="BOOL", help=help_text
    )


def parse_bool(word: str) -> bool:
    """What a word says that is either true or false."""
    match word.lower():
        case "true" | "t" | "1":
            return True
        case "false" | "f" | "0":
            return False
    raise argparse.ArgumentTypeError(f"`{word}` is neither true nor false")


def parse_seconds(flag: str, text: str) -> float:
    """The length of time a flag names: `5m`, `1h30m`, or plain `0`."""
    import re

    from resettle.policy.args import DURATION, parse_duration

    if text == "0":
        return 0.0
    if not re.fullmatch(DURATION, text) or text.startswith("-"):
        raise InputError(f"{flag}: `{text}` is not a length of time; write one such as 5m or 90s")
    return parse_duration(text).total_seconds()
