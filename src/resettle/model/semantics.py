"""How decisions are read: as kubernetes-sigs/descheduler makes them, or improved.

Each flag names one habit of the peer. A policy of the peer is read with all of them; `resettle/v1`
has none. What decides asks the flag where the two part, never which apiVersion a policy had.
"""

from __future__ import annotations

from msgspec import Struct


class Semantics(Struct, frozen=True, kw_only=True):
    """The peer's habits that are kept; none by default."""

    repeat_spends_limits: bool = False
    """A pod proposed again after its admission counts again towards the limits.

    It never moves twice; in the peer the second request uses up room that other pods could have
    had, so without the flag a policy would move pods there that the peer spares.
    """
    weak_fit: bool = False
    """A node fits by labels, taints, room and the pod's own anti-affinity on that one node.

    Without it every filter of kube-scheduler is asked that the snapshot can answer for: volumes,
    host ports, spread, affinity both ways over whole domains.
    """
    moves_take_no_place: bool = False
    """Room is judged as if nothing had been planned yet, so many pods may count on one place."""
    moves_without_gain: bool = False
    """A plugin's move needs no node that is better by the plugin's own measure."""
    important_pods_spread_first: bool = False
    """Topology spread takes the pods of highest priority first."""
    spread_sees_only_evictable: bool = False
    """Topology spread counts only pods that could be evicted, unlike the scheduler."""
    spread_rule_by_rule: bool = False
    """Each spread constraint is solved for itself, `minDomains` is not read, domains of excluded
    nodes count, and pods that cannot move count as moved."""
    spread_moves_strangers: bool = False
    """Topology spread moves pods that match a constraint but state none."""
    one_sided_anti_affinity: bool = False
    """Anti-affinity goes by the pod that states it, told by name alone, no namespace selectors;
    that pod leaves, whichever of the two matters more."""
    tolerations_counted: bool = False
    """A destination needs at least as many tolerations as it has taints, the soft ones too."""
    bystanders_moved: bool = False
    """Balancing moves pods that use nothing of what the thresholds are about."""
    figures_judged_together: bool = False
    """Measured figures are good for all nodes or for none, and of two for one node the later
    counts."""
    control_plane_balanced: bool = False
    """Nodes of the control plane count as nodes that load is moved from and to."""
    preference_beyond_reach: bool = False
    """A preferred node is a reason to leave even if it cannot take the pod."""
    replicas_counted_loosely: bool = False
    """`minReplicas` counts finished and terminating pods and is not reduced by the plan itself."""
    copies_told_by_spelling: bool = False
    """Copies whose affinity terms stand in another order differ in their wishes, an affinity that
    cannot be read suits every node, and cordoned nodes count as places for copies."""
    ephemeral_claims_unseen: bool = False
    """Generic ephemeral volumes are not seen as volume claims."""
    any_evict_annotation: bool = False
    """The evict annotation opts in whatever its value, `"false"` included."""
    permissive_defaults: bool = False
    """What a policy leaves unsaid is permitted: no fit check, no minimum age, no minimum of
    replicas, no share as limit, every taint a reason to leave."""


IMPROVED = Semantics()
PARITY = Semantics(**dict.fromkeys(Semantics.__struct_fields__, True))
