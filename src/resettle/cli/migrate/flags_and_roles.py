"""The flags and roles that upstream runs with: what stays, what has no effect, what must change."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NoReturn

from yaml import Node

from resettle.cli.commands.run import add_flags, run_settings
from resettle.cli.flags.upstream import IGNORED_FLAGS
from resettle.cli.migrate.inventory import FindingKind, MigrationFinding, SourceText
from resettle.cli.parser import Parser, is_flag
from resettle.errors import InputError
from resettle.framework.descheduler import build_descheduler
from resettle.framework.plugin import Plugin
from resettle.policy.document import Policy
from resettle.rbac.permissions import ApiPermission, required_permissions
from resettle.runtime import RunSettings

Argument = tuple[str, Node]
_IDLE = {flag.name: flag.reason for flag in IGNORED_FLAGS}
_EVICTOR = "it is an argument of DefaultEvictor now"
OLD_FLAGS = {
    "--evict-local-storage-pods": f"{_EVICTOR}: `evictLocalStoragePods: true`",
    "--max-pods-to-evict-per-node": "it is `maxNoOfPodsToEvictPerNode` of the policy now",
    "--node-selector": "it is `nodeSelector` of the policy now",
    "--priority-threshold": f"{_EVICTOR}: `priorityThreshold`",
    "--logtostderr": "the log always goes to stderr",
    "--stderrthreshold": "the log always goes to stderr",
    "--alsologtostderr": "the log always goes to stderr",
    "--address": "it is --bind-address now",
}
"""Flags of earlier upstream releases, and what replaced them."""


class _RaisingParser(Parser):
    """A parser that raises `InputError` instead of ending the program."""

    def error(self, message: str) -> NoReturn:
        """Raises `InputError` with the message."""
        raise InputError(message)


def assess_flags(
    words: Sequence[Argument], source: SourceText
) -> tuple[list[MigrationFinding], RunSettings | None]:
    """The findings about a command line, and the settings it gives, if it is valid."""
    parser = _RaisingParser(prog="run", add_help=False)
    add_flags(parser)
    findings: list[MigrationFinding] = []
    kept: list[str] = []
    understood: list[str] = []
    for flag, shown, node in _flags(words, parser):
        if flag is None:
            findings.append(_unknown(shown, node, source, parser))
        elif flag in _IDLE:
            findings.append(source.finding(FindingKind.IDLE, flag, _IDLE[flag], at=node))
        else:
            kept.append(shown)
        if flag is not None:
            understood.append(shown)
    at = words[0][1] if words else None
    if kept:
        findings.append(
            source.finding(FindingKind.STAYS, " ".join(kept), "the same flags here", at=at)
        )
    try:
        return findings, run_settings(parser.parse_args(understood))
    except InputError as error:
        findings.append(source.finding(FindingKind.CHANGE, "flags", str(error), at=at))
        return findings, None


def _flags(words: Sequence[Argument], parser: Parser) -> Iterator[tuple[str | None, str, Node]]:
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


def _unknown(word: str, node: Node, source: SourceText, parser: Parser) -> MigrationFinding:
    name = word.partition("=")[0]
    if not is_flag(word):
        says, fix = (
            f"`{word}` is not a flag",
            "write the value of a switch with `=`: --dry-run=false",
        )
    elif old := OLD_FLAGS.get("--" + name.lstrip("-").replace("_", "-")):
        says, fix = "an earlier descheduler had this flag", f"remove it; {old}"
    else:
        says, fix = "neither resettle nor descheduler has this flag", parser.suggestion(word)
    return source.finding(FindingKind.CHANGE, name, says, fix, at=node)


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
"""What upstream's manifests and chart grant; access to the lease is granted by name."""


def missing_permissions(
    policy: Policy,
    plugins: Mapping[str, Plugin],
    settings: RunSettings | None,
    rules: Sequence[Mapping[str, Any]],
) -> list[ApiPermission]:
    """The permissions that this policy needs and that no rule grants."""
    kinds = [kind for plugin in plugins.values() for kind in plugin.kinds]
    rights = required_permissions(
        build_descheduler(policy, plugins),
        kinds,
        dry_run=settings.dry_run if settings else False,
        lease=settings.lease if settings else None,
    )
    return [right for right in rights if not is_granted(right, rules)]


def is_granted(right: ApiPermission, rules: Iterable[Mapping[str, Any]]) -> bool:
    """Whether any rule grants the permission."""
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
