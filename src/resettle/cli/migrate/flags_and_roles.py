"""The flags that the peer is started with: which stay, which mean nothing, which must change.

Whether the roles that the peer has are enough for resettle in its place.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NoReturn

from yaml import Node

from resettle.cli.commands.run import add_flags, run_settings
from resettle.cli.flags.upstream import IGNORED_FLAGS
from resettle.cli.migrate.inventory import MigrationFinding, SourceText, FindingKind
from resettle.cli.parser import Parser, is_flag
from resettle.errors import InputError
from resettle.framework.descheduler import build_descheduler
from resettle.framework.plugin import Plugin
from resettle.policy.document import Policy
from resettle.rbac.permissions import ApiPermission, required_permissions
from resettle.runtime import RunSettings

Word = tuple[str, Node]
_IDLE = {flag.name: flag.reason for flag in IGNORED_FLAGS}
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


def assess_flags(words: Sequence[Word], sheet: SourceText) -> tuple[list[MigrationFinding], RunSettings | None]:
    """What there is to say of a command line, and the settings it makes if it makes any."""
    parser = _Asked(prog="run", add_help=False)
    add_flags(parser)
    findings: list[MigrationFinding] = []
    kept: list[str] = []
    understood: list[str] = []
    for flag, shown, node in _flags(words, parser):
        if flag is None:
            findings.append(_unknown(shown, node, sheet, parser))
        elif flag in _IDLE:
            findings.append(sheet.finding(FindingKind.IDLE, flag, _IDLE[flag], at=node))
        else:
            kept.append(shown)
        if flag is not None:
            understood.append(shown)
    at = words[0][1] if words else None
    if kept:
        findings.append(sheet.finding(FindingKind.STAYS, " ".join(kept), "the same flags here", at=at))
    try:
        return findings, run_settings(parser.parse_args(understood))
    except InputError as error:
        findings.append(sheet.finding(FindingKind.CHANGE, "flags", str(error), at=at))
        return findings, None


def _flags(words: Sequence[Word], parser: Parser) -> Iterator[tuple[str | None, str, Node]]:
    """Each flag with its value: its name here or None, as it was written, and where."""
    left = list(reversed(words))
    while left:
        word, node = left.pop()
        action, value = parser.find_flag(word) if is_flag(word) else (None, None)
        if action is None:
            yield None, word, node
            continue
        shown = word
        if value is None and action.nargs is None and left and not is_flag(left[-1][0]):
            shown = f"{word}={left.pop()[0]}"
        yield action.option_strings[-1], shown, node


def _unknown(word: str, node: Node, sheet: SourceText, parser: Parser) -> MigrationFinding:
    name = word.partition("=")[0]
    if not is_flag(word):
        says, fix = f"`{word}` stands alone", "a switch takes its answer with `=`: --dry-run=false"
    elif old := OLD_FLAGS.get("--" + name.lstrip("-").replace("_", "-")):
        says, fix = "descheduler had this flag once", f"remove it; {old}"
    else:
        says, fix = "there is no such flag, in descheduler either", parser.suggestion(word)
    return sheet.finding(FindingKind.CHANGE, name, says, fix, at=node)


_READ = ["get", "watch", "list"]
UPSTREAM_RULES: tuple[dict[str, Any], ...] = (
    {"apiGroups": ["events.k8s.io"], "resources": ["events"], "verbs": ["create", "update"]},
    {
        "apiGroups": [""],
        "resources": ["nodes", "namespaces", "pods", "persistentvolumeclaims"],
        "verbs": _READ,
    },
    {"apiGroups": [""], "resources": ["pods/eviction"], "verbs": ["create"]},
    {"apiGroups": ["scheduling.k8s.io"], "resources": ["priorityclasses"], "verbs": _READ},
    {"apiGroups": ["policy"], "resources": ["poddisruptionbudgets"], "verbs": _READ},
    {
        "apiGroups": ["coordination.k8s.io"],
        "resources": ["leases"],
        "verbs": ["create", "update", "get", "patch", "delete"],
    },
    {"apiGroups": ["metrics.k8s.io"], "resources": ["nodes", "pods"], "verbs": ["get", "list"]},
    {"apiGroups": [""], "resources": ["secrets"], "verbs": _READ},
)
"""What the manifests and the chart of the peer grant; the lease is granted under its own name."""


def missing_permissions(
    policy: Policy,
    plugins: Mapping[str, Plugin],
    settings: RunSettings | None,
    rules: Sequence[Mapping[str, Any]],
) -> list[ApiPermission]:
    """The rights that running this takes and that no rule grants."""
    kinds = [kind for plugin in plugins.values() for kind in plugin.kinds]
    rights = required_permissions(
        build_descheduler(policy, plugins),
        kinds,
        dry_run=settings.dry_run if settings else False,
        lease=settings.lease if settings else None,
    )
    return [right for right in rights if not is_granted(right, rules)]


def is_granted(right: ApiPermission, rules: Iterable[Mapping[str, Any]]) -> bool:
    """Whether any rule grants a right."""
    return any(
        _covers(rule, "apiGroups", right.group)
        and _covers(rule, "resources", right.resource)
        and _covers(rule, "verbs", right.verb)
        and (not rule.get("resourceNames") or right.name in rule["resourceNames"])
        for rule in rules
    )


def _covers(rule: Mapping[str, Any], key: str, wanted: str) -> bool:
    named = rule.get(key) or ()
    return wanted in named or "*" in named
