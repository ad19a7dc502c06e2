"""The flags that the peer is started with: which stay, which mean nothing, which must change."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NoReturn

from yaml import Node

from resettle.cli.idle_flags import IDLE
from resettle.cli.migration.finding import Finding, Sort
from resettle.cli.migration.sheet import Sheet
from resettle.cli.parser import Parser, is_flag
from resettle.cli.run_flags import add_flags, settings_of
from resettle.errors import InputError
from resettle.loop import RunSettings

Word = tuple[str, Node]
_IDLE = {flag.name: flag.reason for flag in IDLE}
_EVICTOR = "it is an argument of DefaultEvictor now"
OLD_FLAGS = {
    "--evict-local-storage-pods": f"{_EVICTOR}: `evictLocalStoragePods: true`",
    "--max-pods-to-evict-per-node": "it is `maxNoOfPodsToEvictPerNode` of the policy now",
    "--node-selector": "it is `nodeSelector` of the policy now",
    "--priority-threshold": f"{_EVICTOR}: `priorityThreshold`",
    "--logtostderr": "the log is on stderr anyhow",
    "--stderrthreshold": "the log is on stderr anyhow",
    "--alsologtostderr": "the log is on stderr anyhow",
    "--address": "it is --bind-address now",
}
"""Flags that releases of the peer once had, and what became of them."""


class _Asked(Parser):
    """A parser that tells what is wrong rather than ending the program."""

    def error(self, message: str) -> NoReturn:
        """Raises what is wrong."""
        raise InputError(message)


def judged(words: Sequence[Word], sheet: Sheet) -> tuple[list[Finding], RunSettings | None]:
    """What there is to say of a command line, and the settings it makes if it makes any."""
    parser = _Asked(prog="run", add_help=False)
    add_flags(parser)
    findings: list[Finding] = []
    kept: list[str] = []
    understood: list[str] = []
    for flag, shown, node in _flags(words, parser):
        if flag is None:
            findings.append(_unknown(shown, node, sheet, parser))
        elif flag in _IDLE:
            findings.append(sheet.finding(Sort.IDLE, flag, _IDLE[flag], at=node))
        else:
            kept.append(shown)
        if flag is not None:
            understood.append(shown)
    at = words[0][1] if words else None
    if kept:
        findings.append(sheet.finding(Sort.STAYS, " ".join(kept), "the same flags here", at=at))
    try:
        return findings, settings_of(parser.parse_args(understood))
    except InputError as error:
        findings.append(sheet.finding(Sort.CHANGE, "flags", str(error), at=at))
        return findings, None


def _flags(words: Sequence[Word], parser: Parser) -> Iterator[tuple[str | None, str, Node]]:
    """Each flag with its value: its name here or None, as it was written, and where."""
    left = list(reversed(words))
    while left:
        word, node = left.pop()
        action, value = parser.flag(word) if is_flag(word) else (None, None)
        if action is None:
            yield None, word, node
            continue
        shown = word
        if value is None and action.nargs is None and left and not is_flag(left[-1][0]):
            shown = f"{word}={left.pop()[0]}"
        yield action.option_strings[-1], shown, node


def _unknown(word: str, node: Node, sheet: Sheet, parser: Parser) -> Finding:
    name = word.partition("=")[0]
    if not is_flag(word):
        says, fix = f"`{word}` stands alone", "a switch takes its answer with `=`: --dry-run=false"
    elif old := OLD_FLAGS.get("--" + name.lstrip("-").replace("_", "-")):
        says, fix = "descheduler had this flag once", f"remove it; {old}"
    else:
        says, fix = "there is no such flag, in descheduler either", parser.meant(word)
    return sheet.finding(Sort.CHANGE, name, says, fix, at=node)
