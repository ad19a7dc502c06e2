"""Flags of upstream, kubernetes-sigs/descheduler, that have no effect here.

They are accepted, so that its manifests work; each that is set is logged once with the reason.
"""

from __future__ import annotations

import argparse
import textwrap
from typing import TYPE_CHECKING, NamedTuple

from resettle.cli.flags.common import add_switch

if TYPE_CHECKING:
    from resettle.log import Log


class IgnoredFlag(NamedTuple):
    """A flag without effect, whether it is a switch, and why it has none."""

    name: str
    is_switch: bool
    reason: str


_HTTP1 = "metrics and health are served over HTTP/1.1"
_ONE_STREAM = "the log is one stream on stderr, and each line is written at once"
_SHARING = "the port is bound in the usual way"

IGNORED_FLAGS = (
    IgnoredFlag("--vmodule", False, "verbosity is for the whole log; use --v"),
    IgnoredFlag("--log-flush-frequency", False, _ONE_STREAM),
    IgnoredFlag("--log-text-split-stream", True, _ONE_STREAM),
    IgnoredFlag("--log-text-info-buffer-size", False, _ONE_STREAM),
    IgnoredFlag("--log-json-split-stream", True, _ONE_STREAM),
    IgnoredFlag("--log-json-info-buffer-size", False, _ONE_STREAM),
    IgnoredFlag("--enable-http2", True, _HTTP1),
    IgnoredFlag("--disable-http2-serving", True, _HTTP1),
    IgnoredFlag("--http2-max-streams-per-connection", False, _HTTP1),
    IgnoredFlag("--permit-port-sharing", True, _SHARING),
    IgnoredFlag("--permit-address-sharing", True, _SHARING),
    IgnoredFlag("--tls-curve-preferences", False, "OpenSSL chooses the curves"),
)


def add_ignored_flags(command: argparse.ArgumentParser) -> None:
    """Add the ignored flags; the help names them in one paragraph."""
    named = "accepted and ignored: " + ", ".join(flag.name for flag in IGNORED_FLAGS)
    group = command.add_argument_group(
        "flags without effect", textwrap.fill(named, 78, break_on_hyphens=False)
    )
    for flag in IGNORED_FLAGS:
        if flag.is_switch:
            add_switch(group, flag.name, argparse.SUPPRESS)
        else:
            group.add_argument(flag.name, default=False, help=argparse.SUPPRESS)


def warn_about_ignored_flags(arguments: argparse.Namespace, log: Log) -> None:
    """Log each ignored flag that is set; `=false` counts as not set."""
    for flag in IGNORED_FLAGS:
        if getattr(arguments, flag.name.removeprefix("--").replace("-", "_")) is not False:
            log.warning("flag without effect", flag=flag.name, reason=flag.reason)
