"""A reader who follows a page: writes its files, types its commands, and looks at what they print.

There is a shell with `resettle` on its path, a folder with the bundled example, and a cluster that
holds the same: an API server for tests, of which `$KUBECONFIG` knows. Times differ with every
run, so they are not compared. `…` on a line of its own stands for any lines, within one for any
words. A line `^C` is a key that is pressed once all above it is there.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import Timer

import yaml

from resettle.testing import ApiServer
from tests.cli.harness import accept_interrupts
from tests.docs.page import ROOT, Page, Shown

EXAMPLE = ROOT / "examples" / "lopsided"
PATIENCE_SECONDS = 120
"""After this a command hangs; none of the pages takes seconds."""
_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z")
_ANY_LINES, _ANY_WORDS, _CONTROL_C = "…\n", "…", "^C\n"


class Reader:
    """A shell in a folder of its own."""

    def __init__(self, folder: Path, surroundings: Mapping[str, str]) -> None:
        self.folder = folder
        self._surroundings = surroundings

    def type(self, shown: Shown) -> None:
        """Types a command and holds it to what is shown."""
        before, key, after = shown.printed.partition(_CONTROL_C)
        with self._running(shown.command) as running:
            assert running.stdout is not None
            printed = ""
            if key:
                for line in running.stdout:
                    printed += line
                    if like(before, printed):
                        os.killpg(running.pid, signal.SIGINT)
                        break
            printed += running.stdout.read()
        where = f"$ {shown.command}\n{printed}"
        if not shown.printed:
            assert running.returncode == 0, where
        else:
            assert like(before + after, printed), f"{where}\n--- is shown as\n{shown.printed}"

    @contextmanager
    def _running(self, command: str) -> Iterator[subprocess.Popen[str]]:
        """The command at work; one that never ends is ended, and all that it has begun."""
        with subprocess.Popen(
            ["bash", "-c", f"exec 2>&1; {command}"],
            cwd=self.folder,
            env=self._surroundings,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            start_new_session=True,
            encoding="utf-8",
            preexec_fn=accept_interrupts,
        ) as running:
            guard = Timer(PATIENCE_SECONDS, os.killpg, (running.pid, signal.SIGKILL))
            guard.start()
            try:
                yield running
                running.wait()
            finally:
                guard.cancel()
                with suppress(ProcessLookupError):
                    os.killpg(running.pid, signal.SIGKILL)


def like(shown: str, printed: str) -> bool:
    """Whether what was printed is what is shown."""
    parts = [_pattern(part) for part in _TIME.sub("TIME", shown).split(_ANY_LINES)]
    return re.fullmatch(r"(?:[^\n]*\n)*?".join(parts), _TIME.sub("TIME", printed)) is not None


def _pattern(text: str) -> str:
    return "[^\n]*".join(map(re.escape, text.split(_ANY_WORDS)))


@contextmanager
def sitting_down(folder: Path, *programs: Path) -> Iterator[Reader]:
    """A reader with these folders of programs at hand, before a cluster that is the example's."""
    shutil.copytree(EXAMPLE, folder, dirs_exist_ok=True)
    objects = yaml.safe_load((EXAMPLE / "cluster.yaml").read_text(encoding="utf-8"))["items"]
    with ApiServer(objects) as server:
        paths = [*map(str, programs), str(Path(sys.executable).parent), os.environ["PATH"]]
        yield Reader(
            folder,
            {
                "PATH": os.pathsep.join(paths),
                "HOME": str(folder),
                "KUBECONFIG": str(server.kubeconfig(folder / ".kubeconfig")),
                "COLUMNS": "80",
                "LANG": "C.UTF-8",
                "NO_COLOR": "1",
                "PYTHONUNBUFFERED": "1",
                "PYTHONDONTWRITEBYTECODE": "1",
            },
        )


def follow(page: Page, reader: Reader, needs: frozenset[str] = frozenset()) -> int:
    """Follows a page, but for blocks that need what is not at hand; how many commands it took."""
    page.write_files(reader.folder)
    typed = 0
    for block in page.blocks:
        if block.needs and block.needs not in needs:
            continue
        for shown in block.commands:
            reader.type(shown)
            typed += 1
    return typed
