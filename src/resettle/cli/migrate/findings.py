"""What there is to say about one line of what somebody runs the peer with.

All that was found in some files, judged: what to tell somebody who wants to move.

A verdict in words and in JSON.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from yaml import Node

from resettle.cli.migrate import flags_and_roles, helm_values, policies
from resettle.cli.migrate.flags_and_roles import PEER_RULES, missing
from resettle.cli.migrate.inventory import Command, Finding, Inventory, Sort, Values
from resettle.cli.migrate.policies import Judged
from resettle.framework.plugin import Plugin
from resettle.policy.document import Policy
from resettle.policy.yaml.source import child
from resettle.runtime import RunSettings

HEADINGS = {
    Sort.SWAP: "the swap",
    Sort.CHANGE: "to change first",
    Sort.MISTAKE: "mistakes that descheduler hides",
    Sort.IDLE: "without effect, and may stay",
    Sort.STAYS: "stays as it is",
    Sort.BETTER: "what apiVersion resettle/v1 would do differently",
}


_OURS = "resettle"
_PROGRAM = "/bin/descheduler"


@dataclass(frozen=True)
class Verdict:
    """What was found, what there is to say, and the policies among it."""

    found: tuple[tuple[str, str], ...]
    """File and title of each thing."""
    findings: tuple[Finding, ...]
    policies: tuple[Judged, ...]

    @property
    def ready(self) -> bool:
        """Whether nothing but the swap has to be done."""
        return not any(it.sort in (Sort.CHANGE, Sort.MISTAKE) for it in self.findings)

    def of(self, sort: Sort) -> list[Finding]:
        """The findings of one sort, each once."""
        return list(dict.fromkeys(it for it in self.findings if it.sort is sort))


def judged(inventory: Inventory, plugins: Mapping[str, Plugin], image: str) -> Verdict:
    """What to tell about all of it."""
    findings: list[Finding] = []
    found: list[tuple[str, str]] = []
    settings: RunSettings | None = None
    written = list(inventory.policies)
    for command in inventory.commands:
        found.append((command.sheet.file, command.title))
        findings += _swap_of_command(command, image)
        words = [(str(node.value), node) for node in command.words]
        said, made = flags_and_roles.judged(words, command.sheet)
        findings, settings = [*findings, *said], made or settings
    for one in inventory.values:
        found.append((one.sheet.file, one.title))
        findings += [*_swap_of_values(one, image), *helm_values.judged(one)]
        said, made = flags_and_roles.judged(helm_values.words_of(one), one.sheet)
        findings, settings = [*findings, *said], made or settings
        if (policy := helm_values.policy_of(one)) is not None:
            written.append(policy)
    found += [(policy.sheet.file, policy.title) for policy in written]
    verdicts = tuple(policies.judged(policy, plugins) for policy in written)
    for it in verdicts:
        findings += [*it.findings, *_rights(it, inventory, plugins, settings)]
    return Verdict(tuple(dict.fromkeys(found)), tuple(findings), verdicts)


def _swap_of_command(command: Command, image: str) -> Iterator[Finding]:
    sheet, node = command.sheet, command.image
    if node is not None and _OURS in node.value.rpartition("/")[2]:
        yield sheet.finding(Sort.STAYS, f"image: {node.value}", "is resettle already", at=node)
    else:
        about = f"image: {node.value}" if node is not None else command.title
        yield sheet.finding(Sort.SWAP, about, f"write `image: {image}`", at=node)
    program = command.program
    if program is not None and program.value != _PROGRAM:
        says = f"{command.title} is started as `{program.value}`, which the image does not have"
        fix = f'write `command: ["{_PROGRAM}"]`, with the flags behind it'
        yield sheet.finding(Sort.CHANGE, "command", says, fix, at=program)


def _swap_of_values(one: Values, image: str) -> Iterator[Finding]:
    node: Node | None = child(one.root, "image")
    repository, _, tag = image.rpartition(":")
    repository, tag = (repository, tag) if repository and "/" not in tag else (image, "latest")
    yield one.sheet.finding(
        Sort.SWAP,
        "image",
        f"write `image: {{repository: {repository}, tag: {tag}}}`",
        "or take resettle's own chart, which knows the same values" + _beware(one),
        at=node,
    )


def _beware(one: Values) -> str:
    """What our own chart does otherwise where the values say nothing."""
    if child(one.root, "kind") is not None:
        return ""
    return f", and name `kind: {helm_values.kind_of(one)}` there: it makes a Deployment by default"


def _rights(
    it: Judged, inventory: Inventory, plugins: Mapping[str, Plugin], settings: RunSettings | None
) -> Iterator[Finding]:
    """What the roles lack; what `resettle/v1` reads besides."""
    rules = inventory.rules or PEER_RULES
    whose = "the roles here" if inventory.rules else "the roles of descheduler"
    fix = "`resettle rbac --policy FILE` prints roles that will do"

    def lacking(policy: Policy) -> list[str]:
        rights = missing(policy, plugins, settings, rules)
        return list(dict.fromkeys(f"{right.verb} {right.title}" for right in rights))

    now = lacking(it.reading.policy) if it.reading else []
    if now:
        says = f"{whose} do not grant: {', '.join(now)}"
        yield it.policy.sheet.finding(Sort.CHANGE, "roles", says, fix)
    more = (
        [right for right in lacking(it.improved.policy) if right not in now] if it.improved else []
    )
    if more:
        says = f"it looks at more than {whose} grant: {', '.join(more)}"
        yield it.policy.sheet.finding(Sort.BETTER, "roles", f"{says}; {fix}")


def as_text(verdict: Verdict, next_steps: list[str]) -> Iterator[str]:
    """What a person reads, what has to be done first."""
    for file, title in verdict.found:
        yield f"{file}: {title}"
    for sort in Sort:
        if found := verdict.of(sort):
            yield ""
            yield HEADINGS[sort]
            for one in found:
                yield from _better(one) if sort is Sort.BETTER else _told(one)
    yield ""
    yield "next"
    yield from (f"  {step}" for step in next_steps)


def _told(one: Finding) -> Iterator[str]:
    yield f"  {one.place}: {one.about}" if one.about else f"  {one.place}"
    yield f"    {one.sentence}"


def _better(one: Finding) -> Iterator[str]:
    yield f"  - {one.about}: {one.sentence}" if one.about else f"  - {one.sentence}"


def as_json(verdict: Verdict) -> str:
    """The same for programs."""
    told: dict[str, Any] = {
        "ready": verdict.ready,
        "found": [{"file": file, "title": title} for file, title in verdict.found],
        "findings": [
            {
                "sort": one.sort.value,
                "file": one.file,
                "line": one.line or None,
                "column": one.column or None,
                "about": one.about,
                "says": one.says,
                "fix": one.fix,
            }
            for sort in Sort
            for one in verdict.of(sort)
        ],
    }
    return json.dumps(told, indent=2, ensure_ascii=False)
