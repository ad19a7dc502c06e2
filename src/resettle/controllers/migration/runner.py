"""The component of `resettle migration-controller`: carries out jobs in a process of its own.

It takes the profile of the policy whose mover is MigrationController, and of that profile the
arguments of the mover and the filters. No strategy runs here, so that this process is all that
needs to create pods or to write nodes; the descheduler beside it only reads, and creates jobs.
A pass does no work: the controller is started by events. Passes read the policy again.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager

from msgspec import structs

from resettle import __version__
from resettle.clock import Clock
from resettle.controllers.migration.plugin import NAME
from resettle.cycle import CycleContext, log_state
from resettle.errors import ClusterError, PolicyError, ResettleError
from resettle.framework.plugin import Plugin
from resettle.framework.profile import Instance, Profile
from resettle.kube.auth.access import Access
from resettle.log import Log
from resettle.policy.args import ExtensionPoint
from resettle.policy.yaml.messages import list_names
from resettle.rbac.permissions import ApiPermission, required_permissions
from resettle.runtime import RunSettings
from resettle.runtime.cycle_setup import CycleSetup
from resettle.runtime.policy_file import LoadedPolicy
from resettle.runtime.runner import Runtime
from resettle.runtime.status import IGNORE_RUN, ComponentStatus, RunObserver
from resettle.runtime.watching import why_stale


class JobControllerSettings(RunSettings, frozen=True, kw_only=True):
    """How to carry out jobs, as the flags of `resettle migration-controller` say."""

    profile: str = ""
    """The profile to take, where several have the mover."""


def policy_for_jobs(loaded: LoadedPolicy, named: str) -> LoadedPolicy:
    """The policy with the one profile that carries out jobs, and nothing else of it.

    `named` is the profile to take, where several have the mover; raises `PolicyError` if there is
    no such profile, or if it has to be named.
    """
    profiles = [
        profile
        for profile in loaded.descheduler.profiles
        if profile.mover and profile.mover.name == NAME
    ]
    if not any(named in ("", profile.name) for profile in profiles):
        what = f"the profile `{named}` does not have" if named else "no profile has"
        raise PolicyError(
            f"{what} the mover {NAME}; add `evict: {{enabled: [{NAME}]}}` to its plugins"
        )
    names = list_names(profile.name for profile in profiles)
    if any(_filters(profile) != _filters(profiles[0]) for profile in profiles):
        raise PolicyError(
            f"the profiles {names} each have the mover {NAME}, and not the same filters:"
            " jobs of one would be carried out by the filters of another; make them the same"
        )
    chosen = next((p for p in profiles if p.name == named), profiles[0] if not named else None)
    if chosen is None or (len(profiles) > 1 and not named):
        raise PolicyError(
            f"the profiles {names} each have the mover {NAME}; name one with --profile"
        )
    assert chosen.mover is not None
    profile = Profile(
        name=chosen.name,
        filters=chosen.filters,
        pre_eviction_filters=chosen.pre_eviction_filters,
        mover=chosen.mover,
        controllers=(structs.replace(chosen.mover, point=ExtensionPoint.CONTROLLER),),
    )
    descheduler = structs.replace(loaded.descheduler, profiles=(profile,))
    return structs.replace(loaded, descheduler=descheduler)


def _filters(profile: Profile) -> tuple[Instance, ...]:
    return (*profile.filters, *profile.pre_eviction_filters)


class JobControllerComponent:
    """Carries out jobs; a session that cannot be opened is tried again soon."""

    retry_seconds = 1.0

    def __init__(
        self,
        settings: JobControllerSettings,
        plugins: Mapping[str, Plugin],
        log: Log,
        clock: Clock,
        run_observer: RunObserver = IGNORE_RUN,
    ) -> None:
        self._settings = settings
        self._own_kinds = [kind for plugin in plugins.values() for kind in plugin.kinds]
        self._log = log
        self._clock = clock
        self._setup = CycleSetup(settings, self._own_kinds, run_observer)
        self._context: CycleContext | None = None

    def _policy(self, policy: LoadedPolicy | None) -> LoadedPolicy:
        if policy is None:
            raise ValueError("the migration controller needs a policy")
        return policy_for_jobs(policy, self._settings.profile)

    def kinds(self, policy: LoadedPolicy | None) -> frozenset[str]:
        """The kinds that are watched for this policy."""
        return self._policy(policy).kinds

    def permissions(self, policy: LoadedPolicy | None) -> Sequence[ApiPermission]:
        """The permissions to carry out jobs by this policy, and to lead."""
        descheduler = self._policy(policy).descheduler
        # The mover is another process: this one creates no jobs.
        profiles = tuple(structs.replace(profile, mover=None) for profile in descheduler.profiles)
        return required_permissions(
            structs.replace(descheduler, profiles=profiles),
            self._own_kinds,
            dry_run=self._settings.dry_run,
            lease=self._settings.lease,
        )

    def log_start(self, access: Access, policy: LoadedPolicy | None) -> None:
        """Log that jobs are carried out from now on."""
        self._log.info(
            "starting",
            version=__version__,
            server=access.server,
            policy=self._settings.policy_file,
            profiles=self._policy(policy).profiles,
            dry_run=self._settings.dry_run or None,
        )

    @asynccontextmanager
    async def open_session(
        self, policy: LoadedPolicy | None, runtime: Runtime
    ) -> AsyncIterator[_Jobs | None]:
        """Carry out jobs while the block lasts; None if a stop was requested before."""
        async with self._setup.open(self._policy(policy), runtime) as context:
            self._context = context
            try:
                yield None if context is None else _Jobs(self, context, runtime)
            finally:
                self._context = None

    async def use_policy(
        self, context: CycleContext, policy: LoadedPolicy | None, runtime: Runtime
    ) -> None:
        """Carry out jobs by another policy from now on."""
        await self._setup.use_policy(context, self._policy(policy), runtime)

    def pass_skipped(self, reason: str, seconds: float) -> None:
        """Log that the cache is too old; the controller does not act upon it either."""
        self._log.only_when_new("stale").warning("watch failing", reason=reason)

    def pass_failed(self, error: ResettleError, seconds: float) -> None:
        """Log why a pass failed."""
        self._log.error("round failed", reason=str(error))

    def session_failed(self, error: ClusterError, seconds: float) -> None:
        """Log that the cluster could not be listed."""
        self._log.error("round failed", reason=str(error))

    def add_details(self, status: ComponentStatus) -> ComponentStatus:
        """The status, with the moves in flight and the controller."""
        entries = self._context.in_flight_moves.moves if self._context else ()
        controllers = self._setup.controllers
        return structs.replace(
            status,
            in_flight=Counter(entry.stage for entry in entries),
            controllers=controllers.statuses if controllers else (),
        )


class _Jobs:
    """The controller at work on one cache."""

    def __init__(
        self, component: JobControllerComponent, context: CycleContext, runtime: Runtime
    ) -> None:
        self._component = component
        self._context = context
        self._runtime = runtime

    async def run_pass(self) -> bool:
        """Drop moves that nothing has confirmed, and read scales; events start all else."""
        self._context.in_flight_moves.drop_expired()
        await self._context.read_scales()
        return True

    async def use_policy(self, policy: LoadedPolicy | None) -> None:
        """Carry out jobs by another policy from now on."""
        await self._component.use_policy(self._context, policy, self._runtime)

    def why_stale(self) -> str:
        """Why the cache must not be acted upon; empty if it may."""
        return why_stale(self._context.cache)

    def ages(self) -> Mapping[str, float]:
        """The age of the cache, by kind."""
        return self._context.cache.ages()

    def log_state(self) -> None:
        """Log the state of the cache and the moves in flight."""
        log_state(self._context)
