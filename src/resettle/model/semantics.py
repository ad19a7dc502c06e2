"""How decisions are made: as kubernetes-sigs/descheduler ("upstream") makes them, or improved.

Each flag names one behaviour of upstream. A `descheduler/*` policy is read with all of them, a
`resettle/v1` policy with none. Code checks the flag where the two differ, never the apiVersion.
"""

from __future__ import annotations

from msgspec import Struct


class Semantics(Struct, frozen=True, kw_only=True):
    """The behaviours of upstream that are kept; none by default."""

    repeat_spends_limits: bool = False
    """A pod proposed again after its admission counts again towards the limits.

    It is never moved twice; upstream spends its limits on the second request too, so without the
    flag a policy would evict pods that upstream does not reach.
    """
    weak_fit: bool = False
    """A node fits by labels, taints, resources and the pod's own anti-affinity on that one node.

    Without it every filter of kube-scheduler applies that the snapshot has data for: volumes, host
    ports, spread, affinity both ways over whole domains.
    """
    moves_take_no_place: bool = False
    """Free resources are those before the plan, so many pods may count on one node."""
    moves_without_gain: bool = False
    """A plugin's move needs no node that is better by the plugin's own measure."""
    important_pods_spread_first: bool = False
    """Topology spread takes the pods of highest priority first."""
    spread_sees_only_evictable: bool = False
    """Topology spread counts only pods that could be evicted, unlike the scheduler."""
    spread_rule_by_rule: bool = False
    """Each spread constraint is balanced separately, `minDomains` is not read, domains of excluded
    nodes count, and pods that cannot move count as moved."""
    spread_moves_strangers: bool = False
    """Topology spread moves pods that match a constraint but have none themselves."""
    one_sided_anti_affinity: bool = False
    """Only the pod with the anti-affinity is evicted, whichever of the two is more important; pods
    are compared by name only, and namespace selectors are not read."""
    tolerations_counted: bool = False
    """A destination needs at least as many tolerations as it has taints, the soft ones too."""
    bystanders_moved: bool = False
    """Balancing moves pods that request nothing of the resources with thresholds."""
    figures_judged_together: bool = False
    """Samples are valid for all nodes or for none, and of two for one node the later counts."""
    control_plane_balanced: bool = False
    """Load is moved from and to nodes of the control plane too."""
    preference_beyond_reach: bool = False
    """A preferred node is a reason to evict even if it cannot take the pod."""
    replicas_counted_loosely: bool = False
    """`minReplicas` counts finished and terminating pods and is not reduced by the plan itself."""
    copies_compared_by_spelling: bool = False
    """Copies with the same affinity terms in another order count as different, an invalid affinity
    matches every node, and cordoned nodes count as nodes for copies."""
    ephemeral_claims_unseen: bool = False
    """Generic ephemeral volumes do not count as volume claims."""
    any_evict_annotation: bool = False
    """The evict annotation opts in whatever its value, `"false"` included."""
    permissive_defaults: bool = False
    """Settings that a policy leaves out restrict nothing: no fit check, no minimum age, no minimum
    of replicas, no limit by percentage, every taint a reason to evict."""


IMPROVED = Semantics()
PARITY = Semantics(**dict.fromkeys(Semantics.__struct_fields__, True))
