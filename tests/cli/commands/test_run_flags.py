"""The flags of `resettle run`: all that upstream has, and what they come to."""

from __future__ import annotations

from pathlib import Path

import pytest

from resettle.cli.commands.run import run_settings
from resettle.cli.flags.upstream import IGNORED_FLAGS, warn_about_ignored_flags
from resettle.cli.main import build_parser
from resettle.errors import InputError
from resettle.kube.leader_election.lease import LeaseSettings
from resettle.log import Log
from resettle.runtime import RunSettings
from tests.cli.harness import LIFETIME, resettle, write

# What `descheduler --help` of v0.36.0 lists, each with a value it takes.
UPSTREAM_FLAGS = """
--bind-address=127.0.0.1
--cert-dir=certs
--client-connection-burst=20
--client-connection-kubeconfig=admin.conf
--client-connection-qps=10
--descheduling-interval=5m0s
--disable-http2-serving
--disable-metrics
--dry-run
--enable-http2
--feature-gates=EvictionsInBackground=true
--http2-max-streams-per-connection=100
--kubeconfig=admin.conf
--leader-elect
--leader-elect-lease-duration=2m17s
--leader-elect-renew-deadline=1m47s
--leader-elect-resource-lock=leases
--leader-elect-resource-name=descheduler
--leader-elect-resource-namespace=kube-system
--leader-elect-retry-period=26s
--log-flush-frequency=5s
--log-json-info-buffer-size=0
--log-json-split-stream
--log-text-info-buffer-size=0
--log-text-split-stream
--logging-format=json
--otel-collector-endpoint=localhost:4317
--otel-fallback-no-op-on-error
--otel-sample-rate=0.5
--otel-service-name=descheduler
--otel-trace-namespace=ops
--otel-transport-ca-cert=ca.pem
--permit-address-sharing
--permit-port-sharing
--policy-config-file=policy.yaml
--secure-port=10258
--tls-cert-file=tls.crt
--tls-cipher-suites=TLS_AES_128_GCM_SHA256
--tls-curve-preferences=29
--tls-min-version=VersionTLS12
--tls-private-key-file=tls.key
--tls-sni-cert-key=tls.crt,tls.key
--v=3
--vmodule=evictions=5
""".split()


def settings(*words: str) -> RunSettings:
    return run_settings(build_parser().parse_args(["run", "--policy=policy.yaml", *words]))


@pytest.mark.parametrize("flag", UPSTREAM_FLAGS)
def test_every_flag_of_upstream_is_accepted(flag: str) -> None:
    name, _, value = flag.partition("=")
    words = [name, value] if value else [name]

    once = settings("--descheduling-interval=1m", flag)
    apart = settings("--descheduling-interval=1m", *words)

    assert once.policy_file == apart.policy_file == "policy.yaml"


def test_all_of_them_together_make_settings() -> None:
    made = run_settings(build_parser().parse_args(["run", *UPSTREAM_FLAGS]))

    assert (made.policy_file, made.interval, made.dry_run) == ("policy.yaml", 300.0, True)
    assert (made.qps, made.burst, made.background) == (10.0, 20, True)
    assert made.lease == LeaseSettings()


@pytest.mark.parametrize(
    ("gates", "background"),
    [
        ([], True),
        (["EvictionsInBackground=false"], False),
        (["EvictionsInBackground=true,AllAlpha=false"], True),
        (["EvictionsInBackground=false", "AllBeta=true"], False),
        (["EvictionsInBackground=false", "EvictionsInBackground=true"], True),
    ],
)
def test_gates_add_up(gates: list[str], background: bool) -> None:
    assert settings(*(f"--feature-gates={gate}" for gate in gates)).background is background


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (
            ["--feature-gates=EvictionInBackground=true"],
            "--feature-gates: there is no gate `EvictionInBackground`; "
            "did you mean `EvictionsInBackground`?",
        ),
        (
            ["--feature-gates=AllAlpha"],
            "--feature-gates: AllAlpha: `` is neither true nor false",
        ),
        (
            ["--descheduling-interval=5"],
            "--descheduling-interval: `5` is not a duration; write one such as 5m or 90s",
        ),
        (
            ["--leader-elect"],
            "--leader-elect has no use for a single cycle; set --descheduling-interval",
        ),
    ],
)
def test_values_that_cannot_be_meant_are_refused(words: list[str], says: str) -> None:
    with pytest.raises(InputError) as error:
        settings(*words)

    assert str(error.value) == says


def test_flags_without_effect_are_reported_once_each() -> None:
    logged: list[str] = []
    words = [flag.name if flag.is_switch else f"{flag.name}=1" for flag in IGNORED_FLAGS]
    arguments = build_parser().parse_args(["run", "--policy=policy.yaml", *words, words[0]])

    warn_about_ignored_flags(arguments, Log.to(logged))

    assert [line.split(" reason=")[0] for line in logged] == [
        f"WARNING flag without effect flag={flag.name}" for flag in IGNORED_FLAGS
    ]


def test_a_flag_that_asks_for_nothing_is_not_reported() -> None:
    logged: list[str] = []
    words = [f"{flag.name}=false" for flag in IGNORED_FLAGS if flag.is_switch]

    warn_about_ignored_flags(
        build_parser().parse_args(["run", "--policy=p", *words]), Log.to(logged)
    )

    assert logged == []


def test_the_help_names_every_flag(tmp_path: Path) -> None:
    helped = resettle("run", "--help", cwd=tmp_path)

    assert helped.code == 0
    for flag in UPSTREAM_FLAGS:
        assert flag.partition("=")[0] in helped.out


def test_an_unknown_flag_is_reported_before_what_is_missing(tmp_path: Path) -> None:
    write(tmp_path, {"policy.yaml": LIFETIME})

    done = resettle("run", "--polcy", "policy.yaml", cwd=tmp_path)

    assert (done.code, done.out) == (2, "")
    assert done.err == (
        "usage: resettle run --policy FILE [flags]\n"
        "resettle run: error: there is no flag --polcy; did you mean --policy?\n"
    )
