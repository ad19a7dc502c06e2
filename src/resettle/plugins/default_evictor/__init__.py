"""DefaultEvictor: the filter that decides which pods may be evicted at all.

`args` is what an operator may write, `plugin` the ordered rules, `settings` which change of an
argument would let a pod go (for `explain`). Start with `plugin`.
"""

from resettle.plugins.default_evictor.plugin import PLUGIN

__all__ = ["PLUGIN"]
