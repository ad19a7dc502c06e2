"""Flags of the upstream descheduler that have no effect here: they are accepted, with a warning."""

from __future__ import annotations

import argparse
import textwrap
from typing import TYPE_CHECKING, NamedTuple

from resettle.cli.flags.common import add_switch

if TYPE_CHECKING:
    from resettle.log import Log


class Idle(NamedTuple):
    """A flag without effect, whether it stands alone, and why it has none."""

    name: str
    stands_alone: bool
    reason: str


_HTTP1 = "metrics and health are served over HTTP/1.1"
_ONE_STREAM = "the log is one stream on stderr, and each line is written at once"


_SHARING = "the port is bound in the usual way"


IDLE = (
    Idle("--vmodule", False, "verbosity is for the whole log; use --v"),
    Idle("--log-flush-frequency", False, _ONE_STREAM),
    Idle("--log-text-split-stream", True, _ONE_STREAM),
    Idle("--log-text-info-buffer-size", False, _ONE_STREAM),
    Idle("--log-json-split-stream", True, _ONE_STREAM),
    Idle("--log-json-info-buffer-size", False, _ONE_STREAM),
    Idle("--enable-http2", True, _HTTP1),
    Idle("--disable-http2-serving", True, _HTTP1),
    Idle("--http2-max-streams-per-connection", False, _HTTP1),
    Idle("--permit-port-sharing", True, _SHARING),
    Idle("--permit-address-sharing", True, _SHARING),
    Idle("--tls-curve-preferences", False, "OpenSSL chooses the curves"),
)


def add_idle_flags(command: argparse.ArgumentParser) -> None:
    """Adds them all; the help names them in one go."""
    named = "accepted all the same: " + ", ".join(flag.name for flag in IDLE)
    group = command.add_argument_group(
        "without effect here", textwrap.fill(named, 78, break_on_hyphens=False)
    )
    for flag in IDLE:
        if flag.stands_alone:
            add_switch(group, flag.name, argparse.SUPPRESS)
        else:
            group.add_argument(flag.name, default=False, help=argparse.SUPPRESS)


def warn_of_idle_flags(arguments: argparse.Namespace, log: Log) -> None:
    """Tells of each that asks for something it will not get; `=false` asks for nothing."""
    for flag in IDLE:
        if getattr(arguments, flag.name.removeprefix("--").replace("-", "_")) is not False:
            log.warning("flag without effect", flag=flag.name, reason=flag.reason)
