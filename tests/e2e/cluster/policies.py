"""Policies with one strategy each, limited to the nodes and pods of their workspaces."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tests.e2e.cluster.workspace import Workspace
from tests.e2e.processes.run import Policy

UPSTREAM, OURS = "descheduler/v1alpha2", "resettle/v1"
BALANCING = {
    "HighNodeUtilization",
    "LowNodeUtilization",
    "RemoveDuplicates",
    "RemovePodsViolatingTopologySpreadConstraint",
}
EVERYWHERE = {"HighNodeUtilization", "LowNodeUtilization"}
"""Strategies that take no `namespaces`."""
UNLIMITED = {"maxPercentOfPodsToEvict": 100, "maxPercentOfNodesToEvictFrom": 100}
Args = Mapping[str, Any]
Plugins = Mapping[str, Mapping[str, Args]]


def policy(
    api_version: str,
    strategy: str,
    args: Args,
    *workspaces: Workspace,
    evictor: Args | None = None,
    plugins: Plugins | None = None,
    top: Args | None = None,
) -> Policy:
    """A policy with one strategy and its arguments.

    `evictor` has the arguments of DefaultEvictor, `plugins` what else runs, as
    `{point: {plugin: args}}`, and `top` keys of the top level. Without them nothing limits a move:
    neither the percentages of pods and nodes that are the defaults of `resettle/v1`, nor its
    default `minPodAge`.
    """
    names = [workspace.name for workspace in workspaces]
    ours = api_version == OURS
    more = plugins or {}
    scope: Args = {} if strategy in EVERYWHERE else {"namespaces": {"include": names}}
    configured: dict[str, Args] = {
        strategy: {**args, **scope},
        "DefaultEvictor": {**({"minPodAge": "0s"} if ours else {}), **(evictor or {})},
    }
    for chosen in more.values():
        configured.update(chosen)
    point = "balance" if strategy in BALANCING else "deschedule"
    return {
        "apiVersion": api_version,
        "kind": "DeschedulerPolicy",
        "nodeSelector": f"workspace in ({','.join(names)})",
        **(UNLIMITED if ours else {}),
        **(top or {}),
        "profiles": [
            {
                "name": "main",
                "pluginConfig": [{"name": name, "args": args} for name, args in configured.items()],
                "plugins": {
                    point: {"enabled": [strategy]},
                    **{at: {"enabled": list(chosen)} for at, chosen in more.items()},
                },
            }
        ],
    }
