"""Being turned away by a real API server: one line that says what to do, and exit code 1."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import trustme
import yaml

from tests.e2e.cluster.service_accounts import account, resettle, way_in
from tests.e2e.cluster.workspace import Room
from tests.e2e.processes.command import Done, lifetime
from tools.control_plane.papers import ADMIN, kubeconfig
from tools.control_plane.plane import Access

EVERYTHING = [
    {"apiGroups": [""], "resources": ["nodes", "pods"], "verbs": ["list", "watch"]},
    {"apiGroups": ["policy"], "resources": ["poddisruptionbudgets"], "verbs": ["list", "watch"]},
    {"apiGroups": [""], "resources": ["pods/eviction"], "verbs": ["create"]},
    {"apiGroups": ["events.k8s.io"], "resources": ["events"], "verbs": ["create"]},
]
COMMANDS = [("plan",), ("check-access",), ("run", "--dry-run")]
"""What `run` does before it ends stands in its log, above the line that says why."""


def written(folder: Path, config: dict[str, Any]) -> Path:
    file = folder / "config"
    file.write_text(json.dumps(config))
    return file


def asked(command: tuple[str, ...], config: Path, folder: Path) -> Done:
    """How the command ends for somebody with this kubeconfig."""
    policy = folder / "policy.json"
    policy.write_text(json.dumps(lifetime("descheduler/v1alpha2", "nowhere")))
    done = resettle(*command, "--kubeconfig", str(config), "--policy", str(policy))
    if command[0] != "run":
        return done
    return done._replace(err="".join(done.err.splitlines(keepends=True)[-1:]))


every_command = pytest.mark.parametrize("command", COMMANDS, ids=lambda words: words[0])


@every_command
def test_a_token_that_nobody_gave_is_not_accepted(
    command: tuple[str, ...], plane: Access, tmp_path: Path
) -> None:
    config = written(tmp_path, kubeconfig(plane.url, plane.papers.ca, "made-up"))

    done = asked(command, config, tmp_path)

    says = f"error: {plane.url} does not accept the credentials; renew them\n"
    assert done == (1, "", says)


@every_command
def test_a_client_certificate_that_has_ended_is_named_with_its_time(
    command: tuple[str, ...], plane: Access, tmp_path: Path
) -> None:
    config: Any = kubeconfig(plane.url, plane.papers.ca, "")
    pair = str(plane.papers.expired)
    config["users"][0]["user"] = {"client-certificate": pair, "client-key": pair}
    file = written(tmp_path, config)

    done = asked(command, file, tmp_path)

    says = (
        f"error: {plane.url} does not accept the credentials: the client certificate in {file} "
        "expired at 2021-03-04T05:06:07Z; renew it\n"
    )
    assert done == (1, "", says)


@every_command
def test_somebody_without_credentials_is_told_to_bring_some(
    command: tuple[str, ...], plane: Access, tmp_path: Path
) -> None:
    config = written(tmp_path, kubeconfig(plane.url, plane.papers.ca, ""))

    done = asked(command, config, tmp_path)

    says = (
        f"error: {plane.url} takes us for system:anonymous; add a token, a client certificate or "
        f"an `exec` command to {config}\n"
    )
    assert done == (1, "", says)


@every_command
def test_a_server_vouched_for_by_somebody_else_is_not_trusted(
    command: tuple[str, ...], plane: Access, tmp_path: Path
) -> None:
    stranger = tmp_path / "stranger.pem"
    trustme.CA().cert_pem.write_to_path(stranger)
    token = plane.papers.token(ADMIN)
    config = written(tmp_path, kubeconfig(plane.url, stranger, token))

    done = asked(command, config, tmp_path)

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
        pytest.param(None, "there is no file `FILE`; check the path\n", id="gone"),
        pytest.param(b"\xff", "line 1 of `FILE` is not UTF-8 text; save", id="not text"),
        pytest.param(b"a: [b", "FILE has 1 problem\n", id="not YAML"),
    ],
)
def test_a_policy_that_cannot_be_read_is_told_before_anybody_is_asked(
    command: tuple[str, ...], content: bytes | None, says: str, plane: Access, tmp_path: Path
) -> None:
    file = tmp_path / "policy.yaml"
    if content is not None:
        file.write_bytes(content)

    words = ("--kubeconfig", str(plane.papers.kubeconfig(ADMIN)), "--policy", str(file))
    done = resettle(*command, *words)

    assert (done.code, done.out) == (1, "")
    assert done.err.startswith(f"error: {says}".replace("FILE", str(file))), done.err


def test_a_right_that_is_missing_is_named_with_its_rule(
    plane: Access, room: Room, tmp_path: Path
) -> None:
    user = account(room, [EVERYTHING[0], *EVERYTHING[2:]])

    done = asked(("plan",), way_in(plane, room, tmp_path), tmp_path)

    says = (
        f"error: {user} may not list poddisruptionbudgets of policy; add to its ClusterRole: "
        'apiGroups: ["policy"], resources: ["poddisruptionbudgets"], verbs: ["list"]\n'
    )
    assert done == (1, "", says)


# -- check-access --------------------------------------------------------------------------------


def test_an_account_with_the_rules_that_are_asked_for_lacks_nothing(
    plane: Access, room: Room, tmp_path: Path
) -> None:
    account(room, EVERYTHING)

    done = asked(("check-access",), way_in(plane, room, tmp_path), tmp_path)

    assert (done.code, done.err, "NO" in done.out) == (0, "", False), done.out


def test_the_rules_that_are_printed_are_the_rules_that_are_missing(
    plane: Access, room: Room, tmp_path: Path
) -> None:
    """An account with nothing but reading is given just what the command prints."""
    account(room, EVERYTHING[:1])
    config = way_in(plane, room, tmp_path)

    lacking = asked(("check-access",), config, tmp_path)

    assert lacking.code == 1
    printed = yaml.safe_load(lacking.out.partition("\n\n")[2])["rules"]
    assert printed == EVERYTHING[1:]
    account(room, printed, name="the-rest")
    assert asked(("check-access",), config, tmp_path).code == 0


def test_the_right_to_lead_is_checked_on_the_lease_itself(
    plane: Access, room: Room, tmp_path: Path
) -> None:
    account(room, EVERYTHING)
    words = ("check-access", "--leader-elect", "--leader-elect-resource-namespace", room.name)

    done = asked(words, way_in(plane, room, tmp_path), tmp_path)

    missing = [line.split()[1] for line in done.out.splitlines() if line.startswith("NO")]
    assert (done.code, missing) == (1, ["create", "get", "update"])
