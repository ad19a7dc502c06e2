"""RemovePodsViolatingInterPodAntiAffinity: evicts pods that share a domain against their rules.

`plugin` is the strategy, `conflicts` finds the smallest set of pods that must leave for no rule to
be violated. Start with `plugin`.
"""

from resettle.plugins.remove_pods_violating_inter_pod_anti_affinity.plugin import PLUGIN

__all__ = ["PLUGIN"]
