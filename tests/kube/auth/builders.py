"""Kubeconfig files for tests."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

Entry = dict[str, Any]
SERVER: Entry = {"server": "https://127.0.0.1:6443"}


def document(cluster: Entry = SERVER, user: Entry | None = None, **top: Any) -> Entry:
    """A kubeconfig with one context that is also the current one."""
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "here",
        "contexts": [{"name": "here", "context": {"cluster": "c", "user": "u"}}],
        "clusters": [{"name": "c", "cluster": cluster}],
        "users": [{"name": "u", "user": user or {}}],
        **top,
    }


def written(folder: Path, content: Entry | str) -> str:
    """The path of a file that holds it."""
    file = folder / "config"
    file.write_text(content if isinstance(content, str) else yaml.safe_dump(content))
    return str(file)
