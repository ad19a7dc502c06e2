"""What cycles run with: the settings of `resettle run`, and a context for each set of kinds.

A context holds the cache, the moves in flight and the executor of the policy. When a policy needs
other kinds, a new context is made and takes over what the last one knew.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from contextlib import asynccontextmanager
from functools import partial

from msgspec import to_builtins

from resettle.cycle import CycleContext, CycleObserver, preview
from resettle.errors import NotNow
from resettle.eviction.eviction_api import EvictionAPI
from resettle.eviction.evictor import LiveEvictor
from resettle.eviction.executor import GatedClient, PlanExecutor, check_pod
from resettle.eviction.in_flight import InFlightMoves
from resettle.eviction.pod_events import EventWriter
from resettle.framework.controller import ControllerHandle
from resettle.framework.mover import Evictor, Mover, MoveResponse
from resettle.framework.plan import Move
from resettle.framework.profile import Profile
from resettle.framework.tracing import NO_SPANS, Spans
from resettle.kube.leader_election.lease import LeaseSettings
from resettle.kube.watch.cache import Cache
from resettle.kube.watch.scales import ScaleReader
from resettle.model.kinds import Kind
from resettle.runtime.controllers import Controllers, SetFigure
from resettle.runtime.policy_file import LoadedPolicy
from resettle.runtime.runner import ComponentSettings, Runtime
from resettle.runtime.status import IGNORE_RUN, RunObserver
from resettle.runtime.watching import watch_cluster, why_stale


class RunSettings(ComponentSettings, frozen=True, kw_only=True):
    """How to run cycles, as the flags of `resettle run` say."""

    policy_file: str
    dry_run: bool = False
    background: bool = True
    """Whether pods may be moved by others in the background once they are asked to leave."""

    @property
    def held_lease(self) -> LeaseSettings | None:
        """The lease to hold; none in a dry run, which changes nothing and leaves it to others."""
        return None if self.dry_run else self.lease


class CycleSetup:
    """Makes cycle contexts, one for each set of kinds that a policy reads."""

    def __init__(
        self,
        settings: RunSettings,
        own_kinds: Iterable[Kind],
        run_observer: RunObserver = IGNORE_RUN,
        observers: Sequence[CycleObserver] = (),
        spans: Spans = NO_SPANS,
    ) -> None:
        self._settings = settings
        self._own_kinds = list(own_kinds)
        self._run_observer = run_observer
        self._observers = observers
        self._spans = spans
        self._last: CycleContext | None = None
        self.controllers: Controllers | None = None
        """The controllers of the policy, while the cluster is watched."""

    @asynccontextmanager
    async def open(
        self, policy: LoadedPolicy, runtime: Runtime
    ) -> AsyncIterator[CycleContext | None]:
        """A context while the cluster is watched; None if a stop was requested before."""
        clients, clock, log = runtime.clients, runtime.clock, runtime.log
        cache = Cache(
            runtime.access, clients.unlimited, policy.kinds, self._own_kinds, clock=clock, log=log
        )
        background = self._settings.background
        on_ended = self._run_observer.move_ended
        in_flight_moves = InFlightMoves(
            cache.pod, clock, log, background=background, on_ended=on_ended
        )
        cache.add_listener(in_flight_moves.on_pod_change)
        repeated = bool(self._settings.interval)
        async with watch_cluster(cache, runtime, repeated=repeated) as poller:
            if poller is None:
                yield None
                return
            event_writer = EventWriter(clients.for_events, self._settings.identity, clock, log)
            async with event_writer.writing():
                context = CycleContext(
                    descheduler=policy.descheduler,
                    cache=cache,
                    in_flight_moves=in_flight_moves,
                    event_writer=event_writer,
                    execute=partial(preview, log=log, moved=partial(self._on_shown, runtime)),
                    clock=clock,
                    log=log,
                    usage_poller=poller,
                    scale_reader=ScaleReader(clients.unlimited, clock, log),
                    observers=self._observers,
                    spans=self._spans,
                )
                self._take_over(context)
                self.controllers = Controllers(clock, log, runtime.may_act)
                async with self.controllers.stopped_at_the_end():
                    await self.use_policy(context, policy, runtime)
                    yield context

    def _take_over(self, context: CycleContext) -> None:
        """Copy what the last context knew into the new one."""
        if self._last is not None:
            context.history = self._last.history
            context.recent_evictions = self._last.recent_evictions
            context.in_flight_moves.take_over(self._last.in_flight_moves.moves)
        self._last = context

    async def use_policy(
        self, context: CycleContext, policy: LoadedPolicy, runtime: Runtime
    ) -> None:
        """Have the context plan, measure and execute by this policy, and run its controllers."""
        context.descheduler, context.policy = policy.descheduler, policy.text
        context.recent_evictions.keep_for(policy.descheduler.eviction_window)
        context.fresh_view.forget()  # another policy may see the same cluster differently
        if context.usage_poller:
            context.usage_poller.set_questions(
                policy.descheduler.measures, policy.descheduler.providers
            )
        if self._settings.dry_run:
            return
        delete_options = to_builtins(policy.policy.delete_options)
        context.event_writer.failures = policy.policy.eviction_failure_event_notification

        def may_act() -> None:
            """Raise `NotNow` when nothing more may be sent, or the cache is too old to act upon."""
            runtime.may_act()
            if reason := why_stale(context.cache):
                raise NotNow(reason)

        client = GatedClient(runtime.clients.paced, may_act)
        evictors = {
            profile.name: LiveEvictor(profile, context.fresh_view, context.cache.pod)
            for profile in policy.descheduler.profiles
        }
        executor = PlanExecutor(
            {
                profile.name: self._spans.wrap_mover(_mover(profile, evictors[profile.name]))
                for profile in policy.descheduler.profiles
            },
            evictors=evictors,
            client=client,
            may_act=may_act,
            in_flight=context.in_flight_moves,
            event_writer=context.event_writer,
            log=runtime.log,
            on_move=partial(self._on_moved, runtime, context),
            delete_options=delete_options,
            in_background=self._settings.background,
        )
        context.execute = executor.execute

        def make_handle(
            profile: Profile, may_go_on: Callable[[], None], set_figure: SetFigure
        ) -> ControllerHandle:
            def controller_may_act() -> None:
                may_go_on()
                may_act()

            async def wait_for_change(seconds: float) -> None:
                may_go_on()  # so that a controller which ignores its cancellation ends here
                await wait(seconds)

            requests = GatedClient(runtime.clients.for_controllers, controller_may_act)
            evictor, wait = evictors[profile.name], context.fresh_view.waits()
            return ControllerHandle(
                profile=profile.name,
                evictor=evictor,
                requests=requests,
                urgent_requests=GatedClient(runtime.clients.unlimited, controller_may_act),
                requests_for=lambda pod, moving=None, *, place_held=False: requests.for_move(
                    lambda: check_pod(pod, evictor, moving, place_held=place_held)
                ),
                report_move=executor.report,
                set_figure=set_figure,
                wait_for_change=wait_for_change,
                delete_options=delete_options,
                clock=runtime.clock,
                log=runtime.log,
            )

        if self.controllers is not None:
            await context.read_scales()  # controllers do not wait for the first cycle
            await self.controllers.use_profiles(
                policy.descheduler.profiles, make_handle, delete_options
            )

    def _on_moved(
        self, runtime: Runtime, context: CycleContext, move: Move, response: MoveResponse
    ) -> None:
        context.recent_evictions.add_moves([move], [response], runtime.clock.now())
        self._on_shown(runtime, move, response)

    def _on_shown(self, runtime: Runtime, move: Move, response: MoveResponse) -> None:
        runtime.note_work()
        self._run_observer.move_sent(move, response)


def _mover(profile: Profile, evictor: Evictor) -> Mover:
    """The mover that the profile names, else evictions."""
    chosen = profile.mover
    make = chosen.plugin.evict if chosen else None
    return EvictionAPI() if chosen is None or make is None else make(chosen.args, evictor)
