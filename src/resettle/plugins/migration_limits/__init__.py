"""MigrationLimits: the filter that limits how many pods are on their way at the same time.

`args` is what an operator may write, `rules` has the rules in their order and why each refuses a
pod, `workload_limits` the arithmetic of one workload, `plugin` declares the plugin, `settings` says
which change of an argument would let a pod go (for `explain`). Start with `rules`.
"""

from resettle.plugins.migration_limits.plugin import PLUGIN

__all__ = ["PLUGIN"]
