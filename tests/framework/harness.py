"""Short words for the tests: plugins and guards made of a function, and plans drawn with them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Any

from resettle.framework import (
    Descheduler,
    Draft,
    Instance,
    Limits,
    Plan,
    Plugin,
    Profile,
    Refusal,
    Verdict,
    default_registry,
)
from resettle.framework.view import View
from resettle.model.pod import Pod
from resettle.model.semantics import PARITY, Semantics
from resettle.policy.args import ExtensionPoint
from resettle.testing import World

EVICT = {"descheduler.alpha.kubernetes.io/evict": ""}
EVICTOR = default_registry()["DefaultEvictor"]

Sweeping = Callable[[View, Draft], Any]


def sweeper(sweep: Sweeping, name: str = "Sweeper", **more: Any) -> Plugin:
    """A deschedule plugin that does this."""
    return Plugin(name=name, deschedule=lambda _, view, draft: sweep(view, draft), **more)


def keeper(*names: str, code: str = "kept", by: str = "", point: str = "filter") -> Plugin:
    """A guard that keeps the pods of these names where they are."""

    def guard(args: Any, view: View, pod: Pod) -> Refusal | None:
        return Refusal(code, "is kept here", by) if pod.name in names else None

    serving: dict[str, Any] = {point: guard}
    return Plugin(name="Keeper", **serving)


def instance(plugin: Plugin, point: str = "deschedule", **args: Any) -> Instance:
    return Instance(plugin, plugin.args(**args), ExtensionPoint(point))


def guarding(guard: Plugin, point: str) -> Instance:
    """A guard at a point; DefaultEvictor lets the only pod of an owner go, however it is read."""
    return instance(guard, point, **({"min_replicas": 0} if guard is EVICTOR else {}))


def guarded_by(*guards: Plugin, name: str = "it", **more: Any) -> Profile:
    """A profile with these guards at every point they serve."""
    return Profile(
        name=name,
        filters=tuple(guarding(guard, "filter") for guard in guards if guard.filter),
        pre_eviction_filters=tuple(
            guarding(guard, "preevictionfilter") for guard in guards if guard.preevictionfilter
        ),
        **more,
    )


def drawn(
    world: World,
    *sweeps: Sweeping,
    guards: Iterable[Plugin] = (EVICTOR,),
    limits: Limits | None = None,
    semantics: Semantics = PARITY,
    moving: Iterable[str] = (),
    watching: Iterable[str] = (),
    history: Mapping[tuple[str, str], Any] | None = None,
) -> Plan:
    """The plan of one profile, `it`, that takes these sweeps in turn: Sweeper0, Sweeper1 …"""
    turns = (sweeper(sweep, f"Sweeper{i}") for i, sweep in enumerate(sweeps))
    profile = guarded_by(*guards, deschedule=tuple(map(instance, turns)))
    descheduler = Descheduler(profiles=(profile,), limits=limits or Limits(), semantics=semantics)
    uids = frozenset(f"uid-default-{name}" for name in moving)
    return descheduler.draw_plan(
        replace(world.snapshot(history=history), moving=uids), watching=watching
    )


def proposing(*names: str, into: list[Verdict] | None = None) -> Sweeping:
    """A sweep that proposes these pods of the namespace `default` in this order."""

    def sweep(view: View, draft: Draft) -> None:
        for name in names:
            verdict = draft.propose(pod_named(view, name), because="was asked")
            if into is not None:
                into.append(verdict)

    return sweep


def verdicts(world: World, *names: str, **more: Any) -> list[Verdict]:
    """The answers to proposing these pods in this order."""
    answers: list[Verdict] = []
    drawn(world, proposing(*names, into=answers), **more)
    return answers


def words(answers: Iterable[Verdict]) -> list[str]:
    """Each verdict in a word: `admitted`, `moving`, or the code of the refusal."""
    return [answer.refusal.code if answer.refusal else answer.kind for answer in answers]


def pod_named(view: View, key: str) -> Pod:
    """The pod `name` of `default`, or `namespace/name`."""
    namespace, _, name = key.rpartition("/")
    pod = view.pod(namespace or "default", name)
    assert pod is not None, f"there is no pod {key}"
    return pod
