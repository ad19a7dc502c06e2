"""A policy written out again in a newer apiVersion: an old one converted, a new one tidied.

Only what differs from the defaults is written, in one order, so that two texts of one policy become
the same text.

What a policy of the descheduler decides differently once it is read as `resettle/v1`.

Only what touches the policy at hand is told: its plugins, its arguments, and what it leaves unsaid.
"""

from __future__ import annotations

from collections.abc import Iterator
from enum import Enum
from typing import Any

import yaml
from msgspec import NODEFAULT, Struct, inspect, structs

from resettle.errors import InputError
from resettle.policy.args import (
    FILTER_POINTS,
    GUARD,
    MOVER,
    SORTER_POINTS,
    STRATEGY_POINTS,
    ExtensionPoint,
)
from resettle.policy.document import IMPROVED, KIND, V1ALPHA2, PluginSets, Profile
from resettle.policy.load import Reading
from resettle.policy.versions.upstream_differences import HABITS, SAFE_DEFAULTS, Written, protects
from resettle.policy.yaml.messages import listed
from resettle.policy.yaml.source import bare_meaning
from resettle.policy.yaml.typed_walk import shape_of

_WRITTEN_APART = {"apiVersion", "kind", "profiles"}
_LARGEST_PLAIN = 1e15


def written(reading: Reading, name: str, to: str = V1ALPHA2) -> str:
    """A policy that was read, as YAML of this apiVersion; `resettle/v1` if it was read as such."""
    policy, document, version = reading
    if policy.improved and to != IMPROVED:
        raise InputError(
            f"{name} is a `{IMPROVED}` policy, which `{V1ALPHA2}` has no words for; "
            f"convert it with `--to {IMPROVED}`, or keep it as it is"
        )
    top = {key: value for key, value in spare(document).items() if key not in _WRITTEN_APART}
    profiles = [_profile(profile) for profile in policy.profiles]
    values = {"apiVersion": to, "kind": KIND, **top, "profiles": profiles}
    header = f"# Written by `resettle policy convert` from a {version} policy.\n"
    return header + yaml.dump(
        values, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=100
    )


def _profile(profile: Profile) -> dict[str, Any]:
    """A profile with everything that runs named, the guard too; the usual mover goes unsaid."""
    configs = []
    for name, args in profile.args.items():
        values = spare(args)
        if name == MOVER and not values:
            continue
        configs.append({"name": name, "args": values} if values else {"name": name})
    sets = {
        point.value: chosen for point in ExtensionPoint if (chosen := _plugin_set(profile, point))
    }
    return {"name": profile.name, "pluginConfig": configs, "plugins": sets}


def _plugin_set(profile: Profile, point: ExtensionPoint) -> dict[str, list[str]]:
    """Who runs at a point; the guard, which would come unasked, is named where it does not run."""
    names = [name for name in profile.enabled[point] if name != MOVER]
    chosen = {"enabled": names} if names else {}
    if point in FILTER_POINTS and GUARD not in names:
        chosen["disabled"] = [GUARD]
    return chosen


def spare(value: Any) -> Any:
    """A value in plain form; of a struct only the fields that differ from their defaults."""
    match value:
        case Struct():
            return {
                field.encode_name: spare(inner)
                for field in shape_of(type(value)).fields
                if (inner := getattr(value, field.name)) != default_of(field)
            }
        case dict():
            return {key: spare(inner) for key, inner in value.items()}
        case set() | frozenset():
            return sorted(spare(item) for item in value)
        case list() | tuple():
            return [spare(item) for item in value]
        case Enum():
            return value.value
        case float() if value.is_integer() and abs(value) < _LARGEST_PLAIN:
            return int(value)
    return value


def default_of(field: inspect.Field) -> Any:
    """What a field is when nobody writes it."""
    if field.default_factory is not NODEFAULT:
        return field.default_factory()
    return field.default


class _Dumper(yaml.SafeDumper):
    """Writes text so that Kubernetes' reader takes it as text, and never with aliases."""

    def ignore_aliases(self, data: Any) -> bool:
        return True

    def increase_indent(self, flow: bool = False, indentless: bool = False) -> None:
        super().increase_indent(flow, False)

    def represent_text(self, text: str) -> yaml.ScalarNode:
        """Quotes whatever would mean something else without quotes."""
        style = '"' if bare_meaning(text) != text else None
        return self.represent_scalar("tag:yaml.org,2002:str", text, style=style)


_Dumper.add_representer(str, _Dumper.represent_text)

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
