"""A container of a pod: what its manifest says is run, as far as a kubelet would go by it."""

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

from tests.e2e.cluster.missing_programs import absent
from tests.e2e.kubelet.sandbox import NO_NAMESPACES, to_socket
from tests.e2e.kubelet.volumes import Volumes, field
from tests.e2e.processes.command import RESETTLE
from tests.e2e.processes.log_reader import Diary, Line
from tools.control_plane.api import Api, Object

SANDBOX = Path(__file__).with_name("sandbox.py")
PROGRAMS = {"resettle": RESETTLE, "/bin/descheduler": RESETTLE.with_name("descheduler")}
"""What the image has, and where that is here."""
IMAGE = {
    "PATH": "/usr/local/bin:/usr/local/sbin:/usr/bin:/usr/sbin:/bin:/sbin",
    "HOME": "/",
    "PYTHONDONTWRITEBYTECODE": "1",
    "PYTHONUNBUFFERED": "1",
}
"""The environment that the image and a container engine give."""
NOBODY = 65532
_FACT = re.compile(r'(?<= )(\w+)=("(?:[^"\\]|\\.)*"|\S*)')


class Container(Diary):
    """The only container of a pod, running."""

    def __init__(self, api: Api, pod: Object, way_out: Path, folder: Path) -> None:
        super().__init__()
        self.pod, (self.spec,) = pod, pod["spec"]["containers"]
        self._way_in = folder / "in"
        self._asked = False
        self.volumes = Volumes(api, pod, folder / "volumes")
        told = folder / "told.json"
        told.write_text(json.dumps(self._told(api, way_out, folder)))
        self._process = subprocess.Popen(
            [sys.executable, SANDBOX, told],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _told(self, api: Api, way_out: Path, folder: Path) -> dict[str, Any]:
        address = urlsplit(api.url)
        environment = {
            **IMAGE,
            "HOSTNAME": self.pod["metadata"]["name"],
            "KUBERNETES_SERVICE_HOST": str(address.hostname),
            "KUBERNETES_SERVICE_PORT": str(address.port),
        }
        for it in self.spec.get("env") or ():
            environment[it["name"]] = self._value(it)
        words = [*self.spec["command"], *(self.spec.get("args") or ())]
        program, *rest = [_filled_in(word, environment) for word in words]
        context = {**self.pod["spec"].get("securityContext", {}), **self.spec["securityContext"]}
        return {
            "command": [str(PROGRAMS[program]), *rest],
            "environment": environment,
            "user": context["runAsUser"],
            "group": context.get("runAsGroup", NOBODY),
            "read_only": context.get("readOnlyRootFilesystem", False),
            "volumes": self.volumes.mounts(self.spec),
            "reached": [str(RESETTLE), sys.base_prefix + "/lib"],
            "api_port": address.port,
            "way_out": str(way_out),
            "pod_port": self.port,
            "way_in": str(self._way_in),
            "folder": str(folder),
        }

    def _value(self, variable: Object) -> str:
        if "valueFrom" in variable:
            return field(self.pod, variable["valueFrom"]["fieldRef"]["fieldPath"])
        return str(variable.get("value", ""))

    @property
    def port(self) -> int:
        """Where it listens."""
        return int((self.spec.get("ports") or [{"containerPort": 10258}])[0]["containerPort"])

    def probed(self, kind: str) -> int:
        """The status that a kubelet would get for one of its probes; 0 if nobody answers."""
        wanted = self.spec[kind]["httpGet"]
        assert wanted["scheme"] == "HTTPS"
        within = self.spec[kind].get("timeoutSeconds", 1) * 10
        return self.asked(wanted["path"], within=within)[0]

    def asked(self, path: str, token: str = "", *, within: float = 50) -> tuple[int, str]:
        """What it answers over HTTPS, status and all; 0 if nobody answers."""
        anybody = ssl.create_default_context()
        anybody.check_hostname, anybody.verify_mode = False, ssl.CERT_NONE
        who = f"Authorization: Bearer {token}\r\n" if token else ""
        try:
            with anybody.wrap_socket(to_socket(str(self._way_in))) as line:
                line.settimeout(within)
                line.sendall(f"GET {path} HTTP/1.0\r\nHost: pod\r\n{who}\r\n".encode())
                heard = line.makefile("rb")
                status = int(heard.readline().split()[1])
                return status, heard.read().decode()
        except (TimeoutError, OSError):
            return 0, ""

    @property
    def over(self) -> bool:
        """Whether it has ended, and all it said is read."""
        return not self._reader.is_alive()

    def ended(self, within: float = 60) -> int:
        """Its exit code, once it has ended by itself."""
        code = self._process.wait(within)
        self._reader.join(10)
        return code

    def terminate(self) -> None:
        """Asks it to stop, once, as a kubelet does when a pod is deleted."""
        if not self._asked and self._process.poll() is None:
            self._asked = True
            self._process.send_signal(signal.SIGTERM)

    def close(self) -> None:
        """Ends it whatever it does."""
        if self._process.poll() is None:
            self._process.kill()
        self.ended()
        if self._process.stdout is not None:
            self._process.stdout.close()

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            told = understood(line.rstrip("\n"))
            if told is None:
                self.other.append(line.rstrip("\n"))
            else:
                self.lines.append(told)

    def check(self) -> None:
        """Ends the test where no container can be had."""
        if self._process.poll() == NO_NAMESPACES:
            absent("neither root nor user namespaces here, so no container can be had")


def _filled_in(word: str, environment: dict[str, str]) -> str:
    """`$(NAME)` is for the kubelet to fill in."""
    return re.sub(r"\$\((\w+)\)", lambda it: environment.get(it[1], it[0]), word)


def understood(line: str) -> Line | None:
    """A line of the log, as text or as JSON; None for what is none."""
    if line.startswith("{"):
        found: Line = json.loads(line)
        return found
    stamp, _, rest = line.partition(" ")
    level, _, told = rest.partition(" ")
    if not stamp.endswith("Z") or level not in ("DEBUG", "INFO", "WARNING", "ERROR"):
        return None
    facts = {
        name: json.loads(value) if value.startswith('"') else value
        for name, value in _FACT.findall(told)
    }
    event = _FACT.split(told, maxsplit=1)[0].rstrip()
    return {"ts": stamp, "level": level.lower(), "msg": event, **facts}
