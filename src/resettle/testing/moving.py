"""What a mover does to a cluster, asked of a pocket server.

    with PocketServer(world.objects) as pocket:
        assert moved(PLUGIN, pocket, "default/web-1").ending is Ending.EVICTED

The mover gets real hands: what it sends goes over a socket, and what comes of it is in the store.
"""

from __future__ import annotations

import asyncio
from typing import Any

from resettle.framework.mover import Options, Outcome
from resettle.framework.plan import Move
from resettle.framework.plugin import Plugin
from resettle.model.pod import Pod
from resettle.policy.args import Args
from resettle.policy.arguments import build_args
from resettle.testing.pocket.server import PocketServer
from resettle.testing.worlds import World


def moved(
    plugin: Plugin,
    pocket: PocketServer,
    key: str,
    /,
    *,
    initiator: str = "PodLifeTime",
    profile: str = "test",
    reason: str = "it is time",
    grace_period_seconds: int | None = None,
    in_background: bool = True,
    **args: Any,
) -> Outcome:
    """What comes of moving the pod `namespace/name`; arguments as an operator writes them.

    Call it where no event loop is running, as in a test that serves by `with`.
    """
    made = build_args(plugin, args)
    if not isinstance(made, Args) or plugin.evict is None:
        raise TypeError(f"{plugin.name} moves nothing with these arguments: {made}")
    options = Options(
        initiator=initiator,
        profile=profile,
        reason=reason,
        grace_period_seconds=grace_period_seconds,
        in_background=in_background,
    )
    move = Move(_seen(pocket, key), initiator, profile, reason)
    return asyncio.run(_moved(plugin, made, pocket.url, move, options))


def _seen(pocket: PocketServer, key: str) -> Pod:
    namespace, _, name = key.rpartition("/")
    found = pocket.store.get("Pod", name, namespace or "default")
    if found is None:
        raise LookupError(f"there is no pod {key} in the store")
    (pod,) = World([found]).snapshot().pods
    return pod


async def _moved(plugin: Plugin, args: Args, url: str, move: Move, options: Options) -> Outcome:
    # Imported here: nothing of aiohttp is before something is really sent.
    from resettle.cluster.access import Access
    from resettle.evict.executor import GatedClient
    from resettle.kube.transport.client import Client

    async with Client(Access(server=url)) as client:
        assert plugin.evict is not None
        mover = plugin.evict(args, GatedClient(client, _always))
        return await mover.move(move, options)


def _always() -> None:
    """We may act."""
