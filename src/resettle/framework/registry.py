"""Finds plugins by entry point, resettle's own in the same way as those of other packages.

A package offers a plugin with an entry point in the group `resettle.plugins` that names a `Plugin`:
`PodLifeTime = "resettle.plugins.pod_life_time:PLUGIN"`. A program of its own may build a `Registry`
from plugins in code and leave entry points alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from importlib.metadata import EntryPoint, distributions

from resettle.errors import PluginError
from resettle.framework.plugin import Plugin

GROUP = "resettle.plugins"


class Registry(Mapping[str, Plugin]):
    """Plugins by name; a name belongs to one plugin."""

    def __init__(self, plugins: Iterable[Plugin]) -> None:
        self._plugins: dict[str, Plugin] = {}
        for plugin in plugins:
            if plugin.name in self._plugins:
                raise PluginError(f"two plugins are named `{plugin.name}`; rename one of them")
            self._plugins[plugin.name] = plugin

    def __getitem__(self, name: str) -> Plugin:
        return self._plugins[name]

    def __iter__(self) -> Iterator[str]:
        return iter(sorted(self._plugins))

    def __len__(self) -> int:
        return len(self._plugins)

    def with_plugins(self, *plugins: Plugin) -> Registry:
        """A registry of these and some more plugins."""
        return Registry((*self._plugins.values(), *plugins))


def default_registry() -> Registry:
    """Every plugin that an installed package offers."""
    return load_plugins(_entry_points())


def _entry_points() -> Iterator[EntryPoint]:
    """The entry points of our group; `entry_points()` would first make sense of all others."""
    known: set[str] = set()
    for package in distributions():
        # Of a package that is there twice, the first one is what Python imports.
        if GROUP in (package.read_text("entry_points.txt") or "") and package.name not in known:
            known.add(package.name)
            yield from package.entry_points.select(group=GROUP)


def load_plugins(entry_points: Iterable[EntryPoint]) -> Registry:
    """The plugins that these entry points name; two packages with one name are an error."""
    owners: dict[str, EntryPoint] = {}
    plugins: list[Plugin] = []
    for entry in sorted(entry_points, key=lambda entry: (entry.name, entry.value)):
        if rival := owners.get(entry.name):
            raise PluginError(
                f"the plugin `{entry.name}` is offered by {_package(rival)} and by "
                f"{_package(entry)}; uninstall one of them"
            )
        owners[entry.name] = entry
        plugins.append(_load(entry))
    return Registry(plugins)


def _load(entry: EntryPoint) -> Plugin:
    try:
        plugin = entry.load()
    except Exception as error:
        raise PluginError(
            f"the plugin `{entry.name}` of {_package(entry)} cannot be loaded from "
            f"`{entry.value}`: {type(error).__name__}: {error}; fix or uninstall the package"
        ) from error
    if not isinstance(plugin, Plugin):
        raise PluginError(
            f"`{entry.value}` of {_package(entry)} is a {type(plugin).__name__}; "
            "an entry point in `resettle.plugins` names a `resettle.framework.Plugin`"
        )
    if plugin.name != entry.name:
        raise PluginError(
            f"the entry point `{entry.name}` of {_package(entry)} names a plugin that is called "
            f"`{plugin.name}`; give both the same name"
        )
    return plugin


def _package(entry: EntryPoint) -> str:
    return f"package {entry.dist.name}" if entry.dist else f"`{entry.value}`"
