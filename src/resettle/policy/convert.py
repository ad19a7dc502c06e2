"""A policy written out again in a newer apiVersion: an old one converted, a new one tidied.

Only what differs from the defaults is written, in one order, so that two texts of one policy become
the same text.
"""

from __future__ import annotations

from enum import Enum
from typing import Any

import yaml
from msgspec import NODEFAULT, Struct, inspect

from resettle.errors import InputError
from resettle.policy.document import IMPROVED, KIND, V1ALPHA2, Profile
from resettle.policy.known import FILTER_POINTS, GUARD, MOVER, ExtensionPoint
from resettle.policy.load import Reading
from resettle.policy.scalars import bare_meaning
from resettle.policy.walk import shape_of

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
