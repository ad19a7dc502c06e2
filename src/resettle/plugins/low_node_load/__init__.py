"""LowNodeLoad: moves pods off nodes whose measured load stays high (Koordinator's plugin).

`args` has the node pools, thresholds and anomaly conditions, `plugin` finds the hot nodes over
several cycles, `hot_nodes` chooses the pods that leave them. Start with `plugin`.
"""

from resettle.plugins.low_node_load.plugin import PLUGIN

__all__ = ["PLUGIN"]
