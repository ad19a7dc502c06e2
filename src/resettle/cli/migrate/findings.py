"""The report of `resettle migrate`: all findings about the given files, as text and as JSON.

Upstream is kubernetes-sigs/descheduler, which resettle replaces with the same policy and flags.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from yaml import Node

from resettle.cli.migrate import flags_and_roles, helm_values, policies
from resettle.cli.migrate.flags_and_roles import UPSTREAM_RULES, missing_permissions
from resettle.cli.migrate.inventory import (
    DeschedulerCommand,
    FindingKind,
    HelmValues,
    Inventory,
    MigrationFinding,
)
from resettle.cli.migrate.policies import AssessedPolicy
from resettle.framework.plugin import Plugin
from resettle.policy.document import Policy
from resettle.policy.yaml.source import child
from resettle.runtime import RunSettings

HEADINGS = {
    FindingKind.SWAP: "replace the image",
    FindingKind.CHANGE: "to change first",
    FindingKind.MISTAKE: "mistakes that descheduler hides",
    FindingKind.IDLE: "without effect, and may stay",
    FindingKind.STAYS: "stays as it is",
    FindingKind.BETTER: "what apiVersion resettle/v1 would do differently",
}


_RESETTLE = "resettle"
_PROGRAM = "/bin/descheduler"


@dataclass(frozen=True)
class MigrationReport:
    """The inputs, the findings about them, and the policies among them."""

    inputs: tuple[tuple[str, str], ...]
    """File and title of each input."""
    findings: tuple[MigrationFinding, ...]
    policies: tuple[AssessedPolicy, ...]

    @property
    def ready(self) -> bool:
        """Whether replacing the image is all there is to do."""
        return not any(
            finding.kind in (FindingKind.CHANGE, FindingKind.MISTAKE) for finding in self.findings
        )

    def of_kind(self, kind: FindingKind) -> list[MigrationFinding]:
        """The findings of one kind, each once."""
        return list(dict.fromkeys(finding for finding in self.findings if finding.kind is kind))


def assess_inventory(
    inventory: Inventory, plugins: Mapping[str, Plugin], image: str
) -> MigrationReport:
    """Assesses everything that was found in the files."""
    findings: list[MigrationFinding] = []
    inputs: list[tuple[str, str]] = []
    settings: RunSettings | None = None
    documents = list(inventory.policies)
    for command in inventory.commands:
        inputs.append((command.source.file, command.title))
        findings += _image_of_command(command, image)
        words = [(str(node.value), node) for node in command.arguments]
        more, made = flags_and_roles.assess_flags(words, command.source)
        findings, settings = [*findings, *more], made or settings
    for values in inventory.values:
        inputs.append((values.source.file, values.title))
        findings += [*_image_of_values(values, image), *helm_values.assess_values(values)]
        more, made = flags_and_roles.assess_flags(helm_values.words_of(values), values.source)
        findings, settings = [*findings, *more], made or settings
        if (policy := helm_values.policy_of(values)) is not None:
            documents.append(policy)
    inputs += [(policy.source.file, policy.title) for policy in documents]
    assessed = tuple(policies.assess_policy(policy, plugins) for policy in documents)
    for policy_assessed in assessed:
        findings += [
            *policy_assessed.findings,
            *_missing_permissions(policy_assessed, inventory, plugins, settings),
        ]
    return MigrationReport(tuple(dict.fromkeys(inputs)), tuple(findings), assessed)


def _image_of_command(command: DeschedulerCommand, image: str) -> Iterator[MigrationFinding]:
    source, node = command.source, command.image
    if node is not None and _RESETTLE in node.value.rpartition("/")[2]:
        yield source.finding(
            FindingKind.STAYS, f"image: {node.value}", "is resettle already", at=node
        )
    else:
        about = f"image: {node.value}" if node is not None else command.title
        yield source.finding(FindingKind.SWAP, about, f"write `image: {image}`", at=node)
    program = command.program
    if program is not None and program.value != _PROGRAM:
        says = f"{command.title} is started as `{program.value}`, which the image does not have"
        fix = f'write `command: ["{_PROGRAM}"]`, followed by the flags'
        yield source.finding(FindingKind.CHANGE, "command", says, fix, at=program)


def _image_of_values(values: HelmValues, image: str) -> Iterator[MigrationFinding]:
    node: Node | None = child(values.root, "image")
    repository, _, tag = image.rpartition(":")
    repository, tag = (repository, tag) if repository and "/" not in tag else (image, "latest")
    yield values.source.finding(
        FindingKind.SWAP,
        "image",
        f"write `image: {{repository: {repository}, tag: {tag}}}`",
        "or use resettle's own chart, which takes the same values" + _chart_difference(values),
        at=node,
    )


def _chart_difference(values: HelmValues) -> str:
    """What resettle's own chart does differently where the values do not set it."""
    if child(values.root, "kind") is not None:
        return ""
    return f", and set `kind: {helm_values.kind_of(values)}` there: its default is a Deployment"


def _missing_permissions(
    assessed: AssessedPolicy,
    inventory: Inventory,
    plugins: Mapping[str, Plugin],
    settings: RunSettings | None,
) -> Iterator[MigrationFinding]:
    """Permissions that the roles lack, now and with `resettle/v1`."""
    rules = inventory.rules or UPSTREAM_RULES
    whose = "the roles here" if inventory.rules else "the roles of descheduler"
    fix = "`resettle rbac --policy FILE` prints sufficient roles"

    def lacking(policy: Policy) -> list[str]:
        rights = missing_permissions(policy, plugins, settings, rules)
        return list(dict.fromkeys(f"{right.verb} {right.title}" for right in rights))

    now = lacking(assessed.reading.policy) if assessed.reading else []
    if now:
        says = f"{whose} do not grant: {', '.join(now)}"
        yield assessed.policy.source.finding(FindingKind.CHANGE, "roles", says, fix)
    more = (
        [right for right in lacking(assessed.improved.policy) if right not in now]
        if assessed.improved
        else []
    )
    if more:
        says = f"it reads more than {whose} grant: {', '.join(more)}"
        yield assessed.policy.source.finding(FindingKind.BETTER, "roles", f"{says}; {fix}")


def report_text(report: MigrationReport, next_steps: list[str]) -> Iterator[str]:
    """The report as text: what to do first comes first."""
    for file, title in report.inputs:
        yield f"{file}: {title}"
    for kind in FindingKind:
        if findings := report.of_kind(kind):
            yield ""
            yield HEADINGS[kind]
            for finding in findings:
                listed = kind is FindingKind.BETTER
                yield from _list_item(finding) if listed else _finding_lines(finding)
    yield ""
    yield "next"
    yield from (f"  {step}" for step in next_steps)


def _finding_lines(finding: MigrationFinding) -> Iterator[str]:
    yield f"  {finding.place}: {finding.about}" if finding.about else f"  {finding.place}"
    yield f"    {finding.sentence}"


def _list_item(finding: MigrationFinding) -> Iterator[str]:
    yield f"  - {finding.about}: {finding.sentence}" if finding.about else f"  - {finding.sentence}"


def report_json(report: MigrationReport) -> str:
    """The report for programs: keys are stable, new ones may be added."""
    document: dict[str, Any] = {
        "ready": report.ready,
        "found": [{"file": file, "title": title} for file, title in report.inputs],
        "findings": [
            {
                "sort": finding.kind.value,
                "file": finding.file,
                "line": finding.line or None,
                "column": finding.column or None,
                "about": finding.about,
                "says": finding.says,
                "fix": finding.fix,
            }
            for kind in FindingKind
            for finding in report.of_kind(kind)
        ],
    }
    return json.dumps(document, indent=2, ensure_ascii=False)
