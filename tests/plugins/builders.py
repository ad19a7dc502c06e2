"""How the tests of improved strategies draw their plans: `resettle/v1`, with nothing held back."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from resettle.framework import Plugin
from resettle.model.semantics import Semantics
from resettle.testing import Planned, World, plan

NO_LIMITS = {"maxPercentOfPodsToEvict": 100, "maxPercentOfNodesToEvictFrom": 100}
NO_MINIMUM = {"minPodAge": "0s", "minReplicas": 0}


def improved(
    plugin: Plugin,
    world: World,
    *,
    evictor: Mapping[str, Any] | None = None,
    semantics: Semantics | None = None,
    **args: Any,
) -> Planned:
    """What the strategy does in a policy of `resettle/v1` that allows all it can."""
    return plan(
        plugin,
        world,
        evictor={**NO_MINIMUM, **(evictor or {})},
        policy=NO_LIMITS,
        api_version="resettle/v1",
        semantics=semantics,
        **args,
    )


def landings(planned: Planned) -> dict[str, str]:
    """Where each pod that moves is expected to land."""
    return {move.pod.name: move.lands_on for move in planned.plan.moves}
