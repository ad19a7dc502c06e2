"""Where a key belongs that stands at the wrong level: one sentence for each key we know."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from msgspec import Struct, inspect

from resettle.policy.known import KnownPlugins

Hints = Mapping[str, str]
_ARGS = "pluginConfig[].args"
_FEW = 3


def document_hints(document: type[Struct], plugins: KnownPlugins) -> dict[str, str]:
    """For each key of a document or of any plugin's arguments: the sentence that leads home."""
    hints: dict[str, str] = {}
    for key, place in _keys(inspect.type_info(document), ""):
        hints.setdefault(key, f"`{key}` belongs {_under(place)}")
    for key, owners in _argument_owners(plugins).items():
        whose = f" of {listed(owners)}" if len(owners) <= _FEW else ""
        hints.setdefault(key, f"`{key}` belongs under `{_ARGS}`{whose}")
    for plugin in plugins.values():
        for key, place in _keys(inspect.type_info(plugin.args), _ARGS):
            hints.setdefault(key, f"`{key}` belongs {_under(place)}")
    return hints


def args_hints(document: type[Struct], plugins: KnownPlugins) -> dict[str, str]:
    """The same, told to someone who stands inside the arguments of a plugin already."""
    hints = document_hints(document, plugins)
    arguments = _argument_owners(plugins)
    for plugin in plugins.values():
        for key, place in _keys(inspect.type_info(plugin.args), ""):
            if place:
                hints[key] = f"`{key}` belongs under `{place}`"
    for key, owners in arguments.items():
        hints[key] = f"`{key}` is an argument of {listed(owners)}"
    return hints


def listed(names: Iterable[str]) -> str:
    """Names in back-ticks, with an `and` before the last."""
    ticked = [f"`{name}`" for name in names]
    return " and ".join(filter(None, [", ".join(ticked[:-1]), *ticked[-1:]])) or "nothing"


def _argument_owners(plugins: KnownPlugins) -> dict[str, list[str]]:
    owners: dict[str, list[str]] = {}
    for name in sorted(plugins):
        for field in _fields(inspect.type_info(plugins[name].args)):
            owners.setdefault(field.encode_name, []).append(name)
    return owners


def _under(place: str) -> str:
    if not place:
        return "at the top level"
    if place.startswith("profiles[]."):
        place = place.removeprefix("profiles[].")
    return f"under `{place}`"


def _keys(
    kind: inspect.Type, place: str, inside: tuple[type, ...] = ()
) -> Iterator[tuple[str, str]]:
    """Each key that may stand somewhere below, with the place it stands at; the nearest first."""
    deeper: list[tuple[inspect.Type, str]] = []
    for field in _fields(kind):
        yield field.encode_name, place
        deeper.append((field.type, f"{place}.{field.encode_name}" if place else field.encode_name))
    below = (*inside, kind.cls) if isinstance(kind, inspect.StructType) else inside
    for inner, at in deeper:
        for struct, suffix in _structs(inner):
            if struct.cls not in below:
                yield from _keys(struct, at + suffix, below)


def _structs(kind: inspect.Type) -> Iterator[tuple[inspect.StructType, str]]:
    """The structs a value of this type holds, with how a path would lead to them."""
    match kind:
        case inspect.StructType():
            yield kind, ""
        case inspect.Metadata(type=inner):
            yield from _structs(inner)
        case inspect.UnionType(types=members):
            for member in members:
                yield from _structs(member)
        case inspect.ListType(item_type=inner) | inspect.VarTupleType(item_type=inner):
            for struct, suffix in _structs(inner):
                yield struct, f"[]{suffix}"
        case inspect.DictType(value_type=inner):
            for struct, suffix in _structs(inner):
                yield struct, f".<name>{suffix}"


def _fields(kind: inspect.Type) -> tuple[inspect.Field, ...]:
    return kind.fields if isinstance(kind, inspect.StructType) else ()
