"""Checks a profile: which plugins run at which extension point, with which arguments.

One mistake must not cause a second, false one: a key with a mistake is left out, and what a plugin
then reports about that key, or about its arguments as a whole, is dropped.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from msgspec import ValidationError, convert
from yaml import Node

from resettle.policy.args import (
    DEFAULT_EVICTOR,
    DEFAULT_MOVER,
    FILTER_POINTS,
    SORTER_POINTS,
    Args,
    ExtensionPoint,
    KnownPlugin,
    KnownPlugins,
)
from resettle.policy.document import PluginSet, ProfileConfig, ProfileDocument
from resettle.policy.problems import Problem, ProblemCollector, did_you_mean, nearest
from resettle.policy.yaml.messages import Hints, list_names
from resettle.policy.yaml.source import KeyPath, Source
from resettle.policy.yaml.typed_walk import INVALID, Walker, is_null, shape_of

_ENVELOPE = ("apiVersion", "kind")
_STEP = re.compile(r"\.(\w+)|\[(\d+)\]")


def read_args(
    node: Node | None,
    plugin: KnownPlugin,
    path: KeyPath,
    report: ProblemCollector,
    hints: Hints,
    *,
    improved: bool,
) -> Args | None:
    """The arguments written here, checked by types and by the plugin; None if unreadable."""
    written: Any = {}
    if node is not None and not is_null(node):
        shape = shape_of(plugin.args)
        walker = Walker(report, hints, improved=improved, strict=True)
        written = walker.read_struct(node, shape, path, also=_ENVELOPE)
        if written is INVALID:
            return None
    keys = {field.encode_name for field in shape_of(plugin.args).fields}
    dropped = {key for key in keys if report.is_faulty((*path, key))}
    has_faults = report.is_faulty(path)
    args = build_args(plugin, {k: v for k, v in written.items() if k not in dropped})
    if isinstance(args, Problem):
        if not has_faults:
            report.add(args.under(*path))
        return None
    for problem in tuple(args.problems()):
        if not (has_faults and _follows_from(problem, dropped)):
            report.add(problem.under(*path))
    return args


def build_args(plugin: KnownPlugin, values: Mapping[str, Any]) -> Args | Problem:
    """The plugin's struct filled with these values, or the problem that msgspec reports."""
    try:
        return convert(dict(values), plugin.args)
    except ValidationError as error:
        what, _, where = str(error).partition(" - at `$")
        return Problem(what=what[:1].lower() + what[1:], at=_path_of(where))


def default_problems(plugin: KnownPlugin) -> tuple[Problem, ...]:
    """The problems of running a plugin without any arguments."""
    args = build_args(plugin, {})
    return (args,) if isinstance(args, Problem) else tuple(args.problems())


def _follows_from(problem: Problem, dropped: set[str]) -> bool:
    """Whether a problem may only follow from a key that was left out."""
    if not problem.at or problem.at[0] in dropped:
        return True
    return any(f"`{key}`" in str(problem) for key in dropped)


def _path_of(where: str) -> KeyPath:
    """The steps of `.thresholds[0]`, as msgspec writes a place."""
    return tuple(int(index) if index else key for key, index in _STEP.findall(where))


class ProfileReader:
    """Reads the profiles of one document; `improved` is whether `resettle/v1` rules apply."""

    def __init__(
        self,
        tree: Source,
        report: ProblemCollector,
        plugins: KnownPlugins,
        hints: Hints,
        *,
        improved: bool,
    ) -> None:
        self.tree = tree
        self.report = report
        self.plugins = plugins
        self.hints = hints
        self.improved = improved

    def read(self, profile: ProfileDocument, path: KeyPath) -> ProfileConfig:
        """The profile with its lists completed; every mistake goes to the report."""
        readable = not self.report.is_faulty((*path, "plugins"))
        configurable = not self.report.is_faulty((*path, "pluginConfig"))
        args = self.read_plugin_config(profile, path)
        misnamed = {
            config.name
            for config in profile.plugin_config
            if config is not None and config.name not in self.plugins
        }
        enabled = {point: self.enabled_names(profile, point, path) for point in ExtensionPoint}
        if configurable and not misnamed:
            self.check_configured(enabled, args, profile, path)
        if readable:
            self.warn_of_unused(profile, enabled, path)
        for name in (DEFAULT_MOVER, DEFAULT_EVICTOR):
            if name in self.plugins and name not in args:
                default = build_args(self.plugins[name], {})
                if isinstance(default, Args):
                    args = {name: default, **args}
        return ProfileConfig(name=profile.name, args=args, enabled=enabled)

    def read_plugin_config(self, profile: ProfileDocument, path: KeyPath) -> dict[str, Args]:
        """The arguments that count: of two entries for one plugin, the first."""
        args: dict[str, Args] = {}
        seen: set[str] = set()
        for index, config in enumerate(profile.plugin_config):
            if config is None:
                continue
            at = (*path, "pluginConfig", index)
            plugin = self.plugins.get(config.name)
            if plugin is None:
                self.report.error(
                    (*at, "name"), self.unknown_plugin(config.name), self.suggestion(config.name)
                )
                continue
            place = (*at, "args")
            node, improved = self.tree.find(place), self.improved
            plugin_args = read_args(node, plugin, place, self.report, self.hints, improved=improved)
            if config.name in seen:
                self.report_repeated_config(config.name, at)
            elif plugin_args is not None:
                args[config.name] = plugin_args
            seen.add(config.name)
        return args

    def report_repeated_config(self, name: str, path: KeyPath) -> None:
        """A second entry for one plugin: ignored upstream, a mistake in `resettle/v1`."""
        note = self.report.error if self.improved else self.report.warn
        note((*path, "name"), f"`{name}` is configured twice and only the first counts", "keep one")

    def enabled_names(
        self, profile: ProfileDocument, point: ExtensionPoint, path: KeyPath
    ) -> tuple[str, ...]:
        """The names that run at an extension point, in order."""
        chosen = profile.plugins.at(point)
        at = (*path, "plugins", point.value)
        self.check_disabled(chosen, at)
        if point in SORTER_POINTS and not self.improved:
            self.warn_of_ignored_sorters(chosen, point, at)
            return ()
        names = list(self.check_enabled(chosen, point, at))
        if point in FILTER_POINTS and DEFAULT_EVICTOR not in chosen.enabled:
            names.insert(0, DEFAULT_EVICTOR)
        if point is ExtensionPoint.EVICT:
            return self.mover_names(names, chosen, at)
        if self.improved:
            names = [name for name in names if name not in chosen.disabled]
        if DEFAULT_EVICTOR in names and DEFAULT_EVICTOR not in self.plugins:
            what = f"`{DEFAULT_EVICTOR}` is the filter of every profile and is not installed"
            self.report.error(path, what, "install resettle's own plugins again")
        return tuple(names)

    def mover_names(self, names: list[str], chosen: PluginSet, path: KeyPath) -> tuple[str, ...]:
        """The mover of the profile: the one named, else the default."""
        wanted = {name for name in chosen.enabled if name is not None} or {DEFAULT_MOVER}
        if len(wanted) > 1:
            what = f"{len(wanted)} movers are enabled, and a pod can leave in one way only"
            self.report.error((*path, "enabled"), what, "keep one")
        elif wanted <= set(chosen.disabled):
            what = f"`{wanted.pop()}` is disabled and no other mover enabled, so no pod could leave"
            self.report.error((*path, "disabled"), what, "enable one under `evict.enabled`")
        if not chosen.enabled:
            return (DEFAULT_MOVER,) if DEFAULT_MOVER in self.plugins else ()
        return tuple(dict.fromkeys(names))

    def check_enabled(
        self, chosen: PluginSet, point: ExtensionPoint, path: KeyPath
    ) -> Iterator[str]:
        """The enabled names that exist and may be enabled here; the others are reported."""
        seen: set[str] = set()
        for index, name in enumerate(chosen.enabled):
            if name is None:
                continue
            at = (*path, "enabled", index)
            plugin = self.plugins.get(name)
            if plugin is None:
                self.report.error(at, self.unknown_plugin(name), self.suggestion(name))
                continue
            if point not in plugin.points:
                what = f"`{name}` cannot be enabled under `{point}`"
                self.report.error(at, what, f"enable it under {list_names(sorted(plugin.points))}")
                continue
            if name in seen:
                note = self.report.error if self.improved else self.report.warn
                note(at, f"`{name}` is listed twice, so it runs twice", "remove one of the two")
            seen.add(name)
            yield name

    def check_disabled(self, chosen: PluginSet, path: KeyPath) -> None:
        """Check `disabled`, which has an effect in `resettle/v1` only."""
        named = [(i, name) for i, name in enumerate(chosen.disabled) if name is not None]
        if named and not self.improved:
            what = "`disabled` has no effect in `descheduler/v1alpha2`; everything listed runs"
            self.report.warn((*path, "disabled"), what, "it works in `apiVersion: resettle/v1`")
        note = self.report.error if self.improved else self.report.warn
        for index, name in named:
            if name not in self.plugins and name != DEFAULT_EVICTOR:
                note((*path, "disabled", index), self.unknown_plugin(name), self.suggestion(name))

    def warn_of_ignored_sorters(
        self, chosen: PluginSet, point: ExtensionPoint, path: KeyPath
    ) -> None:
        """Warn of `presort` and `sort`, which upstream reads and ignores."""
        if chosen.enabled:
            what = f"`{point}` has no effect in `descheduler/v1alpha2`"
            self.report.warn(path, what, "it works in `apiVersion: resettle/v1`")
        for index, name in enumerate(chosen.enabled):
            if name is not None and name not in self.plugins:
                self.report.warn(
                    (*path, "enabled", index), self.unknown_plugin(name), self.suggestion(name)
                )

    def check_configured(
        self,
        enabled: dict[ExtensionPoint, tuple[str, ...]],
        args: dict[str, Args],
        profile: ProfileDocument,
        path: KeyPath,
    ) -> None:
        """Check that every enabled plugin has a `pluginConfig` entry, or usable defaults."""
        written = {config.name for config in profile.plugin_config if config is not None}
        done: set[str] = {DEFAULT_EVICTOR, DEFAULT_MOVER, *written}
        for point, names in enabled.items():
            chosen = profile.plugins.at(point)
            for name in names:
                if name in done:
                    continue
                done.add(name)
                at = (*path, "plugins", point.value, "enabled", chosen.enabled.index(name))
                if self.improved:
                    self.use_default_args(name, args, at)
                else:
                    what = f"`{name}` is enabled without a `pluginConfig` entry"
                    self.report.error(at, what, f"add `- name: {name}` under `pluginConfig`")

    def use_default_args(self, name: str, args: dict[str, Args], path: KeyPath) -> None:
        """Give a plugin its default arguments, if they have no problems."""
        plugin = self.plugins[name]
        problems = default_problems(plugin)
        for problem in problems:
            what = f"`{name}` has no `pluginConfig` entry and needs one: {problem.what}"
            self.report.error(path, what, problem.fix)
        default = build_args(plugin, {})
        if not problems and isinstance(default, Args):
            args[name] = default

    def warn_of_unused(
        self,
        profile: ProfileDocument,
        enabled: dict[ExtensionPoint, tuple[str, ...]],
        path: KeyPath,
    ) -> None:
        """Warn of plugins that are configured and never run."""
        running = {name for names in enabled.values() for name in names}
        named = {name for point in ExtensionPoint for name in profile.plugins.at(point).enabled}
        misspelt = {nearest(name, self.plugins) for name in named if name} | named
        for index, config in enumerate(profile.plugin_config):
            if config is None or config.name not in self.plugins or config.name == DEFAULT_EVICTOR:
                continue
            if config.name not in running | misspelt:
                points = list_names(sorted(self.plugins[config.name].points))
                at = (*path, "pluginConfig", index, "name")
                what = f"`{config.name}` is configured and never enabled, so it does not run"
                self.report.warn(at, what, f"list it under {points}, or remove the entry")

    def unknown_plugin(self, name: str) -> str:
        """The message for a name that no plugin has."""
        return f"no plugin is named `{name}`"

    def suggestion(self, name: str) -> str:
        """The message that suggests the most similar name."""
        return did_you_mean(name, self.plugins)
