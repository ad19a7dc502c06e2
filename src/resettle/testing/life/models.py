"""Objects of a sight as the planner knows them; one that has not changed is decoded once."""

from __future__ import annotations

from typing import Any

import msgspec

from resettle.model.decode import Decoder
from resettle.model.fleet import Fleet
from resettle.model.kinds import KINDS
from resettle.model.snapshot import Snapshot
from resettle.testing.life.sight import Sight
from resettle.testing.objects import Object


class Models:
    """What has been decoded so far, by kind and uid."""

    def __init__(self) -> None:
        decoder = Decoder()
        self._convert = {name: kind.converter(decoder) for name, kind in KINDS.items()}
        self._wire = {name: msgspec.json.Decoder(kind.struct) for name, kind in KINDS.items()}
        self._known: dict[str, dict[str, tuple[str, Any]]] = {kind: {} for kind in KINDS}

    def of(self, obj: Object) -> Any:
        """The object as the planner knows it."""
        kind = obj["kind"]
        return self._convert[kind](self._wire[kind].decode(msgspec.json.encode(obj)))

    def all(self, kind: str, seen: Sight) -> list[Any]:
        """All objects of a kind, in order."""
        before, now = self._known[kind], {}
        for obj in seen.all(kind):
            uid, version = obj["metadata"]["uid"], obj["metadata"].get("resourceVersion", "")
            known = before.get(uid)
            fresh = known is None or not version or known[0] != version
            now[uid] = (version, self.of(obj)) if known is None or fresh else known
        self._known[kind] = now
        return [model for _, model in now.values()]

    def fleet(self, seen: Sight) -> Fleet:
        """The nodes."""
        return Fleet(self.all("Node", seen))

    def snapshot(self, seen: Sight) -> Snapshot:
        """The cluster as a planner would be given it."""
        objects: dict[str, Any] = {kind.field: self.all(name, seen) for name, kind in KINDS.items()}
        return Snapshot.of(taken_at=seen.now, **objects)
