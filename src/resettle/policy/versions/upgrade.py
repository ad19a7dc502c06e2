"""`resettle policy convert`: write a policy in a newer apiVersion, and list what changes by it.

Only what differs from the defaults is written, in one order, so that two texts of one policy become
the same text. Only differences that concern this policy are listed: its plugins, its arguments,
and the defaults of what it does not set.
"""

from __future__ import annotations

from collections.abc import Iterator
from enum import Enum
from typing import Any

import yaml
from msgspec import NODEFAULT, Struct, field, inspect, structs

from resettle.errors import InputError
from resettle.policy.args import (
    DEFAULT_EVICTOR,
    DEFAULT_MOVER,
    FILTER_POINTS,
    SORTER_POINTS,
    STRATEGY_POINTS,
    ExtensionPoint,
)
from resettle.policy.document import IMPROVED, KIND, V1ALPHA2, PluginSets, ProfileConfig
from resettle.policy.load import Reading
from resettle.policy.versions.upstream_differences import (
    SAFE_DEFAULTS,
    UPSTREAM_BEHAVIOURS,
    WrittenKeys,
    protects,
)
from resettle.policy.yaml.messages import list_names
from resettle.policy.yaml.source import unquoted_value
from resettle.policy.yaml.typed_walk import shape_of

_WRITTEN_APART = {"apiVersion", "kind", "profiles"}
_LARGEST_PLAIN = 1e15


def write_policy(reading: Reading, name: str, to: str = V1ALPHA2) -> str:
    """A policy that was read, as YAML of this apiVersion; `resettle/v1` if it was read as such."""
    policy, document, version = reading
    if policy.improved and to != IMPROVED:
        raise InputError(
            f"{name} is a `{IMPROVED}` policy, which `{V1ALPHA2}` cannot express; "
            f"convert it with `--to {IMPROVED}`, or keep it as it is"
        )
    top = {
        key: value for key, value in without_defaults(document).items() if key not in _WRITTEN_APART
    }
    profiles = [_profile(profile) for profile in policy.profiles]
    values = {"apiVersion": to, "kind": KIND, **top, "profiles": profiles}
    header = f"# Written by `resettle policy convert` from a {version} policy.\n"
    return header + yaml.dump(
        values, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=100
    )


def _profile(profile: ProfileConfig) -> dict[str, Any]:
    """A profile that names everything that runs, DefaultEvictor too, but not the default mover."""
    configs = []
    for name, args in profile.args.items():
        values = without_defaults(args)
        if name == DEFAULT_MOVER and not values:
            continue
        configs.append({"name": name, "args": values} if values else {"name": name})
    sets = {
        point.value: chosen for point in ExtensionPoint if (chosen := _plugin_set(profile, point))
    }
    return {"name": profile.name, "pluginConfig": configs, "plugins": sets}


def _plugin_set(profile: ProfileConfig, point: ExtensionPoint) -> dict[str, list[str]]:
    """The plugins at a point; DefaultEvictor runs by default, so it is listed as disabled."""
    names = [name for name in profile.enabled[point] if name != DEFAULT_MOVER]
    chosen = {"enabled": names} if names else {}
    if point in FILTER_POINTS and DEFAULT_EVICTOR not in names:
        chosen["disabled"] = [DEFAULT_EVICTOR]
    return chosen


def without_defaults(value: Any) -> Any:
    """A value in plain form; of a struct only the fields that differ from their defaults."""
    match value:
        case Struct():
            return {
                field.encode_name: without_defaults(inner)
                for field in shape_of(type(value)).fields
                if (inner := getattr(value, field.name)) != default_of(field)
            }
        case dict():
            return {key: without_defaults(inner) for key, inner in value.items()}
        case set() | frozenset():
            return sorted(without_defaults(item) for item in value)
        case list() | tuple():
            return [without_defaults(item) for item in value]
        case Enum():
            return value.value
        case float() if value.is_integer() and abs(value) < _LARGEST_PLAIN:
            return int(value)
    return value


def default_of(field: inspect.Field) -> Any:
    """The value of a field that is not written."""
    if field.default_factory is not NODEFAULT:
        return field.default_factory()
    return field.default


class _Dumper(yaml.SafeDumper):
    """Writes text so that Kubernetes reads it as text, and never with aliases."""

    def ignore_aliases(self, data: Any) -> bool:
        return True

    def increase_indent(self, flow: bool = False, indentless: bool = False) -> None:
        super().increase_indent(flow, False)

    def represent_text(self, text: str) -> yaml.ScalarNode:
        """Quote text that would have another meaning without quotes."""
        style = '"' if unquoted_value(text) != text else None
        return self.represent_scalar("tag:yaml.org,2002:str", text, style=style)


_Dumper.add_representer(str, _Dumper.represent_text)

SAFE_DEFAULTS_FLAG = "permissive_defaults"


class Difference(Struct, frozen=True, kw_only=True):
    """One thing that changes: the plugins it is about, a sentence, and the flag it comes from."""

    about: str = ""
    says: str
    behaviour: str = field(default="", name="habit")
    """The flag of `Semantics`; empty for keys that upstream reads and ignores."""

    def __str__(self) -> str:
        return f"{self.about}: {self.says}" if self.about else self.says


def differences(reading: Reading) -> tuple[Difference, ...]:
    """All that changes for a policy now read as `resettle/v1`; nothing if it was one already."""
    policy, document, version = reading
    pairs = zip(policy.profiles, filter(None, document.profiles), strict=True)
    busy = [
        (profile, document.plugins)
        for profile, document in pairs
        if any(profile.enabled[point] for point in STRATEGY_POINTS)
    ]
    if version == policy.api_version or not busy:
        return ()
    top = without_defaults(document)
    profiles_of: dict[Difference, list[str]] = {
        difference: [] for difference in _default_differences("", top)
    }
    for profile, sets in busy:
        for difference in _profile_differences(profile, sets, top):
            profiles_of.setdefault(difference, []).append(profile.name or "without a name")
    return tuple(
        _in_profiles(difference, names, len(busy)) for difference, names in profiles_of.items()
    )


def _profile_differences(
    profile: ProfileConfig, sets: PluginSets, top: dict[str, object]
) -> Iterator[Difference]:
    """The differences for one profile."""
    running = {name for names in profile.enabled.values() for name in names}
    written = WrittenKeys(
        top, {name: without_defaults(args) for name, args in profile.args.items()}
    )
    for name in sorted(running):
        yield from _default_differences(name, written.args.get(name, {}))
    for flag, behaviour in UPSTREAM_BEHAVIOURS.items():
        touched = sorted(running.intersection(behaviour.plugins))
        if (
            flag != SAFE_DEFAULTS_FLAG
            and (touched or not behaviour.plugins)
            and behaviour.matters(written)
        ):
            yield Difference(
                about=", ".join(touched), says=_clause(behaviour.resettle), behaviour=flag
            )
    if DEFAULT_EVICTOR in running and protects("PodsWithoutPDB")(written):
        says = "`PodsWithoutPDB` protects pods without a disruption budget, and no longer every pod"
        yield Difference(about=DEFAULT_EVICTOR, says=says)
    for point in SORTER_POINTS:
        if names := profile.enabled[point]:
            yield Difference(says=f"`{point}` takes effect with {list_names(names)}")
    for point in ExtensionPoint:
        if names := tuple(filter(None, sets.at(point).disabled)):
            yield Difference(says=f"`disabled` takes effect: no {list_names(names)} at `{point}`")


def _default_differences(plugin: str, written: dict[str, object]) -> Iterator[Difference]:
    """The safe defaults of a plugin, or of the top level, that nothing written replaces."""
    for default in SAFE_DEFAULTS:
        if default.plugin == plugin and written.keys().isdisjoint(default.unless):
            yield Difference(
                about=plugin, says=f"{default.says}; {default.remedy}", behaviour=SAFE_DEFAULTS_FLAG
            )


def _in_profiles(difference: Difference, names: list[str], profiles: int) -> Difference:
    """The difference, with the profiles it is about where it is not about all of them."""
    if len(names) in (0, profiles):
        return difference
    where = f"{'profile' if len(names) == 1 else 'profiles'} {', '.join(names)}"
    return structs.replace(
        difference, about=f"{difference.about} ({where})" if difference.about else where
    )


def _clause(sentence: str) -> str:
    """A sentence in the form that follows a colon."""
    first = sentence[0] if sentence.startswith("`") else sentence[0].lower()
    return first + sentence[1:].removesuffix(".")
