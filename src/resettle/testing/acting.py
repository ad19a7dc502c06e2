"""Movers and controllers at work on a test API server.

    with ApiServer(world.objects) as server:
        assert move_pod(PLUGIN, server, "default/web-1").result is MoveResult.EVICTED

Their requests go over a socket, and the effect is in the store. Call these functions where no event
loop is running, as in a test that serves by `with`.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from contextlib import asynccontextmanager
from datetime import datetime
from typing import TYPE_CHECKING, Any

from resettle.clock import SYSTEM
from resettle.framework.controller import ControllerHandle
from resettle.framework.mover import MoveResponse, Options
from resettle.framework.plan import Move
from resettle.framework.plugin import Plugin
from resettle.framework.profile import Instance, Profile
from resettle.framework.view import View
from resettle.log import Log
from resettle.model.kinds import KINDS
from resettle.model.pod import Pod
from resettle.model.semantics import IMPROVED
from resettle.policy.args import Args, ExtensionPoint
from resettle.policy.profiles import build_args
from resettle.testing.api_server.server import ApiServer
from resettle.testing.worlds import World

if TYPE_CHECKING:
    from resettle.kube.transport.client import Client
    from resettle.kube.watch.cache import Cache

_POLL_SECONDS = 0.01


def move_pod(
    plugin: Plugin,
    server: ApiServer,
    key: str,
    /,
    *,
    initiator: str = "PodLifeTime",
    profile: str = "test",
    reason: str = "it is time",
    grace_period_seconds: int | None = None,
    in_background: bool = True,
    **args: Any,
) -> MoveResponse:
    """What comes of moving the pod `namespace/name`; arguments as an operator writes them."""
    made = build_args(plugin, args)
    if not isinstance(made, Args) or plugin.evict is None:
        raise TypeError(f"{plugin.name} moves nothing with these arguments: {made}")
    options = Options(
        initiator=initiator,
        profile=profile,
        reason=reason,
        delete_options=(
            {} if grace_period_seconds is None else {"gracePeriodSeconds": grace_period_seconds}
        ),
        in_background=in_background,
    )
    move = Move(_pod_in_store(server, key), initiator, profile, reason)
    return asyncio.run(_move(plugin, made, server, move, options))


def run_controller(
    plugin: Plugin,
    server: ApiServer,
    /,
    until: Callable[[], bool],
    *,
    seconds: float = 10.0,
    now: Callable[[], datetime] = SYSTEM.now,
    profile: str = "test",
    filters: Iterable[Plugin] = (),
    delete_options: Mapping[str, Any] | None = None,
    **args: Any,
) -> list[str]:
    """Run the controller until the condition holds, and return the lines of its log.

    `now` is the time it sees, `filters` protect pods with their default arguments; the other
    arguments are as an operator writes them. Raises what the controller raises, and `TimeoutError`
    if the condition does not hold in time.
    """
    made = build_args(plugin, args)
    if not isinstance(made, Args) or plugin.controller is None:
        raise TypeError(f"{plugin.name} is no controller with these arguments: {made}")
    instances = tuple(_filter(filter_plugin) for filter_plugin in filters)
    instance = Instance(plugin, made, ExtensionPoint.CONTROLLER)
    of_profile = Profile(name=profile, filters=instances, controllers=(instance,))
    lines: list[str] = []

    async def run() -> None:
        async with asyncio.timeout(seconds), _watch(server, of_profile) as (client, cache):
            handle = _handle(client, cache, of_profile, Log.to(lines), now, delete_options or {})
            assert plugin.controller is not None
            working = asyncio.ensure_future(plugin.controller(made, handle).run())
            try:
                while not (until() or working.done()):
                    await asyncio.sleep(_POLL_SECONDS)
            finally:
                working.cancel()
                (ending,) = await asyncio.gather(working, return_exceptions=True)
            if isinstance(ending, Exception):
                raise ending
            if not until():
                raise TimeoutError("the controller ended before the condition held")

    asyncio.run(run())
    return lines


def _filter(plugin: Plugin) -> Instance:
    return Instance(plugin, plugin.args(), ExtensionPoint.FILTER)


def _pod_in_store(server: ApiServer, key: str) -> Pod:
    namespace, _, name = key.rpartition("/")
    stored = server.store.get("Pod", name, namespace or "default")
    if stored is None:
        raise LookupError(f"there is no pod {key} in the store")
    (pod,) = World([stored]).snapshot().pods
    return pod


class _NothingChanges:
    """The count of changes in a cluster that stays as it is."""

    changes = 0

    async def wait_for_change(self, seen: int) -> None:
        """Never return, unless cancelled."""
        await asyncio.Event().wait()


async def _move(
    plugin: Plugin, args: Args, server: ApiServer, move: Move, options: Options
) -> MoveResponse:
    # Imported here: nothing of aiohttp is before something is really sent.
    from resettle.eviction.evictor import FreshView, LiveEvictor
    from resettle.eviction.executor import GatedClient
    from resettle.kube.auth.access import Access
    from resettle.kube.transport.client import Client

    objects = [item for kind in KINDS for item in server.store.list(kind)]
    view = World(objects).view()
    fresh_view = FreshView(lambda: view, _NothingChanges(), SYSTEM)
    evictor = LiveEvictor(Profile(name=move.profile), fresh_view, view.pod)
    async with Client(Access(server=server.url)) as client:
        assert plugin.evict is not None
        mover = plugin.evict(args, evictor)
        return await mover.move(move, options, GatedClient(client, _always))


@asynccontextmanager
async def _watch(server: ApiServer, profile: Profile) -> AsyncIterator[tuple[Client, Cache]]:
    """A client of the server, and a cache of what the plugins of the profile read."""
    from resettle.kube.auth.access import Access
    from resettle.kube.transport.client import Client
    from resettle.kube.watch.cache import Cache

    access = Access(server=server.url)
    plugins = [(instance.plugin, instance.args) for instance in profile.instances]
    reads = [plugin.reads(args) | plugin.controller_reads(args) for plugin, args in plugins]
    kinds = [kind for plugin, _ in plugins for kind in plugin.kinds]
    async with Client(access) as client:
        cache = Cache(access, client, frozenset().union(*reads), kinds)
        watching = asyncio.create_task(cache.run())
        try:
            await cache.wait_for_sync()
            yield client, cache
        finally:
            watching.cancel()
            await asyncio.gather(watching, return_exceptions=True)


def _handle(
    client: Client,
    cache: Cache,
    profile: Profile,
    log: Log,
    now: Callable[[], datetime],
    delete_options: Mapping[str, Any],
) -> ControllerHandle:
    from resettle.eviction.evictor import FreshView, LiveEvictor
    from resettle.eviction.executor import GatedClient, check_pod

    clock = _OtherTime(now)
    fresh_view = FreshView(lambda: View(cache.snapshot(now()), IMPROVED), cache, clock)
    evictor = LiveEvictor(profile, fresh_view, cache.pod)
    requests = GatedClient(client, _always)
    return ControllerHandle(
        profile=profile.name,
        evictor=evictor,
        requests=requests,
        urgent_requests=requests,
        requests_for=lambda pod, moving=None, *, place_held=False: requests.for_move(
            lambda: check_pod(pod, evictor, moving, place_held=place_held)
        ),
        report_move=lambda move, response: None,
        set_figure=lambda name, value: None,
        wait_for_change=fresh_view.waits(),
        delete_options=delete_options,
        clock=clock,
        log=log,
    )


class _OtherTime:
    """The machine's clock, with another time of day."""

    def __init__(self, now: Callable[[], datetime]) -> None:
        self.now = now
        self.steady = SYSTEM.steady
        self.sleep = SYSTEM.sleep


def _always() -> None:
    """Every request is allowed."""
