"""Runs the container of a pod as its manifest says, as a kubelet would."""

from __future__ import annotations

import json
import re
import signal
import ssl
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from tests.e2e.cluster.missing_programs import skip_or_fail
from tests.e2e.kubelet.sandbox import NO_NAMESPACES, connect_to
from tests.e2e.kubelet.volumes import Volumes, field_value
from tests.e2e.processes.command import RESETTLE
from tests.e2e.processes.log_reader import Line, LogReader
from tools.control_plane.api import Api, Object

SANDBOX = Path(__file__).with_name("sandbox.py")
PROGRAMS = {"resettle": RESETTLE, "/bin/descheduler": RESETTLE.with_name("descheduler")}
"""Programs of the image, and where they are on this machine."""
IMAGE = {
    "PATH": "/usr/local/bin:/usr/local/sbin:/usr/bin:/usr/sbin:/bin:/sbin",
    "HOME": "/",
    "PYTHONDONTWRITEBYTECODE": "1",
    "PYTHONUNBUFFERED": "1",
}
"""The environment that the image and a container engine set."""
NONROOT = 65532
_FACT = re.compile(r'(?<= )(\w+)=("(?:[^"\\]|\\.)*"|\S*)')


class Container(LogReader):
    """The only container of a pod, as a running process."""

    def __init__(self, api: Api, pod: Object, outbound_socket: Path, folder: Path) -> None:
        super().__init__()
        self.pod, (self.spec,) = pod, pod["spec"]["containers"]
        self._inbound_socket = folder / "in"
        self._is_terminated = False
        self.volumes = Volumes(api, pod, folder / "volumes")
        settings = folder / "sandbox.json"
        settings.write_text(json.dumps(self._sandbox_settings(api, outbound_socket, folder)))
        self._process = subprocess.Popen(
            [sys.executable, SANDBOX, settings],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _sandbox_settings(self, api: Api, outbound_socket: Path, folder: Path) -> dict[str, Any]:
        address = urlsplit(api.url)
        environment = {
            **IMAGE,
            "HOSTNAME": self.pod["metadata"]["name"],
            "KUBERNETES_SERVICE_HOST": str(address.hostname),
            "KUBERNETES_SERVICE_PORT": str(address.port),
        }
        for variable in self.spec.get("env") or ():
            environment[variable["name"]] = self._value(variable)
        words = [*self.spec["command"], *(self.spec.get("args") or ())]
        program, *rest = [_expand_variables(word, environment) for word in words]
        context = {**self.pod["spec"].get("securityContext", {}), **self.spec["securityContext"]}
        return {
            "command": [str(PROGRAMS[program]), *rest],
            "environment": environment,
            "user": context["runAsUser"],
            "group": context.get("runAsGroup", NONROOT),
            "read_only": context.get("readOnlyRootFilesystem", False),
            "volumes": self.volumes.mounts(self.spec),
            "readable": [str(RESETTLE), sys.base_prefix + "/lib"],
            "api_port": address.port,
            "outbound_socket": str(outbound_socket),
            "pod_port": self.port,
            "inbound_socket": str(self._inbound_socket),
            "folder": str(folder),
        }

    def _value(self, variable: Object) -> str:
        if "valueFrom" in variable:
            return field_value(self.pod, variable["valueFrom"]["fieldRef"]["fieldPath"])
        return str(variable.get("value", ""))

    @property
    def port(self) -> int:
        """The port on which the container listens."""
        return int((self.spec.get("ports") or [{"containerPort": 10258}])[0]["containerPort"])

    def probe_status(self, kind: str) -> int:
        """The HTTP status of a probe, sent as a kubelet does; 0 if there is no answer."""
        http_get = self.spec[kind]["httpGet"]
        assert http_get["scheme"] == "HTTPS"
        timeout_seconds = self.spec[kind].get("timeoutSeconds", 1) * 10
        return self.get(http_get["path"], timeout_seconds=timeout_seconds)[0]

    def get(self, path: str, token: str = "", *, timeout_seconds: float = 50) -> tuple[int, str]:
        """Status and body of a GET over HTTPS; the status is 0 if there is no answer."""
        context = ssl.create_default_context()
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        authorization = f"Authorization: Bearer {token}\r\n" if token else ""
        try:
            with context.wrap_socket(connect_to(str(self._inbound_socket))) as line:
                line.settimeout(timeout_seconds)
                line.sendall(f"GET {path} HTTP/1.0\r\nHost: pod\r\n{authorization}\r\n".encode())
                answer = line.makefile("rb")
                status = int(answer.readline().split()[1])
                return status, answer.read().decode()
        except (TimeoutError, OSError):
            return 0, ""

    @property
    def has_ended(self) -> bool:
        """Whether the process has ended and its output is read."""
        return not self._reader.is_alive()

    def wait_for_exit(self, timeout_seconds: float = 60) -> int:
        """Waits for the process to end; returns its exit code."""
        code = self._process.wait(timeout_seconds)
        self._reader.join(10)
        return code

    def terminate(self) -> None:
        """Sends SIGTERM, once, as a kubelet does when a pod is deleted."""
        if not self._is_terminated and self._process.poll() is None:
            self._is_terminated = True
            self._process.send_signal(signal.SIGTERM)

    def close(self) -> None:
        """Kills the process if it still runs."""
        if self._process.poll() is None:
            self._process.kill()
        self.wait_for_exit()
        if self._process.stdout is not None:
            self._process.stdout.close()

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            parsed = parse_line(line.rstrip("\n"))
            if parsed is None:
                self.other_output.append(line.rstrip("\n"))
            else:
                self.lines.append(parsed)

    def check(self) -> None:
        """Skips or fails the test where containers are not possible."""
        if self._process.poll() == NO_NAMESPACES:
            skip_or_fail("neither root nor user namespaces here, so containers cannot run")


def _expand_variables(word: str, environment: dict[str, str]) -> str:
    """The word with each `$(NAME)` replaced, as a kubelet does."""
    return re.sub(r"\$\((\w+)\)", lambda match: environment.get(match[1], match[0]), word)


def parse_line(line: str) -> Line | None:
    """A line of the log, parsed from text or JSON; None for other output."""
    if line.startswith("{"):
        parsed: Line = json.loads(line)
        return parsed
    stamp, _, rest = line.partition(" ")
    level, _, message = rest.partition(" ")
    if not stamp.endswith("Z") or level not in ("DEBUG", "INFO", "WARNING", "ERROR"):
        return None
    facts = {
        name: json.loads(value) if value.startswith('"') else value
        for name, value in _FACT.findall(message)
    }
    event = _FACT.split(message, maxsplit=1)[0].rstrip()
    return {"ts": stamp, "level": level.lower(), "msg": event, **facts}
