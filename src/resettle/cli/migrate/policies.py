"""The policy itself: what it really says, and what `resettle/v1` would make of it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from resettle.cli.migrate.inventory import Finding, Sort, WrittenPolicy
from resettle.errors import PolicyError
from resettle.policy.args import GUARD, STRATEGY_POINTS, KnownPlugins
from resettle.policy.document import V1ALPHA1, Profile
from resettle.policy.load import Reading, read_tree
from resettle.policy.problems import Located, Report
from resettle.policy.versions.upgrade import differences
from resettle.policy.yaml.source import Source


@dataclass(frozen=True)
class Judged:
    """What was found, and the policy as the peer takes it, if it takes it."""

    policy: WrittenPolicy
    findings: tuple[Finding, ...]
    reading: Reading | None
    improved: Reading | None
    """The same, read as `resettle/v1`."""


def judged(policy: WrittenPolicy, plugins: KnownPlugins) -> Judged:
    """All there is to say of a policy."""
    strict = _errors(policy, plugins, forgiving=False)
    fatal = _errors(policy, plugins, forgiving=True) if strict else ()
    hidden = [it for it in strict if it not in fatal]
    sheet = policy.sheet
    findings = [
        *(sheet.problem(it, Sort.CHANGE) for it in fatal),
        *(sheet.problem(it, Sort.MISTAKE) for it in hidden),
        *_second_document(policy),
    ]
    if fatal:
        return Judged(policy, tuple(findings), None, None)
    reading = _read(policy, plugins, forgiving=True)
    told = {(it.line, it.column, it.path) for it in hidden}
    findings += [
        sheet.problem(it, Sort.IDLE)
        for it in reading.policy.warnings
        if (it.line, it.column, it.path) not in told
    ]
    findings.append(sheet.finding(Sort.STAYS, policy.title, _in_short(reading), at=policy.root))
    improved, better = _better(policy, plugins)
    return Judged(policy, (*findings, *better), reading, improved)


def _second_document(policy: WrittenPolicy) -> Iterator[Finding]:
    if policy.more is not None:
        says = "a second document starts here, and descheduler looks at the first alone"
        yield policy.sheet.finding(
            Sort.MISTAKE, policy.title, says, "remove one of the two", at=policy.more
        )


def _better(policy: WrittenPolicy, plugins: KnownPlugins) -> tuple[Reading | None, list[Finding]]:
    try:
        improved = _read(policy, plugins, forgiving=True, improved=True)
    except PolicyError as error:
        # What only `resettle/v1` objects to: a plugin listed twice, for one.
        return None, [policy.sheet.problem(it, Sort.BETTER) for it in error.problems]
    return improved, [
        policy.sheet.finding(Sort.BETTER, one.about, one.says) for one in differences(improved)
    ]


def _read(
    policy: WrittenPolicy, plugins: KnownPlugins, *, forgiving: bool, improved: bool = False
) -> Reading:
    report = Report(Source(policy.sheet.file, policy.root), forgiving=forgiving)
    return read_tree(report, plugins=plugins, improved=improved)


def _errors(
    policy: WrittenPolicy, plugins: KnownPlugins, *, forgiving: bool
) -> tuple[Located, ...]:
    try:
        _read(policy, plugins, forgiving=forgiving)
    except PolicyError as error:
        return tuple(error.problems)
    return ()


def _in_short(reading: Reading) -> str:
    """What a policy does, in a line."""
    works = [_profile(profile) for profile in reading.policy.profiles]
    old = ", which descheduler has dropped" if reading.version == V1ALPHA1 else ""
    does = "; ".join(works) if works else "no profile, so it does nothing"
    return f"{reading.version}{old}, decides here as there: {does}"


def _profile(profile: Profile) -> str:
    names = [name for point in STRATEGY_POINTS for name in profile.enabled[point] if name != GUARD]
    return f"{profile.name or 'a profile without a name'} runs {', '.join(names) or 'nothing'}"
