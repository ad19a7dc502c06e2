"""Assesses a policy: mistakes in it, and what `resettle/v1` would decide differently."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from resettle.cli.migrate.inventory import FindingKind, MigrationFinding, PolicyInput
from resettle.errors import PolicyError
from resettle.policy.args import DEFAULT_EVICTOR, STRATEGY_POINTS, KnownPlugins
from resettle.policy.document import V1ALPHA1, ProfileConfig
from resettle.policy.load import Reading, read_tree
from resettle.policy.problems import Located, ProblemCollector
from resettle.policy.versions.upgrade import differences
from resettle.policy.yaml.source import Source


@dataclass(frozen=True)
class AssessedPolicy:
    """The findings about a policy, and the policy as upstream reads it, if it is valid."""

    policy: PolicyInput
    findings: tuple[MigrationFinding, ...]
    reading: Reading | None
    improved: Reading | None
    """The policy read as `resettle/v1`."""


def assess_policy(policy: PolicyInput, plugins: KnownPlugins) -> AssessedPolicy:
    """All findings about one policy."""
    strict = _errors(policy, plugins, lenient=False)
    fatal = _errors(policy, plugins, lenient=True) if strict else ()
    hidden = [problem for problem in strict if problem not in fatal]
    source = policy.source
    findings = [
        *(source.finding_of_problem(problem, FindingKind.CHANGE) for problem in fatal),
        *(source.finding_of_problem(problem, FindingKind.MISTAKE) for problem in hidden),
        *_second_document(policy),
    ]
    if fatal:
        return AssessedPolicy(policy, tuple(findings), None, None)
    reading = _read(policy, plugins, lenient=True)
    reported = {(problem.line, problem.column, problem.path) for problem in hidden}
    findings += [
        source.finding_of_problem(warning, FindingKind.IDLE)
        for warning in reading.policy.warnings
        if (warning.line, warning.column, warning.path) not in reported
    ]
    findings.append(
        source.finding(FindingKind.STAYS, policy.title, _in_short(reading), at=policy.root)
    )
    improved, better = _differences(policy, plugins)
    return AssessedPolicy(policy, (*findings, *better), reading, improved)


def _second_document(policy: PolicyInput) -> Iterator[MigrationFinding]:
    if policy.second_document is not None:
        says = "a second document starts here, and descheduler reads only the first"
        yield policy.source.finding(
            FindingKind.MISTAKE,
            policy.title,
            says,
            "remove one of the two",
            at=policy.second_document,
        )


def _differences(
    policy: PolicyInput, plugins: KnownPlugins
) -> tuple[Reading | None, list[MigrationFinding]]:
    try:
        improved = _read(policy, plugins, lenient=True, improved=True)
    except PolicyError as error:
        # Only `resettle/v1` rejects these, for example a plugin that is enabled twice.
        return None, [
            policy.source.finding_of_problem(problem, FindingKind.BETTER)
            for problem in error.problems
        ]
    return improved, [
        policy.source.finding(FindingKind.BETTER, difference.about, difference.says)
        for difference in differences(improved)
    ]


def _read(
    policy: PolicyInput, plugins: KnownPlugins, *, lenient: bool, improved: bool = False
) -> Reading:
    report = ProblemCollector(Source(policy.source.file, policy.root), lenient=lenient)
    return read_tree(report, plugins=plugins, improved=improved)


def _errors(policy: PolicyInput, plugins: KnownPlugins, *, lenient: bool) -> tuple[Located, ...]:
    try:
        _read(policy, plugins, lenient=lenient)
    except PolicyError as error:
        return tuple(error.problems)
    return ()


def _in_short(reading: Reading) -> str:
    """What a policy does, in one line."""
    works = [_profile(profile) for profile in reading.policy.profiles]
    old = ", which descheduler has dropped" if reading.version == V1ALPHA1 else ""
    does = "; ".join(works) if works else "no profile, so it does nothing"
    return f"{reading.version}{old}, decides the same here: {does}"


def _profile(profile: ProfileConfig) -> str:
    names = [
        name
        for point in STRATEGY_POINTS
        for name in profile.enabled[point]
        if name != DEFAULT_EVICTOR
    ]
    return f"{profile.name or 'a profile without a name'} runs {', '.join(names) or 'nothing'}"
