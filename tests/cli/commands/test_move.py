"""`resettle move` against the test API server: the job it creates, its progress, and its errors."""

from __future__ import annotations

import json
import signal
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from resettle.cli.commands import move
from resettle.cli.main import run
from resettle.controllers.migration.manifests.crd import pod_migration_job_crd
from resettle.testing import ApiServer, DeniedPermission, cluster, node, pod
from tests.cli.harness import RESETTLE, Done, accept_interrupts, resettle, surroundings

KIND = "PodMigrationJob"
WORLD = cluster(node("n1").holding(pod("cart-1", namespace="shop")))
ACCEPTED = {"type": "Arbitrated", "status": "True", "reason": "Accepted"}
HELD = {
    "type": "ReservationScheduled",
    "status": "True",
    "reason": "Scheduled",
    "message": "a place is held on n2",
}
ENDED = {
    "phase": "Succeeded",
    "reason": "Complete",
    "message": "shop/cart-2 is on n2, the reserved node, and ready",
}


@contextmanager
def serving(*, defined: bool = True, denied: tuple[DeniedPermission, ...] = ()) -> Iterator[Any]:
    """A test API server with one pod, and the definition of jobs if `defined`."""
    objects = [*([pod_migration_job_crd()] if defined else []), *WORLD.objects]
    with ApiServer(objects, denied=denied) as server:
        yield server


def move_pod(server: ApiServer, folder: Path, *words: str, name: str = "shop/cart-1") -> Done:
    config = server.kubeconfig(folder / "config")
    return resettle("move", name, "--kubeconfig", config, *words, cwd=folder)


def created_job(server: ApiServer) -> dict[str, Any]:
    """The only job."""
    (job,) = server.store.list(KIND)
    return dict(job)


def carry_out(server: ApiServer, *statuses: dict[str, Any]) -> threading.Thread:
    """Writes these statuses to the first job that appears, one after another."""

    def work() -> None:
        until = time.monotonic() + 30
        while not (jobs := server.store.list(KIND)) and time.monotonic() < until:
            time.sleep(0.05)
        for status in statuses:
            server.store.merge(KIND, jobs[0]["metadata"]["name"], {"status": status})
            time.sleep(1)

    thread = threading.Thread(target=work)
    thread.start()
    return thread


# -- the job ---------------------------------------------------------------------------------------


def test_a_job_is_created_for_the_pod_that_has_the_name_now(tmp_path: Path) -> None:
    with serving() as server:
        done = move_pod(server, tmp_path)
        job = created_job(server)
        uid = server.store.get("Pod", "cart-1", "shop")["metadata"]["uid"]

    assert done == (0, f"{job['metadata']['name']}\n", "")
    assert job["metadata"]["name"].startswith("cart-1-")
    assert job["metadata"]["labels"] == {"resettle.dev/created-by": "resettle-move"}
    assert job["spec"] == {"podRef": {"namespace": "shop", "name": "cart-1", "uid": uid}}


def test_flags_become_fields_of_the_job(tmp_path: Path) -> None:
    words = ("--mode", "ReservationFirst", "--to", "n2", "--ttl", "90s", "--steering", "Gate")
    with serving() as server:
        done = move_pod(server, tmp_path, *words, "--reason", "new memory", "-o", "json")
        job = created_job(server)

    assert done.code == 0
    assert json.loads(done.out)["metadata"]["name"] == job["metadata"]["name"]
    assert job["metadata"]["annotations"] == {"resettle.dev/evict-reason": "new memory"}
    spec = {key: value for key, value in job["spec"].items() if key != "podRef"}
    assert spec == {
        "mode": "ReservationFirst",
        "ttl": "1m30s",
        "reservationOptions": {"nodeName": "n2", "steering": "Gate"},
    }


# -- progress --------------------------------------------------------------------------------------


def test_each_change_is_shown_once_until_the_replacement_is_ready(tmp_path: Path) -> None:
    waits = {"type": "Arbitrated", "status": "False", "reason": "WaitingForLimit"}
    newer = {"type": "Blessed", "status": "True", "reason": "ByNewer"}
    with serving() as server:
        worker = carry_out(
            server,
            {"phase": "Pending", "conditions": [{**waits, "message": "2 pods move already"}]},
            {"phase": "Running", "conditions": [ACCEPTED]},
            {"phase": "Running", "conditions": [ACCEPTED, HELD, newer]},
            {"conditions": [ACCEPTED, HELD, newer], **ENDED},
        )
        done = move_pod(server, tmp_path, "--wait")
        worker.join()
        name = created_job(server)["metadata"]["name"]

    assert (done.code, done.out) == (0, f"{name}\n")
    assert done.err.splitlines() == [
        "waits: 2 pods move already",
        "accepted",
        "a place is held on n2",
        "Blessed is True: ByNewer",
        "done: shop/cart-2 is on n2, the reserved node, and ready",
    ]


def test_a_job_that_fails_ends_the_command_with_its_reason(tmp_path: Path) -> None:
    failed = {"phase": "Failed", "reason": "Unschedulable", "message": "no place in 60s"}
    with serving() as server:
        worker = carry_out(server, {"conditions": [ACCEPTED], **failed})
        done = move_pod(server, tmp_path, "--wait", "-o", "json")
        worker.join()
        name = created_job(server)["metadata"]["name"]

    assert done.code == 1
    assert json.loads(done.out)["status"]["phase"] == "Failed"
    assert done.err == f"accepted\nerror: job {name} failed: Unschedulable: no place in 60s\n"


def test_a_job_that_is_deleted_ends_the_command(tmp_path: Path) -> None:
    with serving() as server:
        server.store.subscribe(
            KIND,
            lambda change: threading.Thread(target=delete_jobs, args=(server,)).start(),
        )
        done = move_pod(server, tmp_path, "--wait")

    assert done.code == 1
    assert done.err.startswith("error: job cart-1-")
    assert done.err.endswith(" was deleted before it ended\n")


def delete_jobs(server: ApiServer) -> None:
    time.sleep(0.5)
    for job in server.store.list(KIND):
        server.store.delete(KIND, job["metadata"]["name"], "")


def test_an_interrupt_leaves_the_job_and_says_what_to_do_with_it(tmp_path: Path) -> None:
    with serving() as server:
        config = str(server.kubeconfig(tmp_path / "config"))
        words = ("move", "shop/cart-1", "--kubeconfig", config, "--wait")
        with subprocess.Popen(
            [*RESETTLE, *words],
            env=surroundings(),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            preexec_fn=accept_interrupts,
        ) as process:
            assert process.stdout is not None
            name = process.stdout.readline().strip()
            process.send_signal(signal.SIGINT)
            _, err = process.communicate(timeout=30)
        job = created_job(server)

    assert process.returncode == 130
    assert job["metadata"]["name"] == name
    assert f"job {name} goes on" in err
    assert f"kubectl get podmigrationjob {name} -o wide" in err
    assert f"kubectl annotate podmigrationjob {name} resettle.dev/abort=true" in err


def test_a_job_that_nothing_looks_at_is_warned_about_and_given_up_after_its_ttl(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(move, "POLL_SECONDS", 0.05)
    monkeypatch.setattr(move, "QUIET_SECONDS", 0.2)
    monkeypatch.setattr(move, "GRACE", timedelta())
    with serving() as server:
        config = str(server.kubeconfig(tmp_path / "config"))
        code = run(["move", "shop/cart-1", "--wait", "--ttl", "1s", "--kubeconfig", config])
        name = created_job(server)["metadata"]["name"]

    err = capsys.readouterr().err.splitlines()
    assert code == 1
    assert err[0] == (
        f"warning: nothing has looked at job {name} yet; is `resettle migration-controller`"
        " running?"
    )
    assert err[1].startswith(f"error: job {name} has not ended although its ttl is over")
    assert len(err) == 2


# -- errors ----------------------------------------------------------------------------------------


def test_an_unknown_pod_is_an_error(tmp_path: Path) -> None:
    with serving() as server:
        done = move_pod(server, tmp_path, name="shop/cart-9")
        assert server.store.list(KIND) == []

    says = "error: there is no pod shop/cart-9; see `kubectl get pods -n shop`\n"
    assert done == (1, "", says)


def test_without_the_definition_the_error_says_how_to_get_it(tmp_path: Path) -> None:
    with serving(defined=False) as server:
        done = move_pod(server, tmp_path)

    says = "error: the cluster has no PodMigrationJobs; apply what `resettle crds` prints\n"
    assert done == (1, "", says)


@pytest.mark.parametrize(
    ("denied", "says"),
    [
        pytest.param(
            DeniedPermission(verb="create", resource="podmigrationjobs"),
            "may not create podmigrationjobs of resettle.dev",
            id="to create jobs",
        ),
        pytest.param(
            DeniedPermission(verb="get", resource="pods"),
            "may not get pods in namespace shop",
            id="to read the pod",
        ),
    ],
)
def test_a_missing_permission_is_named(denied: DeniedPermission, says: str, tmp_path: Path) -> None:
    with serving(denied=(denied,)) as server:
        done = move_pod(server, tmp_path)

    assert (done.code, done.out) == (1, "")
    assert says in done.err


@pytest.mark.parametrize(
    ("words", "code", "says"),
    [
        pytest.param(["cart-1"], 2, "write NAMESPACE/NAME", id="no namespace"),
        pytest.param(["shop/cart-1", "--ttl", "0s"], 1, "is no time to wait", id="ttl of zero"),
        pytest.param(["shop/cart-1", "--ttl", "soon"], 1, "is not a duration", id="no time"),
        pytest.param(["shop/cart-1", "--mode", "Teleport"], 2, "invalid choice", id="mode"),
        pytest.param(
            ["shop/cart-1", "--mode", "EvictDirectly", "--to", "n2"],
            2,
            "holds no place: leave out --to and --steering",
            id="a node without a place",
        ),
    ],
)
def test_wrong_flags_are_refused_before_anything_is_sent(
    words: list[str], code: int, says: str, tmp_path: Path
) -> None:
    done = resettle("move", *words, cwd=tmp_path)

    assert (done.code, done.out) == (code, "")
    assert says in done.err


def test_help_has_examples(tmp_path: Path) -> None:
    done = resettle("move", "--help", cwd=tmp_path)

    assert done.code == 0
    assert "$ resettle move shop/cart-1 --wait" in done.out
    assert "resettle.dev/abort=true" in done.out
