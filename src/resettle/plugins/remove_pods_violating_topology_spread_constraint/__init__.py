"""RemovePodsViolatingTopologySpreadConstraint: evens out domains that differ by more than maxSkew.

`plugin` follows upstream's `balanceDomains`, `improved` moves pods of all constraints together, as
`resettle/v1` does. Start with `plugin`.
"""

from resettle.plugins.remove_pods_violating_topology_spread_constraint.plugin import PLUGIN

__all__ = ["PLUGIN"]
