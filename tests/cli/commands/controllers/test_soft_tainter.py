"""`resettle soft-tainter`: its flags, what it needs to be allowed, and how it ends."""

from __future__ import annotations

import json
import signal
import subprocess
from pathlib import Path

import pytest

from resettle.cli.commands.controllers.soft_tainter import taint_settings
from resettle.cli.main import build_parser
from resettle.controllers.soft_taints.reconcile import Mode
from resettle.controllers.soft_taints.runner import TaintSettings
from resettle.errors import InputError
from resettle.kube.leader_election.lease import LeaseSettings
from resettle.testing import ApiServer
from tests.cli.harness import RESETTLE, Done, resettle, surroundings
from tests.controllers.soft_taints.harness import SOFT, full, policy

POLICY = ("--policy", "policy.json")
NEEDED = """\
ALLOWED  VERB    RESOURCE                                          NAMESPACE
yes      list    nodes                                             all
yes      watch   nodes                                             all
yes      list    pods                                              all
yes      watch   pods                                              all
yes      get     nodes                                             all
yes      patch   nodes                                             all
yes      create  leases.coordination.k8s.io                        kube-system
yes      get     leases.coordination.k8s.io/resettle-soft-tainter  kube-system
yes      update  leases.coordination.k8s.io/resettle-soft-tainter  kube-system
"""


def settings(*words: str) -> TaintSettings:
    return taint_settings(build_parser().parse_args(["soft-tainter", *words]))


def test_by_default_it_looks_every_minute_and_taints() -> None:
    chosen = settings(*POLICY)

    assert (chosen.policy_file, chosen.interval) == ("policy.json", 60)
    assert (chosen.mode, chosen.lease) == (Mode.TAINT, None)


def test_each_flag_counts() -> None:
    assert settings(*POLICY, "--interval=30s").interval == 30
    assert settings(*POLICY, "--once").interval == 0
    assert settings(*POLICY, "--dry-run").mode is Mode.DRY_RUN
    assert settings("--remove-only").mode is Mode.REMOVE_ONLY
    assert settings("--remove-only", "--prefix=a.b", "--prefix=c").prefixes == ("a.b", "c")
    assert settings(*POLICY, "--leader-elect").lease == LeaseSettings(name="resettle-soft-tainter")


@pytest.mark.parametrize(
    ("words", "says"),
    [
        pytest.param(
            [], "--policy is missing; it is optional only with --remove-only", id="no policy"
        ),
        pytest.param(
            [*POLICY, "--dry-run", "--remove-only"],
            "--dry-run and --remove-only cannot be used together; keep one of them",
            id="two modes",
        ),
        pytest.param(
            [*POLICY, "--prefix=a.b"],
            "--prefix is for --remove-only; the prefix of new taints is `softTaints.prefix` of the "
            "policy",
            id="a prefix to taint with",
        ),
        pytest.param(
            ["--remove-only", "--prefix=a/b"],
            "--prefix: `a/b` is not a valid prefix of a taint key; write a domain such as "
            "`nodeutilization.descheduler.kubernetes.io`",
            id="a prefix that no key has",
        ),
        pytest.param(
            ["--policy=-"],
            "--policy: the policy is read before every round, so stdin cannot be used; name a file",
            id="a policy that cannot be read twice",
        ),
        pytest.param(
            [*POLICY, "--interval=0"],
            "--interval is 0; give it a time such as 1m, or --once for a single round",
            id="no interval",
        ),
        pytest.param(
            [*POLICY, "--interval=soon"],
            "--interval: `soon` is not a duration; write one such as 5m or 90s",
            id="a word for an interval",
        ),
        pytest.param(
            [*POLICY, "--once", "--leader-elect"],
            "--leader-elect has no use for a single cycle; remove --once",
            id="a lease for one round",
        ),
    ],
)
def test_a_usage_error_is_reported(words: list[str], says: str) -> None:
    with pytest.raises(InputError) as error:
        settings(*words)

    assert str(error.value) == says


# -- in a process of its own ---------------------------------------------------------------------


def ended(folder: Path, api_server: ApiServer, *words: str) -> Done:
    (folder / "policy.json").write_text(json.dumps(policy()))
    config = api_server.kubeconfig(folder / "config")
    given = ("--kubeconfig", config, "--secure-port=0")
    return resettle("soft-tainter", *given, *words, cwd=folder)


def taints(api_server: ApiServer, name: str) -> int:
    found = api_server.store.get("Node", name)
    assert found is not None
    return len(found["spec"].get("taints") or ())


def test_one_round_taints_what_is_too_full_and_says_so(tmp_path: Path) -> None:
    with ApiServer([*full("hot", 90), *full("cool", 10)]) as api_server:
        done = ended(tmp_path, api_server, *POLICY, "--once")

        assert (done.code, done.out) == (0, "")
        assert [taints(api_server, name) for name in ("hot", "cool")] == [1, 0]
        events = [line.split(" ", 2)[2].partition(" node")[0] for line in done.err.splitlines()]
        assert events[1:] == ["tainted", "round done"], done.err


def test_after_an_uninstall_no_policy_is_needed_to_clean_up(tmp_path: Path) -> None:
    with ApiServer(full("hot", 90, SOFT)) as api_server:
        done = ended(tmp_path, api_server, "--remove-only", "--once")

        assert (done.code, taints(api_server, "hot")) == (0, 0)


def test_a_bad_policy_is_reported_before_a_cluster_is_looked_for(tmp_path: Path) -> None:
    (tmp_path / "policy.json").write_text(json.dumps(policy(softTaints={"levels": 99})))

    done = resettle("soft-tainter", "--kubeconfig=none", *POLICY, cwd=tmp_path)

    assert (done.code, done.out) == (1, "")
    assert "softTaints.levels\n    99 is out of range; write a whole number from 1" in done.err


def test_it_stops_when_asked_to(tmp_path: Path) -> None:
    with ApiServer(full("hot", 90)) as api_server:
        (tmp_path / "policy.json").write_text(json.dumps(policy()))
        config = api_server.kubeconfig(tmp_path / "config")
        given = ["--kubeconfig", str(config), "--secure-port=0", *POLICY]
        words = [*RESETTLE, "soft-tainter", *given]
        with subprocess.Popen(
            words, cwd=tmp_path, env=surroundings(), stderr=subprocess.PIPE, text=True
        ) as running:
            assert running.stderr is not None
            said = []
            for line in running.stderr:
                said.append(line)
                if "round done" in line:
                    running.send_signal(signal.SIGTERM)
            assert running.wait() == 0, said
        assert "stopping" in said[-1]
        assert taints(api_server, "hot") == 1, "it comes back soon; who goes for good removes them"


def test_what_it_needs_to_be_allowed_is_asked_of_its_own(tmp_path: Path) -> None:
    (tmp_path / "policy.json").write_text(json.dumps(policy()))
    with ApiServer() as api_server:
        config = api_server.kubeconfig(tmp_path / "config")
        words = ("--kubeconfig", config, *POLICY, "--leader-elect", "--component=soft-tainter")
        done = resettle("check-access", *words, cwd=tmp_path)

    assert done == (0, NEEDED, "")
