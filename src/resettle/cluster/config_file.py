"""Kubeconfig files, one or several, and the entries in them."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import yaml

from resettle.errors import InputError

_Loader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


class Entry(NamedTuple):
    """What a kubeconfig says of a cluster, a user or a context."""

    file: str
    """Where it stands; its relative paths start from the folder of this file."""
    says: Mapping[str, Any]

    def text(self, key: str) -> str:
        """What stands under a key, empty if nothing does."""
        return str(self.says.get(key) or "")

    def path(self, name: str) -> Path:
        """The file that a path in this entry means."""
        return Path(self.file).parent / name

    def data(self, key: str) -> bytes:
        """What stands under `key-data` in base64, or in the file that `key` names."""
        if inline := self.says.get(f"{key}-data"):
            try:
                return base64.b64decode(str(inline), validate=True)
            except binascii.Error:
                raise InputError(f"{self.file}: `{key}-data` is not base64") from None
        if not self.text(key):
            return b""
        content = self.content(key)
        if not content.strip():
            raise InputError(f"{self.file}: `{key}` {self.text(key)} is empty")
        return content

    def content(self, key: str) -> bytes:
        """What is in the file that the key names."""
        name = self.text(key)
        try:
            return self.path(name).read_bytes()
        except OSError as error:
            reason = error.strerror or str(error)
            raise InputError(f"{self.file}: `{key}` {name} cannot be read: {reason}") from None


class Config:
    """Several files read as one: of two entries with one name the first counts, and all of it."""

    def __init__(self, files: Iterable[str]) -> None:
        self._documents = [(file, _document(file)) for file in files]

    @property
    def name(self) -> str:
        """What messages call it."""
        return ", ".join(file for file, _ in self._documents)

    @property
    def current_context(self) -> str:
        """The first that a file names."""
        named = (document.get("current-context") for _, document in self._documents)
        return next((str(name) for name in named if name), "")

    def entry(self, section: str, key: str, name: str) -> Entry:
        """The named entry of a section."""
        for file, document in self._documents:
            entries = document.get(section)
            for item in entries if isinstance(entries, list) else ():
                if isinstance(item, dict) and item.get("name") == name:
                    found = item.get(key)
                    return Entry(file, found if isinstance(found, dict) else {})
        raise InputError(f"{self.name} has no entry `{name}` under `{section}`")


def _document(file: str) -> Mapping[str, Any]:
    try:
        document = yaml.load(Path(file).read_text(), _Loader)
    except FileNotFoundError:
        raise InputError(
            f"there is no kubeconfig {file}; name one with --kubeconfig or $KUBECONFIG"
        ) from None
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"the kubeconfig {file} cannot be read: {error}") from None
    except yaml.YAMLError as error:
        raise InputError(f"the kubeconfig {file} is not YAML: {error}") from None
    if not isinstance(document, dict):
        raise InputError(f"{file} is not a kubeconfig: it is no mapping of clusters and users")
    return document
