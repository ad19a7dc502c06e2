"""A test API server with controllers, and short ways to look at it."""

from __future__ import annotations

from datetime import timedelta

from resettle.testing import ApiServer, ManualClock, NodeBuilder
from resettle.testing.builders import Object
from resettle.testing.controllers import ControllerLoop, Durations


class Living:
    """A store, its life and its clock."""

    def __init__(self, *parts: NodeBuilder | Object, pace: Durations | None = None) -> None:
        objects: list[Object] = []
        for part in parts:
            objects += [part.node, *part.pods] if isinstance(part, NodeBuilder) else [part]
        self.clock = ManualClock()
        self.store = ApiServer(objects, clock=self.clock).store
        self.life = ControllerLoop(self.store, self.clock, pace)

    def after(self, seconds: float) -> Living:
        """The same cluster, so much later."""
        self.life.pass_time(timedelta(seconds=seconds))
        return self

    @property
    def pods(self) -> dict[str, Object]:
        """All pods by name."""
        return {pod["metadata"]["name"]: pod for pod in self.store.list("Pod")}

    @property
    def nodes(self) -> list[str]:
        """The nodes of all pods, sorted; a pod without one counts as `-`."""
        return sorted(pod["spec"].get("nodeName", "-") for pod in self.pods.values())

    @property
    def phases(self) -> list[str]:
        """The phases of all pods, sorted."""
        return sorted(pod["status"]["phase"] for pod in self.pods.values())

    def apps(self) -> dict[str, int]:
        """How many pods each workload has that are not leaving."""
        counts: dict[str, int] = {}
        for pod in self.pods.values():
            if not pod["metadata"].get("deletionTimestamp"):
                app = pod["metadata"]["labels"]["app"]
                counts[app] = counts.get(app, 0) + 1
        return counts


def uids(living: Living) -> set[str]:
    """The uids of all pods."""
    return {pod["metadata"]["uid"] for pod in living.pods.values()}


def condition(obj: Object, name: str) -> Object:
    """One condition of an object, or nothing."""
    matching = (item for item in obj["status"].get("conditions") or () if item["type"] == name)
    return next(matching, {})
