"""One pass of the soft tainter: which taints nodes should have, the writes, and what is logged.

A `Task` is what a policy and the flags ask for; `reconcile` runs one pass of it. A second pass
changes nothing. `SimulatedTainter` runs a pass on a snapshot alone, for simulations.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from enum import StrEnum

from msgspec import Struct, structs

from resettle.controllers.soft_taints.apply import (
    PatchResult,
    TaintWriter,
    WriteResult,
    apply_patches,
    patches_for,
)
from resettle.controllers.soft_taints.desired import (
    ALL_STYLES,
    NodeTaints,
    OwnTaints,
    TaintScheme,
    no_taints,
    taints_for_bands,
)
from resettle.errors import PolicyError
from resettle.framework.descheduler import Descheduler
from resettle.framework.profile import Profile
from resettle.framework.view import View
from resettle.log import Log
from resettle.model.constraints import Taint
from resettle.model.objects import Node
from resettle.model.snapshot import Snapshot
from resettle.plugins.low_node_utilization import Args
from resettle.policy.document import BALANCER, SoftTaints
from resettle.policy.yaml.messages import list_names
from resettle.utilization.describe import NodeBands
from resettle.utilization.usage import UsageMissingError

EVERY_KIND = frozenset({"Node", "Pod"})
"""All kinds that a policy can have it read."""
_NAMED = 5
"""How many nodes a log line names before it only counts them."""


# -- the task --------------------------------------------------------------------------------------


class Mode(StrEnum):
    """What may be written."""

    TAINT = "taint"
    DRY_RUN = "dry-run"
    """Nothing is set, and what is there from before is removed: a taint steers, dry run or not."""
    REMOVE_ONLY = "remove-only"


class Task(Struct, frozen=True, kw_only=True):
    """What the tainter is to do, pass after pass."""

    scheme: TaintScheme
    ours: OwnTaints
    """The taints that are ours to remove."""
    mode: Mode = Mode.TAINT
    measuring: Descheduler = Descheduler(profiles=())
    """Only what says how full nodes are: one plugin, its source of usage, its nodes."""

    @property
    def thresholds(self) -> Args | None:
        """How full a node may be; None where the policy does not say so, and no node is tainted."""
        plugins = (plugin for profile in self.measuring.profiles for plugin in profile.balance)
        return next((plugin.args for plugin in plugins if isinstance(plugin.args, Args)), None)

    @property
    def kinds(self) -> frozenset[str]:
        """The kinds to watch; pods only where their number or their requests count."""
        args = self.thresholds
        if args is None or (args.metrics_utilization and "pods" not in args.thresholds):
            return frozenset({"Node"})
        return EVERY_KIND


def task_of(descheduler: Descheduler, mode: Mode) -> Task:
    """The task by the policy that this descheduler was assembled from."""
    settings = descheduler.soft_taints
    if mode is Mode.REMOVE_ONLY:
        return removal_task(settings.domain)
    scheme = TaintScheme(settings)
    balancer = balancer_of(descheduler, settings.profile)
    measuring = structs.replace(descheduler, profiles=(balancer,) if balancer else ())
    return Task(scheme=scheme, ours=scheme.ours, mode=mode, measuring=measuring)


def removal_task(*prefixes: str) -> Task:
    """The task to remove all of our taints, under these prefixes and those of both styles."""
    ours = ALL_STYLES.with_prefixes(prefixes)
    return Task(scheme=TaintScheme(SoftTaints()), ours=ours, mode=Mode.REMOVE_ONLY)


def balancer_of(descheduler: Descheduler, named: str = "") -> Profile | None:
    """A profile with LowNodeUtilization alone; None if no profile has it, an error if many do.

    `named` is the only profile to look at, unless empty.
    """
    balancers = [
        Profile(name=profile.name, balance=(instance,))
        for profile in descheduler.profiles
        for instance in profile.balance
        if instance.name == BALANCER and named in ("", profile.name)
    ]
    if len(balancers) > 1:
        names = list_names(profile.name for profile in balancers)
        raise PolicyError(
            f"the profiles {names} each balance with {BALANCER}, and nodes can be tainted by the "
            "thresholds of one; name it as `softTaints.profile` in a `resettle/v1` policy"
        )
    return balancers[0] if balancers else None


# -- one pass --------------------------------------------------------------------------------------


class ReconcileResult(Struct, frozen=True, kw_only=True):
    """What a pass wanted, and what it wrote."""

    desired: NodeTaints
    """What every node should have; in a dry run, would."""
    results: Sequence[PatchResult]

    @property
    def complete(self) -> bool:
        """Whether every node has what it should have now, as far as the mode allows."""
        incomplete = (WriteResult.FAILED, WriteResult.UNSENT)
        return all(written.result not in incomplete for written in self.results)


def desired_taints(task: Task, view: View) -> NodeTaints:
    """What every node should have by the task, whether it is written or not."""
    if task.mode is Mode.REMOVE_ONLY:
        return no_taints(view, "all are to be removed")
    if task.thresholds is None:
        return no_taints(view, "the policy does not balance nodes by their use")
    nodes = NodeBands(task.thresholds, view)
    return taints_for_bands(view, nodes.bands, nodes.usage, task.scheme)


async def reconcile(
    task: Task, snapshot: Snapshot, writer: TaintWriter, elapsed: Callable[[], float], log: Log
) -> ReconcileResult:
    """Run one pass and return its result; `elapsed` gives the seconds it has taken so far."""
    view = task.measuring.view(snapshot)
    desired = to_write = desired_taints(task, view)
    if task.mode is Mode.DRY_RUN:
        _log_dry_run(desired, log)
        to_write = no_taints(view, "a dry run sets none")
    results = await apply_patches(writer, patches_for(snapshot, to_write, task.ours))
    for written in results:
        _log_write(written, log)
    _log_unknown(desired, log)
    _log_summary(desired, results, elapsed(), log)
    return ReconcileResult(desired=desired, results=results)


class SimulatedTainter(Struct, frozen=True):
    """A tainter for simulations: it decides as the real one does, and writes nothing."""

    task: Task

    def tainted_nodes(self, snapshot: Snapshot) -> Iterator[Node]:
        """The nodes that would be written, as they would be then; none where usage is missing."""
        view = self.task.measuring.view(snapshot)
        try:
            desired = desired_taints(self.task, view)
        except UsageMissingError:
            return
        for patch in patches_for(snapshot, desired, self.task.ours):
            if node := snapshot.node_index.get(patch.node):
                others = [taint for taint in node.taints if taint not in patch.before]
                yield structs.replace(node, taints=(*others, *patch.wanted))

    def own_taints(self, node: Node) -> tuple[Taint, ...]:
        """Our taints on a node."""
        return self.task.ours.on(node)


# -- the log ---------------------------------------------------------------------------------------


def _log_dry_run(desired: NodeTaints, log: Log) -> None:
    """Log which taints would be set."""
    for name, wanted in desired.items():
        if wanted.taints:
            log.info("would taint", node=name, taints=_texts(wanted.taints), reason=wanted.because)


def _log_write(written: PatchResult, log: Log) -> None:
    """Log what was written to one node, or that it failed."""
    patch = written.patch
    match written.result:
        case WriteResult.WRITTEN:
            log.info(
                "tainted" if patch.wanted else "untainted",
                node=patch.node,
                set=_texts(patch.added) or None,
                removed=_texts(patch.removed) or None,
                reason=patch.because,
            )
        case WriteResult.FAILED:
            log.warning("not tainted", node=patch.node, reason=written.says)


def _log_unknown(desired: NodeTaints, log: Log) -> None:
    """Log which nodes keep their taints because their usage is unknown; once, until it changes."""
    unknown = {name: wanted for name, wanted in desired.items() if wanted.problem}
    for name, wanted in unknown.items():
        log.debug("node usage unknown", node=name, reason=wanted.because)
    if not unknown:
        log.forget("doubt")
        return
    log.only_when_new("doubt").warning(
        "taints kept as they are",
        nodes=list(unknown)[:_NAMED],
        and_more=max(0, len(unknown) - _NAMED) or None,
        reason=sorted({wanted.problem for wanted in unknown.values()}),
    )


def _log_summary(
    desired: NodeTaints, results: Sequence[PatchResult], took: float, log: Log
) -> None:
    """Log one line for the whole pass."""
    counts = Counter(written.result for written in results)
    unsent = (
        written.says for written in results if written.result is WriteResult.UNSENT and written.says
    )
    log.info(
        "round done",
        nodes=len(desired),
        marked=sum(bool(wanted.taints) for wanted in desired.values()),
        in_doubt=sum(bool(wanted.problem) for wanted in desired.values()) or None,
        written=counts[WriteResult.WRITTEN],
        failed=counts[WriteResult.FAILED] or None,
        unsent=counts[WriteResult.UNSENT] or None,
        cut_short=next(unsent, None),
        took=took,
    )


def _texts(taints: Iterable[Taint]) -> list[str]:
    return [str(taint) for taint in taints]
