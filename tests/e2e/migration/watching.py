"""Watches of objects beside a test, so that no state is missed between two looks."""

from __future__ import annotations

import http.client
import json
import socket
import ssl
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from types import TracebackType
from typing import Self
from urllib.parse import urlsplit

from tests.e2e.cluster.workspace import is_ready
from tools.control_plane.api import Api, Object

Objects = Mapping[str, Object]
"""Objects by uid."""


class ObjectWatch:
    """Every version that each object of a list has had while the block lasts."""

    def __init__(self, api: Api, path: str) -> None:
        self._api, self._path = api, path
        self._objects: dict[str, Object] = {}
        self._versions: list[Object] = []
        self._lock = threading.Lock()
        tls = ssl.create_default_context(cafile=str(api.ca))
        self._connection = http.client.HTTPSConnection(urlsplit(api.url).netloc, context=tls)
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._stopping = False
        self.error: Exception | None = None

    def __enter__(self) -> Self:
        listed = self._api.get(self._path).granted()
        self._objects = {item["metadata"]["uid"]: item for item in listed["items"]}
        self._note_change(self._objects)
        since = listed["metadata"]["resourceVersion"]
        self._connection.request(
            "GET",
            f"{self._path}?watch=true&resourceVersion={since}&timeoutSeconds=3600",
            headers={"Authorization": f"Bearer {self._api.token}"},
        )
        self._response = self._connection.getresponse()
        assert self._response.status == 200, self._response.read()
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._stopping = True
        with suppress(OSError):
            if self._connection.sock is not None:
                self._connection.sock.shutdown(socket.SHUT_RDWR)
        self._thread.join(10)
        self._connection.close()
        if kind is None:
            assert self.error is None, f"the watch of {self._path} ended: {self.error}"

    def _read(self) -> None:
        try:
            for line in self._response:
                event = json.loads(line)
                kind, changed = event["type"], event["object"]
                assert kind in ("ADDED", "MODIFIED", "DELETED"), event
                if kind == "DELETED":
                    self._objects.pop(changed["metadata"]["uid"], None)
                else:
                    self._objects[changed["metadata"]["uid"]] = changed
                with self._lock:
                    self._versions.append(changed | {"event": kind})
                self._note_change(self._objects)
        except Exception as error:
            if not self._stopping:
                self.error = error

    def _note_change(self, objects: Objects) -> None:
        """Called with the objects as they were listed, and after each change of one of them."""

    @property
    def versions(self) -> list[Object]:
        """All versions since the list, oldest first; `event` says how each came about."""
        with self._lock:
            return list(self._versions)


class FewestServing(ObjectWatch):
    """The smallest number of pods in a namespace that were Ready and staying at the same time."""

    def __init__(self, api: Api, namespace: str) -> None:
        super().__init__(api, f"/api/v1/namespaces/{namespace}/pods")
        self.fewest = 2**31

    def _note_change(self, objects: Objects) -> None:
        serving = [
            pod
            for pod in objects.values()
            if is_ready(pod) and "deletionTimestamp" not in pod["metadata"]
        ]
        self.fewest = min(self.fewest, len(serving))


class JobStatuses(ObjectWatch):
    """The last status of each job, by name; waiting for one costs no requests."""

    def __init__(self, api: Api, jobs_path: str) -> None:
        super().__init__(api, jobs_path)
        self._statuses: dict[str, Object] = {}
        self._changed = threading.Condition()

    def _note_change(self, objects: Objects) -> None:
        with self._changed:
            for job in list(objects.values()):
                self._statuses[job["metadata"]["name"]] = job.get("status") or {}
            self._changed.notify_all()

    def wait(
        self, name: str, what: str, check: Callable[[Object], object], seconds: float
    ) -> Object:
        """The status of the job once it passes the check; fails with it after so many seconds."""
        with self._changed:
            passed = self._changed.wait_for(
                lambda: bool(check(self._statuses.get(name, {}))), seconds
            )
            status = self._statuses.get(name, {})
        assert passed, f"{what} for {name}: not seen within {seconds:g} s; {json.dumps(status)}"
        return status

    def status(self, name: str) -> Object:
        """The last status of the job; empty if it has none yet."""
        with self._changed:
            return self._statuses.get(name, {})


class MostRunning(ObjectWatch):
    """The largest number of jobs that were Running at the same time."""

    def __init__(self, api: Api, jobs_path: str) -> None:
        super().__init__(api, jobs_path)
        self.most = 0
        self.at_most: list[Object] = []
        """The statuses of the jobs when most were Running, for the message of a failing test."""

    def _note_change(self, objects: Objects) -> None:
        statuses = [job.get("status") or {} for job in objects.values()]
        running = [status for status in statuses if status.get("phase") == "Running"]
        if len(running) > self.most:
            self.most, self.at_most = len(running), running
