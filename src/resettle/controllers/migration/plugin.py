"""MigrationController: moves pods by PodMigrationJobs, as the mover and as the controller.

As the mover of a profile (`evict`) it creates a job for each move. As a controller it carries out
jobs, its own and those of people: in the descheduler itself if a profile enables it under
`controller`, or in a process of its own, `resettle migration-controller`. Arguments have the names
that Koordinator's MigrationController gives them; limits are a plugin of their own,
MigrationLimits, and protections are those of DefaultEvictor.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import timedelta
from typing import TYPE_CHECKING, Annotated, Literal

from msgspec import Meta, field

from resettle.eviction.migration_job import (
    JOB_KIND,
    MigrationJobMover,
    departed_by_jobs,
    evictions_by_jobs,
    moving_by_jobs,
)
from resettle.framework.mover import Evictor
from resettle.framework.plugin import Permission, Plugin
from resettle.model.kinds import KINDS, Kind
from resettle.model.migration_job import (
    GROUP,
    KIND,
    PLURAL,
    JobMode,
    JobSettings,
    PlaceholderPriority,
    Steering,
)
from resettle.model.snapshot import Snapshot
from resettle.model.workloads import DepartedPod, Eviction
from resettle.policy.args import Args as PluginArgs
from resettle.policy.args import Duration, parse_duration
from resettle.policy.problems import Problem
from resettle.rbac.permissions import component_permissions

if TYPE_CHECKING:
    from resettle.framework.controller import Controller, ControllerHandle
    from resettle.kube.leader_election.lease import LeaseSettings
    from resettle.rbac.permissions import ApiPermission

NAME = "MigrationController"
Positive = Annotated[int, Meta(ge=1)]
PositiveNumber = Annotated[float, Meta(gt=0)]
LONGEST_TTL = timedelta(days=1)
WORKLOADS = frozenset({"Deployment", "ReplicaSet", "StatefulSet", "Job", "ReplicationController"})
"""Kinds that the controller reads to find replacements and rollouts."""


class Args(PluginArgs, frozen=True, kw_only=True):
    """Arguments of MigrationController."""

    default_job_mode: Literal["ReservationFirst", "EvictDirectly"] = "ReservationFirst"
    """Whether a place is held for the replacement before the pod is evicted."""
    default_job_ttl: Duration = field(default="5m", name="defaultJobTTL")
    """Time from the creation of a job after which it fails."""
    placeholder_priority: Literal["Hold", "Yield"] = "Hold"
    """Whether the placeholder has the pod's priority, or gives way to every other pod."""
    steering: Literal["None", "Soft", "Hard", "Gate"] = "Hard"
    """How the replacement is kept from returning to the node that the pod leaves."""
    reserve_timeout: Duration = "60s"
    """How long a placeholder may wait for a node."""
    namespace: str = "resettle"
    """The namespace of placeholder pods."""
    placeholder_image: str = "registry.k8s.io/pause:3.10"
    """The image of placeholder pods; it has to run, and do nothing."""
    evict_qps: PositiveNumber = field(default=10.0, name="evictQPS")
    """Evictions in a second, over all jobs."""
    evict_burst: Positive = 1
    """Evictions at once after a pause."""
    max_concurrent_reconciles: Positive = 10
    """Jobs that are worked on at the same time."""
    arbitration_interval: Duration = "500ms"
    """Time between two looks at the jobs that wait."""
    job_history_ttl: Duration = field(default="1h", name="jobHistoryTTL")
    """How long jobs that have ended are kept."""

    @property
    def settings(self) -> JobSettings:
        """The settings of jobs that say nothing of their own."""
        return JobSettings(
            mode=JobMode(self.default_job_mode),
            ttl=parse_duration(self.default_job_ttl),
            placeholder_priority=PlaceholderPriority(self.placeholder_priority),
            steering=Steering(self.steering),
            reserve_timeout=parse_duration(self.reserve_timeout),
        )

    def problems(self) -> Iterator[Problem]:
        for key, text in (
            ("defaultJobTTL", self.default_job_ttl),
            ("reserveTimeout", self.reserve_timeout),
            ("arbitrationInterval", self.arbitration_interval),
            ("jobHistoryTTL", self.job_history_ttl),
        ):
            if parse_duration(text) <= timedelta():
                yield Problem(
                    what=f"`{text}` is no time to wait",
                    fix="write a duration above zero, such as `5m`",
                    at=(key,),
                )
        if parse_duration(self.default_job_ttl) > LONGEST_TTL:
            yield Problem(
                what=f"a job must not hold a place for as long as `{self.default_job_ttl}`",
                fix="write at most `24h`",
                at=("defaultJobTTL",),
            )
        if not self.namespace:
            yield Problem(
                what="placeholder pods need a namespace",
                fix="name the one that resettle runs in",
                at=("namespace",),
            )
        if self.default_job_mode == "EvictDirectly" and self.steering != "None":
            yield Problem(
                what="jobs that evict directly hold no place, so that nothing can be steered to it",
                fix="remove `steering`, or write `defaultJobMode: ReservationFirst`",
                at=("steering",),
            )


# -- the mover -------------------------------------------------------------------------------------


def make_mover(args: Args, evictor: Evictor) -> MigrationJobMover:
    """The mover of one profile."""
    return MigrationJobMover(args.settings)


def holds_place(args: Args) -> Steering | None:
    """How jobs of these arguments steer replacements; None if they hold no place."""
    return args.settings.steering if args.settings.reserves else None


def moving(args: Args, snapshot: Snapshot) -> frozenset[str]:
    """Uids of the pods that jobs are moving, or will move."""
    return moving_by_jobs(snapshot, args.settings)


def list_departed(args: Args, snapshot: Snapshot) -> tuple[DepartedPod, ...]:
    """The pods that are gone while their jobs have not ended."""
    return departed_by_jobs(snapshot, args.settings)


def evictions(args: Args, snapshot: Snapshot) -> tuple[Eviction, ...]:
    """The evictions that jobs have recorded, so that a new process knows of them."""
    return evictions_by_jobs(snapshot)


def mover_permissions(args: Args) -> tuple[Permission, ...]:
    """Creating jobs; an admission policy lets only those create one who may evict the pod."""
    return (Permission("create", PLURAL, GROUP), Permission("create", "pods/eviction"))


def reads(args: Args) -> frozenset[str]:
    """The jobs themselves, so that their pods count as moving."""
    return frozenset({KIND})


# -- the controller --------------------------------------------------------------------------------


def make_controller(args: Args, handle: ControllerHandle) -> Controller:
    """The controller that carries out jobs, by the filters of one profile."""
    from resettle.controllers.migration.reconcile import JobController

    return JobController(args, handle)


def controller_reads(args: Args) -> frozenset[str]:
    """Workloads, for replacements and rollouts, and PriorityClasses, to remove its own."""
    return WORKLOADS | {KIND, "PriorityClass", "PodDisruptionBudget"}


def controller_permissions(args: Args) -> tuple[Permission, ...]:
    """What carrying out jobs takes, with this steering."""
    own = args.namespace
    permissions = [
        Permission("patch", PLURAL, GROUP),
        Permission("delete", PLURAL, GROUP),
        Permission("get", PLURAL, GROUP),
        Permission("patch", f"{PLURAL}/status", GROUP),
        Permission("get", "pods"),
        Permission("create", "pods/eviction"),
    ]
    if args.settings.reserves:
        permissions += [
            Permission("create", "pods", namespace=own),
            Permission("delete", "pods", namespace=own),
            Permission("get", "persistentvolumeclaims"),
            Permission("get", "persistentvolumes"),
            Permission("create", "priorityclasses", "scheduling.k8s.io"),
            Permission("delete", "priorityclasses", "scheduling.k8s.io"),
            Permission("patch", "pods/status"),
        ]
    if args.settings.steering in (Steering.SOFT, Steering.HARD):
        permissions += [Permission("get", "nodes"), Permission("patch", "nodes")]
    if args.settings.steering is Steering.GATE:
        permissions.append(Permission("patch", "pods"))
    return tuple(permissions)


def process_permissions(
    kinds: Iterable[Kind],
    steerings: Iterable[str],
    namespace: str,
    lease: LeaseSettings | None = None,
) -> tuple[ApiPermission, ...]:
    """Every permission of `resettle migration-controller`, for any of these ways of steering.

    `kinds` are those that the filters of its policy may read.
    """
    chosen = [Args(steering=Steering(name).value, namespace=namespace) for name in steerings]
    names = controller_reads(Args()).union(kind.name for kind in kinds)
    known = {kind.name: kind for kind in (*KINDS.values(), JOB_KIND, *kinds)}
    acting = dict.fromkeys(
        permission for args in chosen for permission in controller_permissions(args)
    )
    return component_permissions([known[name] for name in sorted(names)], acting, lease=lease)


PLUGIN = Plugin(
    name=NAME,
    args=Args,
    kinds=(JOB_KIND,),
    evict=make_mover,
    holds_place=holds_place,
    moving=moving,
    departed=list_departed,
    evictions=evictions,
    permissions=mover_permissions,
    reads=reads,
    controller=make_controller,
    controller_reads=controller_reads,
    controller_permissions=controller_permissions,
)
