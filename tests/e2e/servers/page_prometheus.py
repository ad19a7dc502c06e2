"""A Prometheus that scrapes one page, which a test writes, once a second.

It may begin with a past (`history`, in OpenMetrics' text) and work rules out every second.
"""

from __future__ import annotations

import json
import threading
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import TracebackType
from typing import Any, Self
from urllib.parse import urlencode

from tests.e2e.cluster.workspace import eventually
from tests.e2e.servers.alerting_prometheus import prometheus, promtool
from tools.control_plane.api import Object
from tools.control_plane.processes import Crew, Process, free_ports

EVERY = "1s"
_SECONDS = 10


class Scraped:
    """The page, and who reads it, while the block lasts."""

    def __init__(
        self, folder: Path, page: Callable[[], str], *, rules: str = "", history: str = ""
    ) -> None:
        self._folder = folder
        self._crew = Crew(folder)
        self._rules, self._history = rules, history
        self._page = page
        self._pages = ExitStack()
        (self._port,) = free_ports(1)
        self.url = f"http://127.0.0.1:{self._port}"
        self.server: Process

    def __enter__(self) -> Self:
        if self._rules:
            (self._folder / "rules.yaml").write_text(self._rules)
        config = self._folder / "prometheus.json"
        config.write_text(json.dumps(self._config(self._pages.enter_context(served(self._page)))))
        data = self._folder / "data"
        if self._history:
            self._remember(data)
        self.server = self._crew.start(
            "prometheus",
            [
                prometheus()["prometheus"],
                f"--config.file={config}",
                f"--storage.tsdb.path={data}",
                f"--web.listen-address=127.0.0.1:{self._port}",
                "--log.level=warn",
            ],
        )
        self.awaited()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._crew.close()
        self._pages.close()

    def awaited(self) -> None:
        """Returns once Prometheus answers."""
        eventually("a Prometheus that answers", lambda: self.asked("vector(1)"))

    def asked(self, query: str) -> list[Object]:
        """What it answers; nothing while it does not."""
        try:
            address = f"{self.url}/api/v1/query?{urlencode({'query': query})}"
            with urllib.request.urlopen(address, timeout=_SECONDS) as heard:
                found: list[Object] = json.load(heard)["data"]["result"]
                return found
        except OSError:
            return []

    def _remember(self, data: Path) -> None:
        past = self._folder / "history.txt"
        past.write_text(self._history)
        done = promtool("tsdb", "create-blocks-from", "openmetrics", past, data)
        assert done.returncode == 0, done.stdout + done.stderr

    def _config(self, page: str) -> Object:
        often = {"scrape_interval": EVERY, "scrape_timeout": EVERY, "evaluation_interval": EVERY}
        rules = {"rule_files": ["rules.yaml"]} if self._rules else {}
        return {"global": often, "scrape_configs": [about_nodes(page)], **rules}


def about_nodes(page: str) -> Object:
    """How the page at this address is scraped: it tells itself which node each figure is of."""
    return {"job_name": "nodes", "honor_labels": True, "static_configs": [{"targets": [page]}]}


@contextmanager
def served(page: Callable[[], str]) -> Iterator[str]:
    """The address of a page, while the block lasts."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), _visit(page))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()


def _visit(page: Callable[[], str]) -> type[BaseHTTPRequestHandler]:
    class Visit(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            body = page().encode()
            self.send_response(200)
            self.send_header("Content-Type", "text/plain; version=0.0.4")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            with suppress(OSError):  # who hangs up early comes again
                self.wfile.write(body)

        def log_message(self, format: str, *args: Any) -> None:
            """Keeps quiet."""

    return Visit
