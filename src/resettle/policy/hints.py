"""Where a key belongs that stands at the wrong level: a sentence for each key and place we know."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cache
from typing import NamedTuple

from msgspec import Struct, inspect

from resettle.policy.known import KnownPlugins
from resettle.policy.ours import OURS, is_ours
from resettle.policy.problem import Path, dotted

_ARGS = "profiles[].pluginConfig[].args"
_FEW = 3


class Home(NamedTuple):
    """A place where a key may stand, and the sentence that leads there."""

    place: str
    sentence: str


Hints = Callable[[], Mapping[str, list[Home]]]
"""Gathered only once a key is at the wrong place: most policies never ask."""
_shape = cache(inspect.type_info)


def way_home(key: str, path: Path, hints: Hints) -> str | None:
    """The sentence for the home of a key that is nearest to where it was found."""
    here = dotted(tuple("[]" if isinstance(step, int) else step for step in path))
    steps = here.replace(".[]", "[]").split(".")

    def in_common(home: Home) -> int:
        return sum(1 for a, b in zip(steps, home.place.split("."), strict=False) if a == b)

    homes = hints().get(key)
    return max(homes, key=in_common).sentence if homes else None


def document_hints(document: type[Struct], plugins: KnownPlugins) -> dict[str, list[Home]]:
    """The homes of each key of a document and of all plugins' arguments."""
    hints: dict[str, list[Home]] = {}
    for key, place in _keys(_shape(document), ""):
        hints.setdefault(key, []).append(Home(place, f"`{key}` belongs {_under(place)}"))
    for key, owners in _argument_owners(plugins).items():
        whose = f" of {listed(owners)}" if len(owners) <= _FEW else ""
        hints.setdefault(key, []).append(Home(_ARGS, f"`{key}` belongs {_under(_ARGS)}{whose}"))
    for plugin in plugins.values():
        for key, place in _keys(_shape(plugin.args), _ARGS):
            hints.setdefault(key, []).append(Home(place, f"`{key}` belongs {_under(place)}"))
    return hints


def args_hints(document: type[Struct], plugins: KnownPlugins) -> dict[str, list[Home]]:
    """The same, told to someone who stands inside the arguments of a plugin already."""
    hints = document_hints(document, plugins)
    for key, owners in _argument_owners(plugins).items():
        hints[key] = [Home(_ARGS, f"`{key}` is an argument of {listed(owners)}")]
    return hints


def hints_of_ours(document: type[Struct], plugins: KnownPlugins) -> dict[str, list[Home]]:
    """The keys that only `resettle/v1` has, told to someone who reads an older document."""
    structs = [document, *(plugin.args for plugin in plugins.values())]
    return {
        field.encode_name: [Home("", f"`{field.encode_name}` belongs to `apiVersion: {OURS}`")]
        for struct in structs
        for field in _fields(_shape(struct))
        if is_ours(field.type)
    }


def listed(names: Iterable[str]) -> str:
    """Names in back-ticks, with an `and` before the last."""
    ticked = [f"`{name}`" for name in names]
    return " and ".join(filter(None, [", ".join(ticked[:-1]), *ticked[-1:]])) or "nothing"


def _argument_owners(plugins: KnownPlugins) -> dict[str, list[str]]:
    """The plugins that take each argument."""
    owners: dict[str, list[str]] = {}
    for name in sorted(plugins):
        for field in _fields(_shape(plugins[name].args)):
            owners.setdefault(field.encode_name, []).append(name)
    return owners


def _under(place: str) -> str:
    return f"under `{place.removeprefix('profiles[].')}`" if place else "at the top level"


def _keys(
    kind: inspect.Type, place: str, inside: tuple[type, ...] = ()
) -> Iterator[tuple[str, str]]:
    """Each key that may stand at a place or below it, with its place; the nearest first."""
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
