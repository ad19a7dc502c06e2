"""`resettle migration-controller` as a process: what it reads besides jobs and pods."""

from __future__ import annotations

import json
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from resettle.controllers.migration.manifests.crd import pod_migration_job_crd
from resettle.model.migration_job import PodReference, build_job
from resettle.testing import ApiServer, cluster, definition, node, pod, workload
from resettle.testing.builders import Object
from tests.cli.harness import RESETTLE, surroundings

SECONDS = 30
GROUP, VERSION = "apps.kruise.io", "v1alpha1"


def policy(**limits: Any) -> Object:
    """A policy for jobs that evict directly, with these arguments of MigrationLimits."""
    mover = {"defaultJobMode": "EvictDirectly", "steering": "None", "arbitrationInterval": "50ms"}
    args = {
        "MigrationController": mover,
        "MigrationLimits": limits,
        "DefaultEvictor": {"minPodAge": "0s", "minReplicas": 0},
    }
    enabled = {"evict": ["MigrationController"], "filter": ["MigrationLimits"]}
    return {
        "apiVersion": "resettle/v1",
        "kind": "DeschedulerPolicy",
        "deleteOptions": {"gracePeriodSeconds": 0},
        "profiles": [
            {
                "name": "jobs",
                "pluginConfig": [{"name": name, "args": args[name]} for name in args],
                "plugins": {point: {"enabled": names} for point, names in enabled.items()},
            }
        ],
    }


@contextmanager
def controller(folder: Path, server: ApiServer, chosen: Object) -> Iterator[None]:
    """The process, at work while the block lasts; it has to stop without an error."""
    (folder / "policy.json").write_text(json.dumps(chosen))
    config = server.kubeconfig(folder / "config")
    words = ["--kubeconfig", str(config), "--policy", "policy.json", "--secure-port=0"]
    with subprocess.Popen(
        [*RESETTLE, "migration-controller", *words],
        cwd=folder,
        env=surroundings(),
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            yield
        finally:
            process.send_signal(signal.SIGTERM)
            _, log = process.communicate(timeout=SECONDS)
    assert process.returncode == 0, log


def wait_for_status(
    server: ApiServer, name: str, check: Callable[[dict[str, Any]], bool]
) -> dict[str, Any]:
    """The status of the job once it passes the check."""
    status: dict[str, Any] = {}
    deadline = time.monotonic() + SECONDS
    while time.monotonic() < deadline:
        job = server.store.get("PodMigrationJob", name, "")
        status = (job or {}).get("status") or {}
        if check(status):
            return status
        time.sleep(0.02)
    raise AssertionError(status)


def job(pod_name: str) -> Object:
    """A job for the pod, with its name."""
    return build_job(PodReference("default", pod_name), name=pod_name)


def is_judged(status: dict[str, Any]) -> bool:
    """Whether the job has ended, or says what it waits for."""
    return status.get("phase") in ("Succeeded", "Failed") or bool(status.get("message"))


def test_an_eviction_counts_for_limits_over_time_although_its_job_was_deleted(
    tmp_path: Path,
) -> None:
    world = cluster(
        node("n1").holding(pod("web-1"), pod("web-2"), pod("web-3")),
        node("n2"),
        workload("ReplicaSet/web", replicas=3),
    )
    hourly = {"workload": {"duration": "1h", "maxMigrating": 1}}
    chosen = policy(objectLimiters=hourly, skipEvictionGates=["MaxUnavailablePerWorkload"])

    with (
        ApiServer([*world.objects, pod_migration_job_crd(), job("web-1")]) as server,
        controller(tmp_path, server, chosen),
    ):
        first = wait_for_status(server, "web-1", lambda status: "finishedAt" in status)
        server.store.delete("PodMigrationJob", "web-1", "")
        server.store.put(job("web-2"))
        second = wait_for_status(server, "web-2", is_judged)

    assert first["phase"] == "Succeeded", first
    assert (second["phase"], second["reason"]) == ("Pending", "WaitingForLimit"), second
    assert "ReplicaSet web" in second["message"], second


def test_the_replicas_of_other_kinds_are_read_from_their_scale(tmp_path: Path) -> None:
    owner = {
        "apiVersion": f"{GROUP}/{VERSION}",
        "kind": "CloneSet",
        "name": "web",
        "uid": "uid-web",
        "controller": True,
    }
    clone_set = {
        "apiVersion": f"{GROUP}/{VERSION}",
        "kind": "CloneSet",
        "metadata": {"name": "web", "namespace": "default", "uid": "uid-web"},
        "spec": {"replicas": 1},
    }
    world = cluster(
        node("n1").holding(pod("web-1", metadata={"ownerReferences": [owner]})), node("n2")
    )
    kinds = [
        definition("CloneSet", group=GROUP, version=VERSION, scale=True),
        pod_migration_job_crd(),
    ]
    chosen = policy(scaleKinds=[f"{GROUP}/{VERSION}/CloneSet"])

    with (
        ApiServer([*world.objects, *kinds, clone_set, job("web-1")]) as server,
        controller(tmp_path, server, chosen),
    ):
        status = wait_for_status(server, "web-1", is_judged)

    assert (status["phase"], status["reason"]) == ("Failed", "ForbiddenMigratePod"), status
    says = "MigrationLimits does not let default/web-1 leave: it is the only pod that CloneSet web"
    assert status["message"].startswith(says), status
