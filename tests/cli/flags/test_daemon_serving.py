"""What `run` serves, as its flags say; and what it says of flags that make no sense."""

from __future__ import annotations

import socket
import subprocess
import sys
from pathlib import Path

import pytest

from resettle.cli.flags import daemon
from resettle.cli.main import build_parser
from resettle.errors import InputError
from resettle.https import Tls
from resettle.telemetry import EndpointSettings
from resettle.testing import ApiServer, node, pod
from tests.cli.harness import LIFETIME, resettle

UPSTREAM_FLAGS = """--secure-port=10258 --bind-address=0.0.0.0 --cert-dir=/certs
--tls-min-version=VersionTLS10
--tls-cipher-suites=TLS_AES_128_GCM_SHA256 --disable-metrics=false
--tls-curve-preferences=29,23""".split()
"""Flags of upstream, as its manifests have them."""


def given(*words: str) -> EndpointSettings | None:
    """What these flags say."""
    arguments = build_parser().parse_args(["run", "--policy", "p.yaml", *words])
    return daemon.endpoint_settings(arguments, optional=False)


def test_it_serves_where_upstream_does() -> None:
    assert given() == EndpointSettings(port=10258, address="0.0.0.0", metrics=True, tls=Tls())


def test_port_zero_serves_nothing() -> None:
    assert given("--secure-port", "0") is None


def test_metrics_can_be_protected() -> None:
    serving = given("--protect-metrics")

    assert serving is not None
    assert serving.protected


def test_the_flags_of_upstream_are_understood() -> None:
    assert given(*UPSTREAM_FLAGS) == EndpointSettings(
        port=10258,
        address="0.0.0.0",
        tls=Tls(folder="/certs", cipher_suites=("TLS_AES_128_GCM_SHA256",)),
    )


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ("--secure-port=65536", r"65536 is not a port; write one from 1 to 65535"),
        ("--secure-port=-1", r"-1 is not a port"),
        ("--bind-address=here", r"--bind-address: `here` is not an IP address"),
        ("--tls-cert-file=a", r"--tls-cert-file also needs --tls-private-key-file"),
        ("--tls-private-key-file=a", r"--tls-private-key-file also needs --tls-cert-file"),
        (
            "--tls-sni-cert-key=a,b",
            r"--tls-sni-cert-key is not supported: all names share one certificate",
        ),
    ],
)
def test_what_makes_no_sense_is_reported_with_what_to_do(words: str, says: str) -> None:
    with pytest.raises(InputError, match=says):
        given(words)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with a policy."""
    (tmp_path / "policy.yaml").write_text(LIFETIME)
    return tmp_path


def test_a_taken_port_ends_a_run_and_is_only_reported_by_a_single_cycle(folder: Path) -> None:
    full = node("n1").holding(pod("a", age="3h"))
    objects = [full.node, node("n2").node, *full.pods]
    with ApiServer(objects) as server, socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        config = server.kubeconfig(folder / "kubeconfig")
        words = ("run", "--policy", folder / "policy.yaml", "--kubeconfig", config)
        there = ("--secure-port", str(port), "--bind-address", "127.0.0.1")

        for_ever = resettle(*words, *there, "--descheduling-interval", "5m", cwd=folder)
        once = resettle(*words, *there, cwd=folder)

    says = f"cannot serve metrics and health on 127.0.0.1:{port}: Address already in use; name "
    assert for_ever.code == 1
    assert for_ever.err.startswith(f"error: {says}")
    assert once.code == 0, once.err
    assert f'WARNING nothing is served reason="{says}' in once.err
    assert "cycle done" in once.err


@pytest.mark.parametrize(
    ("flag", "modules"),
    [
        pytest.param(["--secure-port=0"], [], id="nothing served"),
        pytest.param(["--disable-metrics"], ["aiohttp"], id="health alone"),
        pytest.param([], ["aiohttp", "prometheus_client"], id="metrics that are not fetched"),
    ],
)
def test_a_run_takes_no_more_memory_than_what_is_served_takes(
    flag: list[str], modules: list[str], folder: Path
) -> None:
    code = (
        "import sys; from resettle.cli.main import run; code = run(sys.argv[1:]); "
        "print(*{'aiohttp', 'prometheus_client', 'cryptography'} & sys.modules.keys())"
        "; sys.exit(code)"
    )
    with ApiServer([node("n1").node, node("n2").node]) as server:
        config = server.kubeconfig(folder / "kubeconfig")
        words = ["run", "--policy", folder / "policy.yaml", "--kubeconfig", config, *flag]
        where = ["--bind-address", "127.0.0.1"]
        done = subprocess.run(
            [sys.executable, "-c", code, *map(str, words), *where],
            capture_output=True,
            text=True,
            check=False,
            timeout=60,
        )

    assert done.returncode == 0, done.stderr
    assert sorted(done.stdout.split()) == modules
