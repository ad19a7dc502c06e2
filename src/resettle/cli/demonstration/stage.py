"""Where the story plays: a pocket API server on loopback, its life, and a clock wound by hand."""

from __future__ import annotations

import tempfile
from collections.abc import Iterable
from datetime import timedelta
from pathlib import Path
from types import TracebackType

from resettle.cluster.kubeconfig import Access, read_kubeconfig
from resettle.testing.life import Life
from resettle.testing.objects import Object
from resettle.testing.pocket import HandClock, PocketServer, Store


class Stage:
    """A cluster that lives while the block lasts; the way in is a kubeconfig, as ever."""

    def __init__(self, objects: Iterable[Object]) -> None:
        self.clock = HandClock()
        self._pocket = PocketServer(objects, clock=self.clock)
        self.life = Life(self.store, self.clock)
        # Old enough for every pod to have come of age.
        self.life.pass_time(timedelta(hours=1))
        self.access: Access

    @property
    def store(self) -> Store:
        """What the cluster holds."""
        return self._pocket.store

    def __enter__(self) -> Stage:
        self._pocket.__enter__()
        with tempfile.TemporaryDirectory() as folder:
            file = self._pocket.kubeconfig(Path(folder) / "config")
            self.access = read_kubeconfig(str(file))
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._pocket.__exit__(kind, error, trace)
        self.life.close()
