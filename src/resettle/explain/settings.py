"""Everything that could be turned so that a pod that was refused goes."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Iterator
from typing import Any

from msgspec import structs

from resettle.explain.limits import budget_settings, limit_settings
from resettle.explain.nodes import node_settings
from resettle.explain.stage import Setting, Stage
from resettle.framework.knob import Knob
from resettle.framework.plan import Proposal
from resettle.framework.profile import Instance, Profile
from resettle.framework.verdict import Refusal
from resettle.model.pod import Pod
from resettle.policy.args import Args


def settings_for(stage: Stage, pod: Pod, proposals: Iterable[Proposal]) -> list[Setting]:
    """Settings that can lift one of the refusals, the one that reaches least far first."""
    met = [refusal for proposal in proposals for refusal in proposal.refusals]
    codes = {refusal.code for refusal in met}
    profiles = {proposal.profile for proposal in proposals}
    found = {
        setting.key: setting
        for setting in every_setting(stage, pod, profiles, met)
        if setting.ladder and setting.lifts & codes
    }
    return sorted(found.values(), key=lambda setting: setting.reach)


def every_setting(
    stage: Stage, pod: Pod, profiles: Container[str], met: Iterable[Refusal]
) -> Iterator[Setting]:
    """All that could be turned: limits, budgets, nodes, and the guards of these profiles."""
    yield from limit_settings(stage, pod)
    yield from budget_settings(stage, pod)
    for refusal in met:
        yield from node_settings(stage, refusal)
    for profile in stage.descheduler.profiles:
        if profile.name in profiles:
            yield from guard_settings(stage, profile, pod)


def guard_settings(stage: Stage, profile: Profile, pod: Pod) -> Iterator[Setting]:
    """What the guards of a profile say could be turned."""
    descheduler = stage.descheduler
    view = descheduler.view(stage.snapshot)
    several = len(descheduler.profiles) > 1
    guards = (*profile.filters, *profile.pre_eviction_filters)
    for instance in {guard.name: guard for guard in guards}.values():
        for knob in instance.plugin.knobs(instance.args, view, pod):
            yield _setting(knob, profile.name, instance.name, several=several)


def _setting(knob: Knob, profile: str, plugin: str, *, several: bool) -> Setting:
    def says(value: Any) -> str:
        return f"{knob.says(value)}{f' in profile {profile}' if several else ''}"

    return Setting(
        name=knob.setting,
        where=f"profile {profile}",
        was=knob.was,
        ladder=knob.ladder,
        turned=lambda stage, value: _turned(
            stage, profile, plugin, lambda args: knob.turned(args, value)
        ),
        says=says,
        lifts=knob.lifts,
        reach=knob.reach,
    )


def _turned(stage: Stage, profile: str, plugin: str, turn: Callable[[Args], Args]) -> Stage:
    """The stage with the arguments of one plugin changed wherever they serve in the profile."""
    known: dict[int, Args] = {}

    def changed(instances: tuple[Instance, ...]) -> tuple[Instance, ...]:
        # One set of arguments serves several points, and stays one.
        return tuple(
            structs.replace(it, args=known.setdefault(id(it.args), turn(it.args)))
            if it.name == plugin
            else it
            for it in instances
        )

    descheduler = stage.descheduler
    profiles = tuple(
        structs.replace(
            it,
            filters=changed(it.filters),
            pre_eviction_filters=changed(it.pre_eviction_filters),
        )
        if it.name == profile
        else it
        for it in descheduler.profiles
    )
    return stage._replace(descheduler=structs.replace(descheduler, profiles=profiles))
