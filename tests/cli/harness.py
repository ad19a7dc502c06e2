"""The installed command in a process of its own, and small clusters to give it."""

from __future__ import annotations

import json
import os
import pty
import signal
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import yaml

from resettle.testing import budget, node, pod
from tests import ROOT

LOPSIDED = ROOT / "examples" / "lopsided"
TRANSCRIPTS = Path(__file__).parent / "transcripts"
NOW = "2026-01-31T12:00:00Z"

RESETTLE = (sys.executable, "-m", "resettle")
ASK_FOR = "kubectl get nodes,pods,namespaces,priorityclasses,pdb,pvc,pv,csinodes -A -o json"

HEAD = "apiVersion: descheduler/v1alpha2\nkind: DeschedulerPolicy\n"
LIFETIME = f"""{HEAD}profiles:
  - name: main
    pluginConfig:
      - name: PodLifeTime
        args: {{maxPodLifeTimeSeconds: 3600}}
    plugins:
      deschedule:
        enabled: [PodLifeTime]
"""
WITH_USAGE = LIFETIME.replace(
    "    plugins:\n",
    "      - name: LowNodeUtilization\n"
    "        args: {thresholds: {cpu: 20}, targetThresholds: {cpu: 50}, "
    "metricsUtilization: {source: KubernetesMetrics}}\n"
    "    plugins:\n      balance: {enabled: [LowNodeUtilization]}\n",
)
"""A policy with a plugin that fails where the snapshot holds no usage."""

BUDGET = budget("idle", allowed=1, labels={"app": "absent"})
"""A disruption budget that covers no pod."""


class Done(NamedTuple):
    """How a command ended, and what it said."""

    code: int
    out: str
    err: str


def surroundings(**more: str) -> dict[str, str]:
    """An environment of which only the named things differ from one machine to the next."""
    kept = {name: os.environ[name] for name in ("PATH", "HOME", "PYTHONPATH") if name in os.environ}
    plain = {"COLUMNS": "80", "TERM": "xterm", "PYTHONIOENCODING": "utf-8"}
    return {**kept, **plain, "PYTHONDONTWRITEBYTECODE": "1", **more}


def accept_interrupts() -> None:
    """Makes SIGINT end this process, as at a terminal; for `preexec_fn` of a child.

    A test run in the background (`nohup make test &`) ignores SIGINT, and its children inherit
    that.
    """
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def resettle(
    *words: str | Path,
    cwd: Path,
    stdin: bytes = b"",
    pass_fds: tuple[int, ...] = (),
    env: Mapping[str, str] | None = None,
) -> Done:
    """Runs the command to its end."""
    done = subprocess.run(
        [*RESETTLE, *map(str, words)],
        cwd=cwd,
        env=surroundings(**(env or {})),
        input=stdin,
        pass_fds=pass_fds,
        capture_output=True,
        check=False,
    )
    return Done(done.returncode, done.stdout.decode(), done.stderr.decode())


def transcript(name: str) -> str:
    """What the command is known to print."""
    return (TRANSCRIPTS / name).read_text(encoding="utf-8")


def lopsided_objects() -> list[dict[str, Any]]:
    """The objects of the bundled cluster."""
    listed = yaml.safe_load((LOPSIDED / "cluster.yaml").read_text(encoding="utf-8"))
    items: list[dict[str, Any]] = listed["items"]
    return items


def listing(objects: list[dict[str, Any]], kind: str = "List") -> bytes:
    """Objects as `kubectl get -o json` writes them."""
    return json.dumps({"apiVersion": "v1", "kind": kind, "items": objects}).encode()


def documents(objects: list[dict[str, Any]]) -> bytes:
    """Objects as many YAML documents in one file."""
    return yaml.safe_dump_all(objects).encode()


def write(folder: Path, files: Mapping[str, str | bytes]) -> None:
    """Writes the files into the folder, and folders for them."""
    for name, content in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(content.encode() if isinstance(content, str) else content)


def write_small_cluster(folder: Path, policy: str) -> tuple[str, ...]:
    """Writes the policy and a cluster of two nodes and one pod; returns the flags for them."""
    held = node("n1").holding(pod("web-1"))
    objects = [held.node, *held.pods, node("n2").node, BUDGET]
    write(folder, {"c.json": listing(objects), "p.yaml": policy})
    return ("--cluster", "c.json", "--policy", "p.yaml", "--now", NOW)


def at_a_terminal(*words: str, env: Mapping[str, str], cwd: Path) -> str:
    """What a person would see of the command, with the line ends of a file."""
    ours, theirs = pty.openpty()
    command = [*RESETTLE, *words]
    with subprocess.Popen(command, cwd=cwd, env=surroundings(**env), stdout=theirs) as running:
        os.close(theirs)
        seen = b"".join(iter(lambda: chunk(ours), b""))
    os.close(ours)
    assert running.returncode == 0
    return seen.decode().replace("\r\n", "\n")


def chunk(terminal: int) -> bytes:
    """What the other side has written; nothing once it is closed."""
    try:
        return os.read(terminal, 1 << 16)
    except OSError:  # Linux says so when the other side is closed
        return b""
