"""A plan: which pods move, why each one, and why the others stay.

The same cluster, policy and time give the same plan, byte for byte, so a plan holds no timings.
The utilization summaries of a run are for metrics; the JSON of a plan does not have them.
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


class NodeUtilizationSummary(Struct, frozen=True, kw_only=True):
    """How full a plugin found its nodes: nodes by band, their use, and the thresholds."""

    bands: dict[str, tuple[str, ...]]
    """Names of nodes by band: `under`, `within`, `over`, or `unknown` for those not measured."""
    shares: dict[str, Mapping[str, float]]
    """What each measured node uses, in percent of what it offers, by resource."""
    low: Mapping[str, float] = {}
    """At or below all of these, in percent, a node is under."""
    high: Mapping[str, float] = {}
    """Above any of these it is over."""
    from_mean: bool = False
    """Whether the thresholds follow the mean of all nodes."""


def summarize_node_utilization(
    bands: Mapping[str, Iterable[Node]],
    shares: Mapping[Node, Mapping[str, float]],
    low: Mapping[str, float],
    high: Mapping[str, float],
    *,
    from_mean: bool = False,
) -> NodeUtilizationSummary:
    """The summary of these nodes; it refers to them by name."""
    return NodeUtilizationSummary(
        bands={band: tuple(node.name for node in nodes) for band, nodes in bands.items()},
        shares={node.name: row for node, row in shares.items()},
        low=low,
        high=high,
        from_mean=from_mean,
    )


class Move(Struct, frozen=True):
    """One pod to move, which plugin proposed it, and why."""

    pod: Pod
    plugin: str
    profile: str
    reason: str
    lands_on: str = ""
    """The node its replacement will most likely land on; empty where it was not looked for."""
    place_held: bool = False
    """Whether the mover first holds a place for the replacement on `lands_on`."""


class HeldBack(Struct, frozen=True):
    """A move that all filters passed, and that a limit or a budget did not allow."""

    move: Move
    refusal: Refusal


class Turn(NamedTuple):
    """Which plugin runs, at which extension point of which profile."""

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
    utilization_summaries: tuple[NodeUtilizationSummary, ...] = ()
    """How full it found its nodes; one for each pool with its own thresholds."""

    @property
    def turn(self) -> Turn:
        """The turn that the run belongs to."""
        return Turn(self.profile, self.plugin, self.point)


class Proposal(Struct, frozen=True, kw_only=True):
    """A proposal of a pod that is being watched, and its verdict."""

    subject: str
    profile: str
    plugin: str
    because: str
    verdict: str
    """`admitted`, `moving` or `refused`."""
    refusals: tuple[Refusal, ...] = ()
    """All refusals that applied at that moment, the one in the verdict first."""


class Spent(Struct, frozen=True):
    """How much of one limit a plan uses."""

    limit: Limit
    where: str
    """What it counts for; of a limit that each node or namespace has, the one that uses most."""
    used: int
    most: int


class Note(Struct, frozen=True, kw_only=True):
    """A note by a plugin or the draft about a pod or node that is being watched."""

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
    """Kept only if the policy asks for an event for each of them."""
    history: Mapping[tuple[str, str], Any] = {}
    """What each (profile, plugin) keeps for the next cycle."""

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
        """Failures: of a plugin in its turn, or of a filter that could not answer."""
        failed: dict[str, None] = {}
        for run in self.runs:
            turn = f"{run.plugin} in profile {run.profile}"
            if run.error:
                failed[f"{turn}: {run.error}"] = None
            if "guard-failed" in run.refused:
                failed[f"{turn}: {run.for_instance['guard-failed']}"] = None
        return tuple(failed)
