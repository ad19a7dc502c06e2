"""A kubelet for some pods: runs what they say, stops what is deleted, renews what is mounted.

KWOK tells the API server how such pods are doing; this runs them.
"""

from __future__ import annotations

import shutil
import socket
import tempfile
import threading
from pathlib import Path
from types import TracebackType
from urllib.parse import quote, urlsplit

from tests.e2e.cluster.workspace import eventually
from tests.e2e.kubelet.containers import Container
from tests.e2e.kubelet.sandbox import relay
from tools.control_plane.api import Api, Object
from tools.control_plane.papers import QUIET
from tools.control_plane.plane import Access

PAUSE_SECONDS = 0.1


class Kubelet:
    """Runs the pods that a selector chooses, wherever they were placed, while its block lasts."""

    def __init__(self, plane: Access, selector: str) -> None:
        self._pods = f"/api/v1/pods?labelSelector={quote(selector)}"
        self._api: Api = plane.api(QUIET)
        # Short, since the name of a socket must be.
        self._folder = Path(tempfile.mkdtemp(prefix="resettle-pods-"))
        self._folder.chmod(0o755)
        self._way_out = socket.socket(socket.AF_UNIX)
        self.containers: dict[str, Container] = {}
        """Those that were ever started, by the uid of their pod."""
        self._done = threading.Event()
        self._trouble: Exception | None = None
        self._threads = [
            threading.Thread(target=self._hand_on, daemon=True),
            threading.Thread(target=self._work, daemon=True),
        ]

    def __enter__(self) -> Kubelet:
        self._way_out.bind(str(self._folder / "out"))
        self._way_out.listen()
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._done.set()
        self._threads[1].join(30)
        for container in self.containers.values():
            container.close()
        self._way_out.shutdown(socket.SHUT_RDWR)
        self._threads[0].join(30)
        self._way_out.close()
        self._api.close()
        shutil.rmtree(self._folder, ignore_errors=True)

    def container(self, number: int = 1) -> Container:
        """The container that was started as the first, the second and so on."""

        def seen() -> list[Container]:
            self.check()
            return list(self.containers.values())[number - 1 : number]

        (found,) = eventually(f"pod number {number}", seen)
        found.check()
        return found

    @property
    def running(self) -> list[Container]:
        """Those that have not ended."""
        return [it for it in self.containers.values() if not it.over]

    def check(self) -> None:
        """Raises what went wrong in the background."""
        if self._trouble is not None:
            raise self._trouble

    def _work(self) -> None:
        while not self._done.wait(PAUSE_SECONDS):
            try:
                self._look()
            except Exception as trouble:  # told to the test, which waits for something else
                self._trouble = trouble
                return

    def _look(self) -> None:
        pods = {it["metadata"]["uid"]: it for it in self._api.items(self._pods)}
        for uid, pod in pods.items():
            if uid not in self.containers and _placed(pod):
                folder = self._folder / str(len(self.containers))
                folder.mkdir()
                self.containers[uid] = Container(self._api, pod, self._folder / "out", folder)
        for uid, container in self.containers.items():
            if uid not in pods or "deletionTimestamp" in pods[uid]["metadata"]:
                container.terminate()
            elif not container.over:
                container.volumes.refresh()

    def _hand_on(self) -> None:
        address = urlsplit(self._api.url)

        def to_api() -> socket.socket:
            return socket.create_connection((str(address.hostname), int(address.port or 443)))

        relay(self._way_out, to_api)


def _placed(pod: Object) -> bool:
    return "nodeName" in pod["spec"] and "deletionTimestamp" not in pod["metadata"]
