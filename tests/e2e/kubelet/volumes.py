"""The volumes of a pod, written as a kubelet does, and again when their sources change."""

from __future__ import annotations

import base64
from collections.abc import Iterator, Mapping
from itertools import count
from pathlib import Path

from tools.control_plane.api import Api, Object

Files = dict[str, bytes]
TOKEN_SECONDS = 3607
"""The lifetime that a kubelet requests for a token."""


class Volumes:
    """The volumes of one pod, each a folder."""

    def __init__(self, api: Api, pod: Object, folder: Path) -> None:
        self._api, self._pod, self._folder = api, pod, folder
        self._written: dict[str, Files] = {}
        self._versions = count(1)
        self._token = b""

    def mounts(self, container: Object) -> dict[str, str]:
        """The folder for each mount path of the container."""
        self.refresh()
        return {
            mount["mountPath"]: str(self._folder / mount["name"])
            for mount in container.get("volumeMounts") or ()
        }

    def refresh(self) -> None:
        """Writes the volumes that have changed, each in one atomic step."""
        for volume in self._pod["spec"].get("volumes") or ():
            files = dict(self._content(volume))
            if self._written.get(volume["name"]) != files:
                self._write(self._folder / volume["name"], files)
                self._written[volume["name"]] = files

    def _write(self, folder: Path, files: Files) -> None:
        version = folder / f"..{next(self._versions)}"
        version.mkdir(parents=True)
        for name, content in files.items():
            (version / name).write_bytes(content)
            if not (folder / name).is_symlink():
                (folder / name).symlink_to(f"..data/{name}")
        (folder / "..new").symlink_to(version.name)
        (folder / "..new").rename(folder / "..data")

    def _content(self, volume: Object) -> Iterator[tuple[str, bytes]]:
        for source in volume.get("projected", {}).get("sources", ()):
            yield from self._content(source)
        if "configMap" in volume:
            data = self._read("configmaps", volume["configMap"])
            yield from (
                (name, text.encode()) for name, text in _selected_files(data, volume["configMap"])
            )
        if "secret" in volume:
            named = {"name": volume["secret"].get("secretName"), **volume["secret"]}
            data = self._read("secrets", named)
            yield from (
                (name, base64.b64decode(value)) for name, value in _selected_files(data, named)
            )
        if "downwardAPI" in volume:
            for item in volume["downwardAPI"]["items"]:
                yield item["path"], field_value(self._pod, item["fieldRef"]["fieldPath"]).encode()
        if "serviceAccountToken" in volume:
            yield volume["serviceAccountToken"]["path"], self._account_token()

    def _read(self, kind: str, source: Object) -> Mapping[str, str]:
        namespace = self._pod["metadata"]["namespace"]
        path = f"/api/v1/namespaces/{namespace}/{kind}/{source['name']}"
        data: Mapping[str, str] = self._api.get(path).granted().get("data") or {}
        return data

    def _account_token(self) -> bytes:
        """The token of the pod's ServiceAccount, requested once."""
        if not self._token:
            namespace = self._pod["metadata"]["namespace"]
            account = self._pod["spec"]["serviceAccountName"]
            path = f"/api/v1/namespaces/{namespace}/serviceaccounts/{account}/token"
            request = {"spec": {"expirationSeconds": TOKEN_SECONDS}}
            self._token = self._api.post(path, request).granted()["status"]["token"].encode()
        return self._token


def _selected_files(data: Mapping[str, str], source: Object) -> Iterator[tuple[str, str]]:
    """The files that `items` names, or all."""
    if "items" in source:
        yield from ((item["path"], data[item["key"]]) for item in source["items"])
    else:
        yield from data.items()


def field_value(pod: Object, path: str) -> str:
    """The value of a field of the pod, for the downward API."""
    value = pod
    for name in path.split("."):
        value = value[name]
    return str(value)
