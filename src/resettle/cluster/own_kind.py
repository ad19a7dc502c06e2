"""Objects of a kind that a plugin brought: held here, since a snapshot has them only in a row."""

from __future__ import annotations

from typing import Any

import msgspec

from resettle.cluster.shelf import Places


class OwnKind:
    """All objects of one such kind, as of the last snapshot."""

    def __init__(self) -> None:
        self._things: Places[Any] = {}

    def get(self, namespace: str, name: str) -> Any | None:
        """The object of this name, if there is one."""
        return self._things.get(namespace, {}).get(name)

    def after(self, taken: Places[Any | None]) -> tuple[Any, ...]:
        """All objects once these have come or changed, or gone where there is None; in order."""
        for namespace, things in taken.items():
            here = self._things.setdefault(namespace, {})
            for name, thing in things.items():
                if thing is None:
                    here.pop(name, None)
                else:
                    here[name] = thing
        everything = (thing for things in self._things.values() for thing in things.values())
        return tuple(sorted(everything, key=msgspec.json.encode))
