"""Patches: merge, JSON and strategic merge.

Of strategic merge patches, this knows which lists merge and by which key (`MERGED_BY`), and the
directives that kubectl sends: `$patch`, `$setElementOrder`, `$deleteFromPrimitiveList` and
`$retainKeys`. A list that is not named there is replaced as a whole.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from resettle.testing.api_server.objects.kinds import Resource
from resettle.testing.api_server.status import Declined, bad_request
from resettle.testing.builders import Object

MERGE = "application/merge-patch+json"
JSON = "application/json-patch+json"
STRATEGIC = "application/strategic-merge-patch+json"

MERGED_BY = {
    "addresses": "type",
    "conditions": "type",
    "containers": "name",
    "env": "name",
    "ephemeralContainers": "name",
    "hostAliases": "ip",
    "imagePullSecrets": "name",
    "initContainers": "name",
    "ownerReferences": "uid",
    "ports": "containerPort",
    "secrets": "name",
    "topologySpreadConstraints": "topologyKey",
    "volumeDevices": "devicePath",
    "volumeMounts": "mountPath",
    "volumes": "name",
}
_PRIMITIVE = frozenset({"finalizers"})
_ORDER = "$setElementOrder/"
_GONE = "$deleteFromPrimitiveList/"


def apply_patch(resource: Resource, obj: Object, media: str, body: bytes) -> Object:
    """The object with the patch applied; the object itself stays as it is."""
    kinds = [JSON, MERGE] if resource.custom else [JSON, MERGE, STRATEGIC]
    if media not in kinds:
        raise Declined(415, "UnsupportedMediaType", "415: Unsupported Media Type")
    try:
        patch = msgspec.json.decode(body)
    except msgspec.DecodeError as error:
        raise bad_request(f"the patch is not JSON: {error}") from None
    if not isinstance(patch, list if media == JSON else dict):
        raise bad_request("the patch has the wrong shape")
    apply: dict[str, Callable[[Any, Any], Any]] = {
        MERGE: merge_patch,
        JSON: json_patch,
        STRATEGIC: strategic_merge_patch,
    }
    result = apply[media](obj, patch)
    if not isinstance(result, dict) or not isinstance(result.get("metadata"), dict):
        raise _unprocessable("the patch leaves no object behind")
    return result


# -- merge ---------------------------------------------------------------------------------------


def merge_patch(old: Any, patch: Any) -> Any:
    """A merge patch: null removes, objects merge, everything else replaces."""
    if not isinstance(patch, dict):
        return patch
    result = dict(old) if isinstance(old, dict) else {}
    for key, value in patch.items():
        if value is None:
            result.pop(key, None)
        else:
            result[key] = merge_patch(result.get(key), value)
    return result


# -- strategic merge -----------------------------------------------------------------------------


def strategic_merge_patch(old: Any, patch: Object) -> Object:
    """A strategic merge patch, for the lists in `MERGED_BY`."""
    if patch.get("$patch") == "replace":
        return {key: value for key, value in patch.items() if not key.startswith("$")}
    result = dict(old) if isinstance(old, dict) else {}
    if "$retainKeys" in patch:
        result = {key: value for key, value in result.items() if key in patch["$retainKeys"]}
    for key, value in patch.items():
        if key.startswith(_GONE):
            name = key.removeprefix(_GONE)
            result[name] = [item for item in result.get(name) or () if item not in value]
        elif key.startswith("$"):
            continue
        elif value is None:
            result.pop(key, None)
        elif isinstance(value, dict):
            result[key] = strategic_merge_patch(result.get(key), value)
        elif isinstance(value, list):
            result[key] = _merge_lists(key, result.get(key) or [], value)
        else:
            result[key] = value
    for key, order in patch.items():
        if key.startswith(_ORDER):
            name = key.removeprefix(_ORDER)
            result[name] = _in_order(name, result.get(name) or [], order)
    return result


def _merge_lists(name: str, old: list[Any], patch: list[Any]) -> list[Any]:
    if name in _PRIMITIVE:
        return [*old, *(item for item in patch if item not in old)]
    by = _key_of(name, patch)
    if (
        by is None
        or not all(isinstance(item, dict) for item in (*old, *patch))
        or {"$patch": "replace"} in patch
    ):
        return [item for item in patch if item != {"$patch": "replace"}]
    items = {str(item.get(by)): item for item in old}
    for row in patch:
        mark = str(row.get(by))
        if row.get("$patch") == "delete":
            items.pop(mark, None)
        else:
            items[mark] = strategic_merge_patch(items.get(mark), row)
    return list(items.values())


def _key_of(name: str, rows: list[Any]) -> str | None:
    by = MERGED_BY.get(name)
    if name == "ports" and not any(
        isinstance(row, dict) and "containerPort" in row for row in rows
    ):
        return "port"
    return by


def _in_order(name: str, items: list[Any], order: list[Any]) -> list[Any]:
    by = _key_of(name, order)

    def mark(item: Any) -> str:
        return str(item.get(by) if isinstance(item, dict) else item)

    places = {mark(item): place for place, item in enumerate(order)}
    return sorted(items, key=lambda item: places.get(mark(item), len(places)))


# -- JSON patch ----------------------------------------------------------------------------------


def json_patch(old: Any, operations: list[Any]) -> Any:
    """A JSON patch, one operation after another; all of them or none."""
    result: Any = {"": msgspec.json.decode(msgspec.json.encode(old))}
    for row in operations:
        try:
            _operate(result, row)
        except (KeyError, IndexError, ValueError, TypeError, AttributeError) as error:
            operation = row.get("op") if isinstance(row, dict) else row
            path = row.get("path") if isinstance(row, dict) else ""
            raise _unprocessable(
                f"{operation} operation does not apply at `{path}`: {error}"
            ) from None
    return result[""]


def _operate(root: Any, row: Object) -> None:
    path = _steps(row["path"])
    match row["op"]:
        case "add":
            _add(root, path, row["value"])
        case "replace":
            _read(root, path)
            holder = _read(root, path[:-1])
            holder[_place(holder, path[-1])] = row["value"]
        case "remove":
            _take(root, path)
        case "test":
            if _read(root, path) != row.get("value"):
                raise ValueError("testing value failed")
        case "move":
            _add(root, path, _take(root, _steps(row["from"])))
        case "copy":
            value = msgspec.json.encode(_read(root, _steps(row["from"])))
            _add(root, path, msgspec.json.decode(value))
        case other:
            raise ValueError(f"there is no operation `{other}`")


def _steps(pointer: str) -> list[str]:
    if pointer and not pointer.startswith("/"):
        raise ValueError("a path begins with `/`")
    return [step.replace("~1", "/").replace("~0", "~") for step in pointer.split("/")]


def _place(holder: Any, step: str) -> Any:
    return int(step) if isinstance(holder, list) else step


def _read(root: Any, path: list[str]) -> Any:
    for step in path:
        root = root[_place(root, step)]
    return root


def _take(root: Any, path: list[str]) -> Any:
    holder = _read(root, path[:-1])
    return holder.pop(_place(holder, path[-1]))


def _add(root: Any, path: list[str], value: Any) -> None:
    holder = _read(root, path[:-1])
    if not isinstance(holder, list):
        holder[path[-1]] = value
        return
    place = len(holder) if path[-1] == "-" else int(path[-1])
    if not 0 <= place <= len(holder):
        raise IndexError("beyond the end of the list")
    holder.insert(place, value)


def _unprocessable(why: str) -> Declined:
    return Declined(
        422,
        "Invalid",
        f"the server rejected our request due to an error in our request: {why}",
    )
