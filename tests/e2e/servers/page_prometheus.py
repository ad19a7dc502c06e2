"""A Prometheus that scrapes one page of the test once a second.

It may start with a history (in the text format of OpenMetrics) and evaluate rules every second.
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


class PagePrometheus:
    """Serves the page and runs a Prometheus that scrapes it, while the block lasts."""

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
        config.write_text(
            json.dumps(self._config(self._pages.enter_context(serve_page(self._page))))
        )
        data = self._folder / "data"
        if self._history:
            self._import_history(data)
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
        self.wait_until_ready()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._crew.close()
        self._pages.close()

    def wait_until_ready(self) -> None:
        """Returns once Prometheus answers."""
        eventually("a Prometheus that answers", lambda: self.query("vector(1)"))

    def query(self, query: str) -> list[Object]:
        """The result of a query; empty if Prometheus does not answer."""
        try:
            address = f"{self.url}/api/v1/query?{urlencode({'query': query})}"
            with urllib.request.urlopen(address, timeout=_SECONDS) as response:
                result: list[Object] = json.load(response)["data"]["result"]
                return result
        except OSError:
            return []

    def _import_history(self, data: Path) -> None:
        history_file = self._folder / "history.txt"
        history_file.write_text(self._history)
        done = promtool("tsdb", "create-blocks-from", "openmetrics", history_file, data)
        assert done.returncode == 0, done.stdout + done.stderr

    def _config(self, page: str) -> Object:
        intervals = {
            "scrape_interval": EVERY,
            "scrape_timeout": EVERY,
            "evaluation_interval": EVERY,
        }
        rules = {"rule_files": ["rules.yaml"]} if self._rules else {}
        return {"global": intervals, "scrape_configs": [scrape_config(page)], **rules}


def scrape_config(page: str) -> Object:
    """The scrape config for the page at this address; its own `instance` labels are kept."""
    return {"job_name": "nodes", "honor_labels": True, "static_configs": [{"targets": [page]}]}


@contextmanager
def serve_page(page: Callable[[], str]) -> Iterator[str]:
    """Serves a page while the block lasts; yields its address."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), _handler_for(page))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()


def _handler_for(page: Callable[[], str]) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            body = page().encode()
            self.send_response(200)
            self.send_header("Content-Type", "text/plain; version=0.0.4")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            with suppress(OSError):  # a scrape that times out is repeated
                self.wfile.write(body)

        def log_message(self, format: str, *args: Any) -> None:
            """Logs nothing."""

    return Handler
