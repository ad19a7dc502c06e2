"""A survey: how full a plugin found its nodes, before it chose who should move.

Nothing is decided by it. It goes with the account of a plugin's turn, for those who watch from
outside; a plan as other programs read it does not have it.

A plan: which pods move, why each one, and why the others stay.

The same cluster, policy and time give the same plan, byte for byte. Timings belong to a report.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any, NamedTuple

from msgspec import Struct

from resettle.framework.verdict import Limit, Refusal, Stopped
from resettle.model.objects import Node
from resettle.model.pod import Pod
from resettle.policy.args import ExtensionPoint


class Survey(Struct, frozen=True, kw_only=True):
    """Nodes by band, what each uses, and the lines that it was held against."""

    bands: dict[str, tuple[str, ...]]
    """Names of nodes by band: `under`, `within`, `over`, or `unknown` for those not measured."""
    shares: dict[str, Mapping[str, float]]
    """What each measured node uses, in percent of what it offers, by resource."""
    low: Mapping[str, float] = {}
    """At or below all of these, in percent, a node is under."""
    high: Mapping[str, float] = {}
    """Above any of these it is over."""
    from_mean: bool = False
    """Whether the lines follow the mean of all nodes."""


def surveyed(
    bands: Mapping[str, Iterable[Node]],
    shares: Mapping[Node, Mapping[str, float]],
    low: Mapping[str, float],
    high: Mapping[str, float],
    *,
    from_mean: bool = False,
) -> Survey:
    """The survey of these nodes; it holds on to their names and not to them."""
    return Survey(
        bands={band: tuple(node.name for node in nodes) for band, nodes in bands.items()},
        shares={node.name: row for node, row in shares.items()},
        low=low,
        high=high,
        from_mean=from_mean,
    )


class Move(Struct, frozen=True):
    """One pod to move, on whose word and why."""

    pod: Pod
    plugin: str
    profile: str
    reason: str
    lands_on: str = ""
    """The node its replacement will most likely land on; empty where nobody has asked."""


class HeldBack(Struct, frozen=True):
    """A move that guards had nothing against, and that a limit or a budget did not allow."""

    move: Move
    refusal: Refusal


class Turn(NamedTuple):
    """Who is at work, at which extension point of which profile."""

    profile: str
    plugin: str
    point: ExtensionPoint


class Limited(Struct, frozen=True):
    """How many proposals of one namespace and node a limit of the cycle refused."""

    limit: Limit
    namespace: str
    node: str
    proposals: int


class PluginRun(Struct, frozen=True, kw_only=True):
    """What one plugin did at one extension point of one profile."""

    profile: str
    plugin: str
    point: ExtensionPoint
    proposed: int = 0
    admitted: int = 0
    already_moving: int = 0
    refused: dict[str, int] = {}
    """Refusal code to number of proposals it met."""
    for_instance: dict[str, str] = {}
    """For each of these codes the sentence of the first pod that met it."""
    limited: tuple[Limited, ...] = ()
    """Those of the refused that met a limit of the cycle."""
    stopped: Stopped | None = None
    error: str = ""
    surveys: tuple[Survey, ...] = ()
    """How full it found the nodes that it went by; one for each pool that has lines of its own."""

    @property
    def turn(self) -> Turn:
        """Whose run it was."""
        return Turn(self.profile, self.plugin, self.point)


class Proposal(Struct, frozen=True, kw_only=True):
    """What became of a proposal of a pod that is being watched."""

    subject: str
    profile: str
    plugin: str
    because: str
    verdict: str
    """`admitted`, `moving` or `refused`."""
    refusals: tuple[Refusal, ...] = ()
    """All that stood against it at that moment, the one that was answered with first."""


class Spent(Struct, frozen=True):
    """How much of one limit a plan uses."""

    limit: Limit
    where: str
    """What it counts for; of a limit that each node or namespace has, the one that uses most."""
    used: int
    most: int


class Note(Struct, frozen=True, kw_only=True):
    """Something a plugin or the draft said of a pod or node that is being watched."""

    subject: str
    profile: str
    plugin: str
    code: str
    says: str


class Plan(Struct, frozen=True, kw_only=True):
    """What a cycle would do."""

    moves: tuple[Move, ...]
    runs: tuple[PluginRun, ...]
    taken_at: datetime
    nodes: int
    """Nodes in the snapshot."""
    nodes_in_scope: int
    pods: int
    skipped: Stopped | None = None
    """Why no plugin ran at all."""
    notes: tuple[Note, ...] = ()
    proposals: tuple[Proposal, ...] = ()
    """Of the pods that are being watched, in the order they were made."""
    spent: tuple[Spent, ...] = ()
    """How far the limits are used up; only those that the policy sets."""
    held_back: tuple[HeldBack, ...] = ()
    """Kept only where somebody is to be told of each."""
    history: Mapping[tuple[str, str], Any] = {}
    """What each (profile, plugin) wants to know in the next cycle."""

    @property
    def refused(self) -> dict[str, int]:
        """Refusals of all plugins together, by code."""
        total: dict[str, int] = {}
        for run in self.runs:
            for code, count in run.refused.items():
                total[code] = total.get(code, 0) + count
        return dict(sorted(total.items()))

    @property
    def proposed(self) -> int:
        """Proposals of all plugins together."""
        return sum(run.proposed for run in self.runs)

    @property
    def errors(self) -> tuple[str, ...]:
        """What failed on the way: a plugin's own turn, or a guard that could not answer."""
        failed: dict[str, None] = {}
        for run in self.runs:
            turn = f"{run.plugin} in profile {run.profile}"
            if run.error:
                failed[f"{turn}: {run.error}"] = None
            if "guard-failed" in run.refused:
                failed[f"{turn}: {run.for_instance['guard-failed']}"] = None
        return tuple(failed)
