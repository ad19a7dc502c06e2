"""A kubelet for some pods: runs their containers, stops deleted ones, refreshes their volumes.

KWOK writes the status of these pods to the API server; this runs them.
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
from tests.e2e.kubelet.sandbox import forward
from tools.control_plane.api import Api, Object
from tools.control_plane.papers import QUIET
from tools.control_plane.plane import Access

PAUSE_SECONDS = 0.1


class Kubelet:
    """Runs the pods that a selector matches, on whichever node they are, while its block lasts."""

    def __init__(self, plane: Access, selector: str) -> None:
        self._pods = f"/api/v1/pods?labelSelector={quote(selector)}"
        self._api: Api = plane.api(QUIET)
        # The path of a socket must be short.
        self._folder = Path(tempfile.mkdtemp(prefix="resettle-pods-"))
        self._folder.chmod(0o755)
        self._outbound = socket.socket(socket.AF_UNIX)
        self.containers: dict[str, Container] = {}
        """All containers that were started, by the uid of their pod."""
        self._stopped = threading.Event()
        self._error: Exception | None = None
        self._threads = [
            threading.Thread(target=self._forward_to_api, daemon=True),
            threading.Thread(target=self._run, daemon=True),
        ]

    def __enter__(self) -> Kubelet:
        self._outbound.bind(str(self._folder / "out"))
        self._outbound.listen()
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._stopped.set()
        self._threads[1].join(30)
        for container in self.containers.values():
            container.close()
        self._outbound.shutdown(socket.SHUT_RDWR)
        self._threads[0].join(30)
        self._outbound.close()
        self._api.close()
        shutil.rmtree(self._folder, ignore_errors=True)

    def container(self, number: int = 1) -> Container:
        """The container that was started first, second and so on; waits for it."""

        def check_started() -> list[Container]:
            self.check()
            return list(self.containers.values())[number - 1 : number]

        (container,) = eventually(f"pod number {number}", check_started)
        container.check()
        return container

    @property
    def running(self) -> list[Container]:
        """The containers that have not ended."""
        return [container for container in self.containers.values() if not container.has_ended]

    def check(self) -> None:
        """Raises the error of the background thread, if there is one."""
        if self._error is not None:
            raise self._error

    def _run(self) -> None:
        while not self._stopped.wait(PAUSE_SECONDS):
            try:
                self._sync()
            except Exception as error:  # `check` raises it in the test
                self._error = error
                return

    def _sync(self) -> None:
        pods = {pod["metadata"]["uid"]: pod for pod in self._api.items(self._pods)}
        for uid, pod in pods.items():
            if uid not in self.containers and _is_scheduled(pod):
                folder = self._folder / str(len(self.containers))
                folder.mkdir()
                self.containers[uid] = Container(self._api, pod, self._folder / "out", folder)
        for uid, container in self.containers.items():
            if uid not in pods or "deletionTimestamp" in pods[uid]["metadata"]:
                container.terminate()
            elif not container.has_ended:
                container.volumes.refresh()

    def _forward_to_api(self) -> None:
        address = urlsplit(self._api.url)

        def to_api() -> socket.socket:
            return socket.create_connection((str(address.hostname), int(address.port or 443)))

        forward(self._outbound, to_api)


def _is_scheduled(pod: Object) -> bool:
    return "nodeName" in pod["spec"] and "deletionTimestamp" not in pod["metadata"]
