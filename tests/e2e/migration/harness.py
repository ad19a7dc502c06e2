"""PodMigrationJobs on a real control plane: their controller as a process, and jobs by hand."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from resettle.model.migration_job import JOBS_PATH, PodReference, build_job
from tests.e2e.cluster.policies import OURS, UNLIMITED, policy
from tests.e2e.cluster.workspace import Workspace, eventually, poll
from tests.e2e.migration.account import ControllerAccount
from tests.e2e.processes.run import Policy, Run
from tools.control_plane.api import Api, Object

Args = dict[str, Any]
FAST: Args = {"arbitrationInterval": "100ms", "defaultJobTTL": "30s", "reserveTimeout": "5s"}
DIRECTLY: Args = {"defaultJobMode": "EvictDirectly", "steering": "None"}
RESERVING: Args = {
    "defaultJobMode": "ReservationFirst",
    "steering": "Soft",
    "reserveTimeout": "60s",
}
MODES = {"EvictDirectly": DIRECTLY, "ReservationFirst": RESERVING}
"""Arguments of MigrationController for each mode."""
STRATEGY, ARGS = "RemovePodsHavingTooManyRestarts", {"podRestartThreshold": 40}
"""Replacements have not restarted yet, so each pod is moved once."""
TERMINAL = ("Succeeded", "Failed", "Aborted")


def job_policy(
    account: ControllerAccount,
    *,
    evictor: Mapping[str, Any] | None = None,
    plugins: Mapping[str, Mapping[str, Any]] | None = None,
    config: Mapping[str, Mapping[str, Any]] | None = None,
    **args: Any,
) -> Policy:
    """A policy whose one profile moves pods by jobs; `args` are those of MigrationController."""
    configured = {
        "MigrationController": {**FAST, "namespace": account.namespace, **args},
        "DefaultEvictor": {"minPodAge": "0s", "minReplicas": 0, **(evictor or {})},
        **(config or {}),
    }
    return {
        "apiVersion": OURS,
        "kind": "DeschedulerPolicy",
        **UNLIMITED,
        "profiles": [
            {
                "name": "jobs",
                "pluginConfig": [{"name": name, "args": args} for name, args in configured.items()],
                "plugins": {"evict": {"enabled": ["MigrationController"]}, **(plugins or {})},
            }
        ],
    }


def strategy_policy(
    namespace: str,
    *workspaces: Workspace,
    evictor: Mapping[str, Any] | None = None,
    plugins: Mapping[str, Mapping[str, Any]] | None = None,
    top: Mapping[str, Any] | None = None,
    **args: Any,
) -> Policy:
    """A policy that moves pods with many restarts by jobs, which evict directly.

    Placeholders would be in `namespace`; `args` are those of MigrationController, the others
    those of `policy`.
    """
    mover = {**FAST, **DIRECTLY, "namespace": namespace, **args}
    return policy(
        OURS,
        STRATEGY,
        ARGS,
        *workspaces,
        evictor={"minReplicas": 0, **(evictor or {})},
        plugins={"evict": {"MigrationController": mover}, **(plugins or {})},
        top=top,
    )


def start_controller(account: ControllerAccount, folder: Path, policy: Policy, *words: str) -> Run:
    """`resettle migration-controller` with this policy, as the shipped account."""
    file = folder / "jobs.policy.json"
    file.write_text(json.dumps(policy))
    return Run(account.kubeconfig, file, *words, command="migration-controller")


def create_job(api: Api, pod: Object, name: str = "", **spec: Any) -> str:
    """Creates a job for the pod, as a person would; returns its name."""
    meta = pod["metadata"]
    manifest = build_job(PodReference(meta["namespace"], meta["name"]), name=name)
    manifest["spec"] |= spec
    created: str = api.post(JOBS_PATH, manifest).granted()["metadata"]["name"]
    return created


def read_job(api: Api, name: str) -> Object:
    """The job as the API server has it."""
    return api.get(f"{JOBS_PATH}/{name}").granted()


def job_names(api: Api) -> list[str]:
    """The names of all jobs."""
    return [job["metadata"]["name"] for job in api.items(JOBS_PATH)]


def job_status(api: Api, name: str) -> Object:
    """The status of the job; empty while there is none."""
    status: Object = read_job(api, name).get("status") or {}
    return status


def wait_for_end(api: Api, name: str, controller: Run | None = None) -> Object:
    """Waits until the job has ended; returns its status."""
    status: Object = {}

    def has_ended() -> bool:
        status.clear()
        status.update(job_status(api, name))
        return status.get("phase") in TERMINAL

    try:
        eventually(f"the end of job {name}", has_ended)
    except AssertionError as error:
        log = controller.log_text if controller else ""
        raise AssertionError(f"{error}; {json.dumps(status)}\n{log}") from None
    return status


def wait_for_ends(
    api: Api, names: Iterable[str], controller: Run | None = None, seconds: float = 240
) -> dict[str, Object]:
    """Waits until all these jobs have ended; returns their statuses by name."""
    wanted = set(names)
    statuses: dict[str, Object] = {}
    for _ in poll(seconds, pause=0.2):
        jobs = {job["metadata"]["name"]: job for job in api.items(JOBS_PATH)}
        statuses = {name: jobs[name].get("status") or {} for name in wanted & jobs.keys()}
        if all(statuses.get(name, {}).get("phase") in TERMINAL for name in wanted):
            return statuses
        if controller is not None and controller.has_ended:
            break
    going_on = [
        f"{name}: {json.dumps(statuses.get(name))}"
        for name in sorted(wanted)
        if statuses.get(name, {}).get("phase") not in TERMINAL
    ]
    log = controller.log_text if controller else ""
    raise AssertionError("\n".join([f"{len(going_on)} jobs have not ended", *going_on, log]))


def wait_for_message(api: Api, name: str, text: str) -> Object:
    """Waits until the status of the job has this text in its message; returns the status."""
    status: Object = {}

    def says_so() -> bool:
        status.clear()
        status.update(job_status(api, name))
        return text in (status.get("message") or "")

    try:
        eventually(f"`{text}` in the status of {name}", says_so)
    except AssertionError as error:
        raise AssertionError(f"{error}; {json.dumps(status)}") from None
    return status


def remove_jobs(api: Api) -> None:
    """Deletes all jobs, so that no controller of a later test works on them."""
    api.delete(JOBS_PATH)
    eventually("no jobs", lambda: not api.items(JOBS_PATH))


def conditions_of(status: Object) -> dict[str, tuple[str, str]]:
    """Status and reason of each condition, by type."""
    return {
        condition["type"]: (condition["status"], condition.get("reason", ""))
        for condition in status.get("conditions") or ()
    }


def list_placeholders(api: Api, account: ControllerAccount) -> list[Object]:
    """The placeholder pods that exist."""
    return api.items(f"/api/v1/namespaces/{account.namespace}/pods")


def leftovers(api: Api, account: ControllerAccount) -> list[str]:
    """What jobs have left behind: placeholders, taints, gates and PriorityClasses."""
    classes = api.items("/apis/scheduling.k8s.io/v1/priorityclasses")
    return [
        *(pod["metadata"]["name"] for pod in list_placeholders(api, account)),
        *(
            f"taint on {node['metadata']['name']}"
            for node in api.items("/api/v1/nodes")
            for taint in node["spec"].get("taints") or ()
            if taint["key"] == "resettle.dev/moving-away"
        ),
        *(
            f"gate on {pod['metadata']['name']}"
            for pod in api.items("/api/v1/pods")
            for gate in pod["spec"].get("schedulingGates") or ()
            if gate["name"] == "resettle.dev/place-held"
        ),
        *(
            item["metadata"]["name"]
            for item in classes
            if item["metadata"]["name"].startswith("resettle-")
        ),
    ]


def wait_until_clean(api: Api, account: ControllerAccount) -> None:
    """Waits until nothing of any job is left."""
    left: list[str] = []

    def is_clean() -> bool:
        left[:] = leftovers(api, account)
        return not left

    try:
        eventually("nothing left of jobs", is_clean)
    except AssertionError:
        raise AssertionError(f"left behind: {left}") from None


def pods_by_node(pods: Iterable[Object]) -> dict[str, list[str]]:
    """Names of pods by the node that they are on."""
    by_node: dict[str, list[str]] = {}
    for pod in pods:
        by_node.setdefault(pod["spec"].get("nodeName", ""), []).append(pod["metadata"]["name"])
    return by_node


def pod_on(workspace: Workspace, node: str) -> Object:
    """A ready pod of the workspace on this node."""
    return next(pod for pod in workspace.list_ready_pods() if pod["spec"].get("nodeName") == node)
