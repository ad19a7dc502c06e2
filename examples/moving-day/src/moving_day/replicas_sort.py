"""ReplicasSort: pods of workloads with many replicas first, of those with few last.

When a limit cuts a cycle short, the pods that are still where they were are those that would be
missed most.
"""

from __future__ import annotations

from collections.abc import Iterator

from resettle.framework import Args as PluginArgs
from resettle.framework import Plugin, Problem, Unsigned, View
from resettle.model import Pod


class Args(PluginArgs, frozen=True, kw_only=True):
    """Arguments of ReplicasSort."""

    enough: Unsigned | None = None
    """From this many replicas on, one more makes no difference; the next sorter decides."""

    def problems(self) -> Iterator[Problem]:
        if self.enough is not None and self.enough < 2:
            yield Problem(
                what=f"with {self.enough} replicas as enough, all workloads count alike",
                fix="write 2 or more, or leave `enough` out",
                at=("enough",),
            )


def replicas(view: View, pod: Pod) -> int:
    """Pods of the smallest workload that the pod belongs to; a pod without an owner is alone."""
    return min((view.replicas.get(owner.uid, 1) for owner in pod.owners), default=1)


def key(args: Args, view: View, pod: Pod) -> int:
    """What to sort by: the more replicas, the earlier."""
    count = replicas(view, pod)
    return -(count if args.enough is None else min(count, args.enough))


PLUGIN = Plugin(name="ReplicasSort", args=Args, presort=key, sort=key)
