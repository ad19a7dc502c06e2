"""The JSON Schema of a policy, for editors: it completes keys and underlines mistakes while typing.

msgspec describes the structs; what depends on plugins (names, points, arguments) is added here.
"""

from __future__ import annotations

from typing import Any

from msgspec import json

from resettle.policy.args import ExtensionPoint, KnownPlugins
from resettle.policy.document import (
    IMPROVED,
    KIND,
    V1ALPHA1,
    V1ALPHA2,
    PluginConfig,
    PluginSets,
    PolicyDocument,
)
from resettle.policy.versions.v1alpha1 import STRATEGIES, OldDocument

Schema = dict[str, Any]
_DIALECT = "https://json-schema.org/draft/2020-12/schema"
_ENVELOPE: Schema = {"apiVersion": {"type": "string"}, "kind": {"type": "string"}}


def json_schema(plugins: KnownPlugins) -> Schema:
    """The schema of a policy document, whatever its apiVersion, for these plugins."""
    names = sorted(plugins)
    wanted = [PolicyDocument, OldDocument, PluginConfig, PluginSets]
    args = [plugins[name].args for name in names]
    refs, components = json.schema_components([*wanted, *args], ref_template="#/$defs/{name}")
    new, old, config, sets = (_target(ref, components) for ref in refs[:4])
    for ref in refs[4:]:
        _target(ref, components)["properties"].update(_ENVELOPE)
    _fix_envelope(new, [V1ALPHA2, IMPROVED])
    _fix_envelope(old, [V1ALPHA1])
    known = [name for name in STRATEGIES if name in plugins]
    old["properties"]["strategies"]["propertyNames"] = {"enum": known}
    sets["properties"] = {
        point.value: _plugin_set(point, plugins) | _description(sets["properties"][point])
        for point in ExtensionPoint
    }
    config["properties"]["name"] = {"enum": names}
    config["allOf"] = [
        _when("name", name, {"properties": {"args": {"anyOf": [ref, {"type": "null"}]}}})
        for name, ref in zip(names, refs[4:], strict=True)
    ]
    for component in components.values():
        _without_empty_items(component)
    return {
        "$schema": _DIALECT,
        "title": "A policy of the descheduler or of resettle",
        "type": "object",
        "required": ["apiVersion", "kind"],
        **_when("apiVersion", V1ALPHA1, refs[1]),
        "else": refs[0],
        "$defs": dict(components),
    }


def _target(ref: Schema, components: dict[str, Any]) -> Schema:
    """The component that a reference leads to."""
    component: Schema = components[ref["$ref"].removeprefix("#/$defs/")]
    return component


def _description(schema: Schema) -> Schema:
    """What a schema says of itself, if any."""
    return {key: value for key, value in schema.items() if key == "description"}


def _when(key: str, value: str, then: Schema) -> Schema:
    """`then` applies to objects in which this key has this value."""
    return {"if": {"properties": {key: {"const": value}}, "required": [key]}, "then": then}


def _fix_envelope(document: Schema, versions: list[str]) -> None:
    document["properties"]["apiVersion"] = {"enum": versions}
    document["properties"]["kind"] = {"const": KIND}


def _plugin_set(point: ExtensionPoint, plugins: KnownPlugins) -> Schema:
    """`enabled` takes plugins that serve the point, `disabled` any plugin."""
    serving = [name for name in sorted(plugins) if point in plugins[name].points]
    enabled: Schema = {"items": {"enum": serving}} if serving else {"maxItems": 0}
    return {
        "type": ["object", "null"],
        "additionalProperties": False,
        "properties": {
            "enabled": {"type": ["array", "null"], **enabled},
            "disabled": {"type": ["array", "null"], "items": {"enum": sorted(plugins)}},
        },
    }


def _without_empty_items(component: Schema) -> None:
    """The structs allow None as a list's unreadable item; a document has no such thing."""
    for schema in component.get("properties", {}).values():
        choices = schema.get("items", {}).get("anyOf", [])
        kept = [choice for choice in choices if choice != {"type": "null"}]
        if len(kept) == 1:
            schema["items"] = kept[0]
