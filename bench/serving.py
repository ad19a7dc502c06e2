"""The benchmark's API server in a process of its own: its work counts for neither side."""

from __future__ import annotations

import json
import subprocess
import sys
import urllib.request
from pathlib import Path
from types import TracebackType
from typing import Any

_KUBECONFIG = """\
apiVersion: v1
kind: Config
clusters:
  - name: bench
    cluster: {{server: "{server}"}}
contexts:
  - name: bench
    context: {{cluster: bench}}
current-context: bench
"""


class Serving:
    """A generated cluster, served from `with` to its end."""

    def __init__(self, folder: Path, *shape: str) -> None:
        self._command = [sys.executable, "-m", "bench.server", *shape]
        self.kubeconfig = folder / "kubeconfig"
        self.address = ""
        self.objects: dict[str, int] = {}
        self.size = 0
        self.final: dict[str, Any] = {}
        """What was asked of the server, and what answering cost; known at the end."""

    def __enter__(self) -> Serving:
        root = Path(__file__).parents[1]
        self._process = subprocess.Popen(self._command, stdout=subprocess.PIPE, cwd=root)
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise RuntimeError(f"the server ended with {self._process.wait()} before it served")
        said = json.loads(line)
        self.address, self.objects, self.size = said["address"], said["objects"], said["bytes"]
        self.kubeconfig.write_text(_KUBECONFIG.format(server=self.address))
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._process.terminate()
        said, _ = self._process.communicate(timeout=60)
        self.final = json.loads(said or "{}")

    def hold(self) -> None:
        """Holds back the answer to one small list, until `release`."""
        self._ask("/bench/hold", b"")

    def release(self) -> None:
        """Answers every list at once again."""
        self._ask("/bench/release", b"")

    def churn(self, pods: int) -> str:
        """Tell watches of pods that so many went and others came; the version of the last."""
        version: str = self._ask("/bench/churn", str(pods).encode())["version"]
        return version

    def asked(self, what: str) -> int:
        """How often this has been asked for so far."""
        count: int = self._ask("/bench/account")["requests"].get(what, 0)
        return count

    def _ask(self, path: str, body: bytes | None = None) -> dict[str, Any]:
        return ask(self.address + path, body)


def ask(address: str, body: bytes | None = None) -> dict[str, Any]:
    """What a running server answers."""
    with urllib.request.urlopen(address, body, timeout=60) as response:
        answer: dict[str, Any] = json.load(response)
    return answer
