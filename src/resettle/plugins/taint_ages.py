"""How long a taint has been on its node, where the API often does not say."""

from __future__ import annotations

from datetime import datetime, timedelta

from resettle.framework.view import View
from resettle.model.node import Node
from resettle.model.taint import Taint

FirstMet = dict[str, dict[str, str]]
"""By node and taint the time of the cycle that first met it; empty for what was always there."""


class TaintAges:
    """The age of each taint, by the API's word or else by when it was first met.

    What was there in the first cycle counts as old, and so does everything in a plan that knows of
    no cycle before it.
    """

    def __init__(self, view: View, known: FirstMet | None) -> None:
        self._now = view.taken_at
        met = "" if known is None else self._now.isoformat()
        earlier = known or {}
        self.first_met: FirstMet = {
            node.name: {
                str(taint): earlier.get(node.name, {}).get(str(taint), met)
                for taint in node.taints
                if taint not in node.tainted_at
            }
            for node in view.fleet
            if len(node.taints) > len(node.tainted_at)
        }

    def of(self, taint: Taint, node: Node) -> timedelta | None:
        """The age of a taint of the node; None when it is as old as anybody remembers."""
        since = node.tainted_at.get(taint)
        if since is None and (met := self.first_met[node.name][str(taint)]):
            since = datetime.fromisoformat(met)
        return None if since is None else self._now - since
