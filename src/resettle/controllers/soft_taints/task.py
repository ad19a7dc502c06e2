"""What the tainter is to see to, as a policy and its flags say."""

from __future__ import annotations

from enum import StrEnum

from msgspec import Struct, structs

from resettle.controllers.soft_taints.scheme import EVERYWHERE, Ours, Scheme
from resettle.errors import PolicyError
from resettle.framework.descheduler import Descheduler
from resettle.framework.profile import Profile
from resettle.plugins.low_node_utilization import Args
from resettle.policy.hints import listed
from resettle.policy.soft_taints import BALANCER, SoftTaints

EVERY_KIND = frozenset({"Node", "Pod"})
"""What any policy can have it read."""


class Mode(StrEnum):
    """What may be written."""

    TAINT = "taint"
    DRY_RUN = "dry-run"
    """Nothing is set, and what is there from before is removed: a taint steers, dry run or not."""
    REMOVE_ONLY = "remove-only"


class Task(Struct, frozen=True, kw_only=True):
    """What is to be seen to, round after round."""

    scheme: Scheme
    ours: Ours
    """The taints that are ours to remove."""
    mode: Mode = Mode.TAINT
    sight: Descheduler = Descheduler(profiles=())
    """How full nodes are by the policy, and no more: one plugin, its source of usage, its nodes."""

    @property
    def thresholds(self) -> Args | None:
        """How full a node may be; None where nothing says so, and none is tainted."""
        args = (one.args for profile in self.sight.profiles for one in profile.balance)
        return next((it for it in args if isinstance(it, Args)), None)

    @property
    def kinds(self) -> frozenset[str]:
        """All that has to be watched; pods only where their number or their requests count."""
        args = self.thresholds
        if args is None or (args.metrics_utilization and "pods" not in args.thresholds):
            return frozenset({"Node"})
        return EVERY_KIND


def task_of(descheduler: Descheduler, mode: Mode) -> Task:
    """What a policy has the tainter do, put together as a descheduler would be."""
    settings = descheduler.soft_taints
    if mode is Mode.REMOVE_ONLY:
        return clean_up(settings.domain)
    scheme = Scheme(settings)
    balancer = balancer_of(descheduler, settings.profile)
    sight = structs.replace(descheduler, profiles=(balancer,) if balancer else ())
    return Task(scheme=scheme, ours=scheme.ours, mode=mode, sight=sight)


def clean_up(*prefixes: str) -> Task:
    """Removing all of our taints everywhere, under these prefixes and those of both styles."""
    return Task(scheme=Scheme(SoftTaints()), ours=EVERYWHERE.also(prefixes), mode=Mode.REMOVE_ONLY)


def balancer_of(descheduler: Descheduler, named: str = "") -> Profile | None:
    """A profile of LowNodeUtilization alone; None where there is none, an error where many have it.

    `named` is the profile to look at, if one is named.
    """
    found = [
        Profile(name=profile.name, balance=(instance,))
        for profile in descheduler.profiles
        for instance in profile.balance
        if instance.name == BALANCER and named in ("", profile.name)
    ]
    if len(found) > 1:
        names = listed(profile.name for profile in found)
        raise PolicyError(
            f"the profiles {names} each balance with {BALANCER}, and nodes can be tainted by the "
            "thresholds of one; name it as `softTaints.profile` in a `resettle/v1` policy"
        )
    return found[0] if found else None
