"""A real API server refuses access: one line that says what to do, and exit code 1."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import trustme
import yaml

from tests.e2e.cluster.service_accounts import create_account, run_resettle, write_kubeconfig
from tests.e2e.cluster.workspace import Workspace
from tests.e2e.processes.command import Done, life_time_policy
from tools.control_plane.papers import ADMIN, kubeconfig
from tools.control_plane.plane import Access

EVERYTHING = [
    {"apiGroups": [""], "resources": ["nodes", "pods"], "verbs": ["list", "watch"]},
    {"apiGroups": ["policy"], "resources": ["poddisruptionbudgets"], "verbs": ["list", "watch"]},
    {"apiGroups": [""], "resources": ["pods/eviction"], "verbs": ["create"]},
    {"apiGroups": ["events.k8s.io"], "resources": ["events"], "verbs": ["create"]},
]
COMMANDS = [("plan",), ("check-access",), ("run", "--dry-run")]
"""`run` prints its log before the line with the error."""


def write_config(folder: Path, config: dict[str, Any]) -> Path:
    file = folder / "config"
    file.write_text(json.dumps(config))
    return file


def run_command(command: tuple[str, ...], config: Path, folder: Path) -> Done:
    """Runs the command with this kubeconfig; returns its exit code and output."""
    policy = folder / "policy.json"
    policy.write_text(json.dumps(life_time_policy("descheduler/v1alpha2", "no-such-namespace")))
    done = run_resettle(*command, "--kubeconfig", str(config), "--policy", str(policy))
    if command[0] != "run":
        return done
    return done._replace(err="".join(done.err.splitlines(keepends=True)[-1:]))


every_command = pytest.mark.parametrize("command", COMMANDS, ids=lambda words: words[0])


@every_command
def test_an_invalid_token_is_not_accepted(
    command: tuple[str, ...], plane: Access, tmp_path: Path
) -> None:
    config = write_config(tmp_path, kubeconfig(plane.url, plane.papers.ca, "made-up"))

    done = run_command(command, config, tmp_path)

    says = f"error: {plane.url} does not accept the credentials; renew them\n"
    assert done == (1, "", says)


@every_command
def test_an_expired_client_certificate_is_named_with_its_time(
    command: tuple[str, ...], plane: Access, tmp_path: Path
) -> None:
    config: Any = kubeconfig(plane.url, plane.papers.ca, "")
    pair = str(plane.papers.expired)
    config["users"][0]["user"] = {"client-certificate": pair, "client-key": pair}
    file = write_config(tmp_path, config)

    done = run_command(command, file, tmp_path)

    says = (
        f"error: {plane.url} does not accept the credentials: the client certificate in {file} "
        "expired at 2021-03-04T05:06:07Z; renew it\n"
    )
    assert done == (1, "", says)


@every_command
def test_an_error_says_how_to_add_missing_credentials(
    command: tuple[str, ...], plane: Access, tmp_path: Path
) -> None:
    config = write_config(tmp_path, kubeconfig(plane.url, plane.papers.ca, ""))

    done = run_command(command, config, tmp_path)

    says = (
        f"error: {plane.url} takes us for system:anonymous; add a token, a client certificate or "
        f"an `exec` command to {config}\n"
    )
    assert done == (1, "", says)


@every_command
def test_a_server_with_a_certificate_of_another_ca_is_not_trusted(
    command: tuple[str, ...], plane: Access, tmp_path: Path
) -> None:
    other_ca = tmp_path / "other-ca.pem"
    trustme.CA().cert_pem.write_to_path(other_ca)
    token = plane.papers.token(ADMIN)
    config = write_config(tmp_path, kubeconfig(plane.url, other_ca, token))

    done = run_command(command, config, tmp_path)

    assert (done.code, done.out) == (1, "")
    before, _, after = done.err.partition("(")
    assert before == f"error: {plane.url} cannot be reached: its certificate is not trusted "
    assert after.partition("); ")[2] == (
        f"check `certificate-authority` and `tls-server-name` in {config}\n"
    )


@pytest.mark.parametrize("command", COMMANDS, ids=lambda words: words[0])
@pytest.mark.parametrize(
    ("content", "says"),
    [
        pytest.param(None, "there is no file `FILE`; check the path\n", id="no file"),
        pytest.param(b"\xff", "line 1 of `FILE` is not UTF-8 text; save", id="not text"),
        pytest.param(b"a: [b", "FILE has 1 problem\n", id="not YAML"),
    ],
)
def test_a_policy_that_cannot_be_read_is_an_error_before_any_request(
    command: tuple[str, ...], content: bytes | None, says: str, plane: Access, tmp_path: Path
) -> None:
    file = tmp_path / "policy.yaml"
    if content is not None:
        file.write_bytes(content)

    words = ("--kubeconfig", str(plane.papers.kubeconfig(ADMIN)), "--policy", str(file))
    done = run_resettle(*command, *words)

    assert (done.code, done.out) == (1, "")
    assert done.err.startswith(f"error: {says}".replace("FILE", str(file))), done.err


def test_a_missing_permission_is_named_with_its_rule(
    plane: Access, workspace: Workspace, tmp_path: Path
) -> None:
    user = create_account(workspace, [EVERYTHING[0], *EVERYTHING[2:]])

    done = run_command(("plan",), write_kubeconfig(plane, workspace, tmp_path), tmp_path)

    says = (
        f"error: {user} may not list poddisruptionbudgets of policy; add to its ClusterRole: "
        'apiGroups: ["policy"], resources: ["poddisruptionbudgets"], verbs: ["list"]\n'
    )
    assert done == (1, "", says)


# -- check-access --------------------------------------------------------------------------------


def test_an_account_with_the_required_rules_lacks_nothing(
    plane: Access, workspace: Workspace, tmp_path: Path
) -> None:
    create_account(workspace, EVERYTHING)

    done = run_command(("check-access",), write_kubeconfig(plane, workspace, tmp_path), tmp_path)

    assert (done.code, done.err, "NO" in done.out) == (0, "", False), done.out


def test_the_printed_rules_are_the_missing_ones(
    plane: Access, workspace: Workspace, tmp_path: Path
) -> None:
    """An account that may only read is granted what the command prints."""
    create_account(workspace, EVERYTHING[:1])
    config = write_kubeconfig(plane, workspace, tmp_path)

    lacking = run_command(("check-access",), config, tmp_path)

    assert lacking.code == 1
    printed = yaml.safe_load(lacking.out.partition("\n\n")[2])["rules"]
    assert printed == EVERYTHING[1:]
    create_account(workspace, printed, name="the-rest")
    assert run_command(("check-access",), config, tmp_path).code == 0


def test_leader_election_permissions_are_checked_on_the_lease(
    plane: Access, workspace: Workspace, tmp_path: Path
) -> None:
    create_account(workspace, EVERYTHING)
    words = ("check-access", "--leader-elect", "--leader-elect-resource-namespace", workspace.name)

    done = run_command(words, write_kubeconfig(plane, workspace, tmp_path), tmp_path)

    missing = [line.split()[1] for line in done.out.splitlines() if line.startswith("NO")]
    assert (done.code, missing) == (1, ["create", "get", "update"])
