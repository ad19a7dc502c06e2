"""Where snapshots come from: dumps of a cluster today."""

from resettle.cluster.dump import Dump

__all__ = ["Dump"]
