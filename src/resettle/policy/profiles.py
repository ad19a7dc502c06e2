"""From `args` as written to the struct a plugin is given.

One mistake must not cause a second, false one: a key with a mistake is left out, and what a plugin
then says about that key, or about its arguments as a whole, is not repeated.

The rules of a profile: which plugins run where, with which arguments, behind which guard.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from msgspec import ValidationError, convert
from yaml import Node

from resettle.policy.args import (
    FILTER_POINTS,
    GUARD,
    MOVER,
    SORTER_POINTS,
    Args,
    ExtensionPoint,
    KnownPlugin,
    KnownPlugins,
)
from resettle.policy.document import PluginSet, Profile, ProfileDocument
from resettle.policy.problems import Problem, Report, did_you_mean, nearest
from resettle.policy.yaml.messages import Hints, listed
from resettle.policy.yaml.source import KeyPath, Source
from resettle.policy.yaml.typed_walk import BAD, Walker, is_null, shape_of

_ENVELOPE = ("apiVersion", "kind")
_STEP = re.compile(r"\.(\w+)|\[(\d+)\]")


def read_args(
    node: Node | None,
    plugin: KnownPlugin,
    path: KeyPath,
    report: Report,
    hints: Hints,
    *,
    improved: bool,
) -> Args | None:
    """The arguments written here, checked by types and by the plugin; None when past saving."""
    written: Any = {}
    if node is not None and not is_null(node):
        shape = shape_of(plugin.args)
        walker = Walker(report, hints, improved=improved, strict=True)
        written = walker.struct(node, shape, path, also=_ENVELOPE)
        if written is BAD:
            return None
    keys = {field.encode_name for field in shape_of(plugin.args).fields}
    dropped = {key for key in keys if report.faulty((*path, key))}
    spoilt = report.faulty(path)
    args = build_args(plugin, {k: v for k, v in written.items() if k not in dropped})
    if isinstance(args, Problem):
        if not spoilt:
            report.add(args.under(*path))
        return None
    for problem in tuple(args.problems()):
        if not (spoilt and _follows_from(problem, dropped)):
            report.add(problem.under(*path))
    return args


def build_args(plugin: KnownPlugin, values: Mapping[str, Any]) -> Args | Problem:
    """The plugin's struct filled with these values, or what msgspec has against them."""
    try:
        return convert(dict(values), plugin.args)
    except ValidationError as error:
        what, _, where = str(error).partition(" - at `$")
        return Problem(what=what[:1].lower() + what[1:], at=_path_of(where))


def default_problems(plugin: KnownPlugin) -> tuple[Problem, ...]:
    """What speaks against running a plugin without any arguments."""
    args = build_args(plugin, {})
    return (args,) if isinstance(args, Problem) else tuple(args.problems())


def _follows_from(problem: Problem, dropped: set[str]) -> bool:
    """Whether a problem may be no more than the echo of a key that was left out."""
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
        report: Report,
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

    def read(self, profile: ProfileDocument, path: KeyPath) -> Profile:
        """The profile with its lists completed; every mistake goes to the report."""
        readable = not self.report.faulty((*path, "plugins"))
        configurable = not self.report.faulty((*path, "pluginConfig"))
        args = self.configured(profile, path)
        misnamed = {
            config.name
            for config in profile.plugin_config
            if config is not None and config.name not in self.plugins
        }
        enabled = {point: self.enabled(profile, point, path) for point in ExtensionPoint}
        if configurable and not misnamed:
            self.check_configured(enabled, args, profile, path)
        if readable:
            self.warn_of_idle(profile, enabled, path)
        for name in (MOVER, GUARD):
            if name in self.plugins and name not in args:
                default = build_args(self.plugins[name], {})
                if isinstance(default, Args):
                    args = {name: default, **args}
        return Profile(name=profile.name, args=args, enabled=enabled)

    def configured(self, profile: ProfileDocument, path: KeyPath) -> dict[str, Args]:
        """The arguments that count: of two entries for one plugin, the first."""
        args: dict[str, Args] = {}
        seen: set[str] = set()
        for index, config in enumerate(profile.plugin_config):
            if config is None:
                continue
            at = (*path, "pluginConfig", index)
            plugin = self.plugins.get(config.name)
            if plugin is None:
                self.report.error((*at, "name"), self.no_such(config.name), self.meant(config.name))
                continue
            place = (*at, "args")
            node, improved = self.tree.find(place), self.improved
            found = read_args(node, plugin, place, self.report, self.hints, improved=improved)
            if config.name in seen:
                self.repeated_config(config.name, at)
            elif found is not None:
                args[config.name] = found
            seen.add(config.name)
        return args

    def repeated_config(self, name: str, path: KeyPath) -> None:
        """A second entry for one plugin: without effect in the original, a mistake in ours."""
        note = self.report.error if self.improved else self.report.warn
        note((*path, "name"), f"`{name}` is configured twice and only the first counts", "keep one")

    def enabled(
        self, profile: ProfileDocument, point: ExtensionPoint, path: KeyPath
    ) -> tuple[str, ...]:
        """The names that run at an extension point, in order."""
        chosen = profile.plugins.at(point)
        at = (*path, "plugins", point.value)
        self.check_disabled(chosen, at)
        if point in SORTER_POINTS and not self.improved:
            self.warn_of_inert(chosen, point, at)
            return ()
        names = list(self.checked(chosen, point, at))
        if point in FILTER_POINTS and GUARD not in chosen.enabled:
            names.insert(0, GUARD)
        if point is ExtensionPoint.EVICT:
            return self.one_mover(names, chosen, at)
        if self.improved:
            names = [name for name in names if name not in chosen.disabled]
        if GUARD in names and GUARD not in self.plugins:
            what = f"`{GUARD}` guards every profile and is not among the installed plugins"
            self.report.error(path, what, "install resettle's own plugins again")
        return tuple(names)

    def one_mover(self, names: list[str], chosen: PluginSet, path: KeyPath) -> tuple[str, ...]:
        """The one way in which pods of this profile leave: the one named, else the default."""
        wanted = {name for name in chosen.enabled if name is not None} or {MOVER}
        if len(wanted) > 1:
            what = f"{len(wanted)} movers are enabled, and a pod can leave in one way only"
            self.report.error((*path, "enabled"), what, "keep one")
        elif wanted <= set(chosen.disabled):
            what = f"`{wanted.pop()}` is disabled and no other mover enabled, so no pod could leave"
            self.report.error((*path, "disabled"), what, "enable one under `evict.enabled`")
        if not chosen.enabled:
            return (MOVER,) if MOVER in self.plugins else ()
        return tuple(dict.fromkeys(names))

    def checked(self, chosen: PluginSet, point: ExtensionPoint, path: KeyPath) -> Iterator[str]:
        """The enabled names that exist and serve this point; the others are reported."""
        seen: set[str] = set()
        for index, name in enumerate(chosen.enabled):
            if name is None:
                continue
            at = (*path, "enabled", index)
            plugin = self.plugins.get(name)
            if plugin is None:
                self.report.error(at, self.no_such(name), self.meant(name))
                continue
            if point not in plugin.points:
                what = f"`{name}` does not serve `{point}`"
                self.report.error(at, what, f"it serves {listed(sorted(plugin.points))}")
                continue
            if name in seen:
                note = self.report.error if self.improved else self.report.warn
                note(at, f"`{name}` is listed twice, so it runs twice", "remove one of the two")
            seen.add(name)
            yield name

    def check_disabled(self, chosen: PluginSet, path: KeyPath) -> None:
        """`disabled` works in `resettle/v1` only; elsewhere it is merely read."""
        named = [(i, name) for i, name in enumerate(chosen.disabled) if name is not None]
        if named and not self.improved:
            what = "`disabled` has no effect in `descheduler/v1alpha2`; everything listed runs"
            self.report.warn((*path, "disabled"), what, "it works in `apiVersion: resettle/v1`")
        note = self.report.error if self.improved else self.report.warn
        for index, name in named:
            if name not in self.plugins and name != GUARD:
                note((*path, "disabled", index), self.no_such(name), self.meant(name))

    def warn_of_inert(self, chosen: PluginSet, point: ExtensionPoint, path: KeyPath) -> None:
        """`presort` and `sort` are read and then forgotten by the original."""
        if chosen.enabled:
            what = f"`{point}` has no effect in `descheduler/v1alpha2`"
            self.report.warn(path, what, "it works in `apiVersion: resettle/v1`")
        for index, name in enumerate(chosen.enabled):
            if name is not None and name not in self.plugins:
                self.report.warn((*path, "enabled", index), self.no_such(name), self.meant(name))

    def check_configured(
        self,
        enabled: dict[ExtensionPoint, tuple[str, ...]],
        args: dict[str, Args],
        profile: ProfileDocument,
        path: KeyPath,
    ) -> None:
        """Every plugin that runs needs a `pluginConfig` entry, or defaults that will do."""
        written = {config.name for config in profile.plugin_config if config is not None}
        done: set[str] = {GUARD, MOVER, *written}
        for point, names in enabled.items():
            chosen = profile.plugins.at(point)
            for name in names:
                if name in done:
                    continue
                done.add(name)
                at = (*path, "plugins", point.value, "enabled", chosen.enabled.index(name))
                if self.improved:
                    self.run_on_defaults(name, args, at)
                else:
                    what = f"`{name}` is enabled without a `pluginConfig` entry"
                    self.report.error(at, what, f"add `- name: {name}` under `pluginConfig`")

    def run_on_defaults(self, name: str, args: dict[str, Args], path: KeyPath) -> None:
        """Gives a plugin its default arguments, if it can live with them."""
        plugin = self.plugins[name]
        problems = default_problems(plugin)
        for problem in problems:
            what = f"`{name}` has no `pluginConfig` entry and needs one: {problem.what}"
            self.report.error(path, what, problem.fix)
        default = build_args(plugin, {})
        if not problems and isinstance(default, Args):
            args[name] = default

    def warn_of_idle(
        self,
        profile: ProfileDocument,
        enabled: dict[ExtensionPoint, tuple[str, ...]],
        path: KeyPath,
    ) -> None:
        """A plugin that is configured and never runs is probably an oversight."""
        running = {name for names in enabled.values() for name in names}
        named = {name for point in ExtensionPoint for name in profile.plugins.at(point).enabled}
        misspelt = {nearest(name, self.plugins) for name in named if name} | named
        for index, config in enumerate(profile.plugin_config):
            if config is None or config.name not in self.plugins or config.name == GUARD:
                continue
            if config.name not in running | misspelt:
                points = listed(sorted(self.plugins[config.name].points))
                at = (*path, "pluginConfig", index, "name")
                what = f"`{config.name}` is configured and never enabled, so it does not run"
                self.report.warn(at, what, f"list it under {points}, or remove the entry")

    def no_such(self, name: str) -> str:
        """The sentence for a name no plugin has."""
        return f"no plugin is named `{name}`"

    def meant(self, name: str) -> str:
        """The sentence for the name that was probably meant."""
        return did_you_mean(name, self.plugins)
