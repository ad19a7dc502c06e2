"""What a policy of the descheduler decides differently once it is read as `resettle/v1`.

Only what touches the policy at hand is told: its plugins, its arguments, and what it leaves unsaid.
"""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import Struct, structs

from resettle.policy.convert import spare
from resettle.policy.defaults import SAFE_DEFAULTS
from resettle.policy.document import PluginSets, Profile
from resettle.policy.habits import HABITS, Written, protects
from resettle.policy.hints import listed
from resettle.policy.known import GUARD, SORTER_POINTS, STRATEGY_POINTS, ExtensionPoint
from resettle.policy.load import Reading

SAFE = "permissive_defaults"


class Difference(Struct, frozen=True, kw_only=True):
    """One thing that changes: whom it is about, a sentence, and the habit it comes from."""

    about: str = ""
    says: str
    habit: str = ""
    """The flag of `Semantics`; empty for what the descheduler reads and does not do."""

    def __str__(self) -> str:
        return f"{self.about}: {self.says}" if self.about else self.says


def differences(reading: Reading) -> tuple[Difference, ...]:
    """All that changes for a policy now read as `resettle/v1`; nothing if it was one already."""
    policy, document, version = reading
    pairs = zip(policy.profiles, filter(None, document.profiles), strict=True)
    busy = [(it, doc.plugins) for it, doc in pairs if any(it.enabled[at] for at in STRATEGY_POINTS)]
    if version == policy.api_version or not busy:
        return ()
    top = spare(document)
    found: dict[Difference, list[str]] = {one: [] for one in _unsaid("", top)}
    for profile, sets in busy:
        for one in _of_profile(profile, sets, top):
            found.setdefault(one, []).append(profile.name or "without a name")
    return tuple(_in_profiles(one, names, len(busy)) for one, names in found.items())


def _of_profile(profile: Profile, sets: PluginSets, top: dict[str, object]) -> Iterator[Difference]:
    """What changes within one profile."""
    running = {name for names in profile.enabled.values() for name in names}
    written = Written(top, {name: spare(args) for name, args in profile.args.items()})
    for name in sorted(running):
        yield from _unsaid(name, written.args.get(name, {}))
    for flag, habit in HABITS.items():
        touched = sorted(running.intersection(habit.plugins))
        if flag != SAFE and (touched or not habit.plugins) and habit.matters(written):
            yield Difference(about=", ".join(touched), says=_clause(habit.ours), habit=flag)
    if GUARD in running and protects("PodsWithoutPDB")(written):
        says = "`PodsWithoutPDB` protects pods without a disruption budget, and no longer every pod"
        yield Difference(about=GUARD, says=says)
    for point in SORTER_POINTS:
        if names := profile.enabled[point]:
            yield Difference(says=f"`{point}` takes effect with {listed(names)}")
    for point in ExtensionPoint:
        if names := tuple(filter(None, sets.at(point).disabled)):
            yield Difference(says=f"`disabled` takes effect: no {listed(names)} at `{point}`")


def _unsaid(plugin: str, written: dict[str, object]) -> Iterator[Difference]:
    """The safe defaults of a plugin, or of the top level, that nothing written replaces."""
    for default in SAFE_DEFAULTS:
        if default.plugin == plugin and written.keys().isdisjoint(default.unless):
            yield Difference(about=plugin, says=f"{default.says}; {default.remedy}", habit=SAFE)


def _in_profiles(one: Difference, names: list[str], profiles: int) -> Difference:
    """The difference, with the profiles it is about where it is not about all of them."""
    if len(names) in (0, profiles):
        return one
    where = f"{'profile' if len(names) == 1 else 'profiles'} {', '.join(names)}"
    return structs.replace(one, about=f"{one.about} ({where})" if one.about else where)


def _clause(sentence: str) -> str:
    """A sentence as it goes on behind a colon."""
    first = sentence[0] if sentence.startswith("`") else sentence[0].lower()
    return first + sentence[1:].removesuffix(".")
