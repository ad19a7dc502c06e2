"""The flags of tracing: what they come to, with and without the extra that they take."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from resettle.cli.flags.daemon import open_spans
from resettle.cli.main import build_parser
from resettle.errors import InputError
from resettle.framework.tracing import NO_SPANS
from resettle.log import Log
from resettle.testing import ApiServer, cluster, node, pod
from tests.cli.harness import LIFETIME, resettle, write
from tests.telemetry.fakes import receiving

NAMED = "--otel-collector-endpoint=localhost:1"


def spans(*words: str, logged: list[str] | None = None) -> object:
    arguments = build_parser().parse_args(["run", "--policy=p", *words])
    with open_spans(arguments, Log.to(logged if logged is not None else [])) as opened:
        return opened


@pytest.fixture
def without_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "opentelemetry.sdk.trace", None)
    monkeypatch.delitem(sys.modules, "resettle.telemetry.tracing", raising=False)


def test_without_a_collector_nothing_is_followed_or_imported(tmp_path: Path) -> None:
    words = "import sys; from resettle.cli.main import run\n"
    words += "try: run(['run', '--policy=none'])\n"
    words += "finally: print([it for it in sys.modules if 'opentelemetry' in it or it == 'grpc'])"
    write(tmp_path, {"it.py": words})

    done = subprocess.run(
        [sys.executable, "it.py"], cwd=tmp_path, capture_output=True, text=True, check=True
    )

    assert done.stdout == "[]\n"
    assert spans() is NO_SPANS


@pytest.mark.usefixtures("without_the_extra")
def test_without_the_extra_it_is_reported_how_to_install_it() -> None:
    with pytest.raises(InputError) as error:
        spans(NAMED)

    assert str(error.value).startswith("--otel-collector-endpoint needs OpenTelemetry (")
    assert str(error.value).endswith("); install it with `pip install 'resettle[otel]'`")


@pytest.mark.usefixtures("without_the_extra")
def test_without_the_extra_one_may_go_on_without_traces() -> None:
    logged: list[str] = []

    assert spans(NAMED, "--otel-fallback-no-op-on-error", logged=logged) is NO_SPANS
    assert logged[0].startswith('WARNING no traces reason="--otel-collector-endpoint needs')


def test_a_certificate_that_cannot_be_read_is_reported_before_anything_is_done() -> None:
    with pytest.raises(InputError) as error:
        spans(NAMED, "--otel-transport-ca-cert=none.pem")

    assert str(error.value) == (
        "--otel-transport-ca-cert: `none.pem` cannot be read: No such file or directory; "
        "check the path"
    )


@pytest.mark.parametrize("rate", ["2", "-0.1", "much", "nan"])
def test_a_share_is_from_nought_to_one(rate: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        spans(NAMED, f"--otel-sample-rate={rate}")

    assert f"`{rate}` is not a share; write a number from 0 to 1" in capsys.readouterr().err


def test_the_command_sends_what_it_did(tmp_path: Path) -> None:
    world = cluster(node("n1").holding(pod("old", age="2h")), node("n2"))
    write(tmp_path, {"policy.yaml": LIFETIME})
    with ApiServer(world.objects) as server, receiving() as receiver:
        server.kubeconfig(tmp_path / "config")
        done = resettle(
            *("run", "--policy=policy.yaml", "--kubeconfig=config", "--secure-port=0"),
            f"--otel-collector-endpoint={receiver.endpoint}",
            cwd=tmp_path,
        )

    assert done.code == 0, done.err
    assert receiver.named("EvictPod"), done.err
