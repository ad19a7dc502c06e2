"""DefaultEvictor: the filter that decides which pods may be evicted at all.

`args` is what an operator may write, `rules` has the rules in their order and why each refuses a
pod, `plugin` declares the plugin, `settings` says which change of an argument would let a pod go
(for `explain`). Start with `rules`.
"""

from resettle.plugins.default_evictor.plugin import PLUGIN

__all__ = ["PLUGIN"]
