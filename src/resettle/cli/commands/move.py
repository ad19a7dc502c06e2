"""`resettle move`: move one pod now, by a job that the migration controller carries out.

The job is for the pod that has the name now; if another pod takes the name, the job ends. With
`--wait` the progress goes to stderr, so that stdout has the name of the job and nothing else.
"""

from __future__ import annotations

import argparse
import sys
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from resettle.cli.commands.explain import parse_pod_key
from resettle.cli.daemon import INTERRUPTED
from resettle.cli.flags.common import (
    add_context_flag,
    add_kubeconfig_flag,
    add_switch,
    parse_seconds,
)
from resettle.errors import ClusterError, ClusterUnreachable, InputError

if TYPE_CHECKING:
    from resettle.kube.transport.client import Answer, Client
    from resettle.model.migration_job import JobOptions, MigrationJob, PodReference

MODES = ("ReservationFirst", "EvictDirectly")
STEERINGS = ("None", "Soft", "Hard", "Gate")
CREATOR = "resettle-move"
"""What the label `created-by` of these jobs says."""
POLL_SECONDS = 0.5
QUIET_SECONDS = 10.0
"""How long a job may stay without any condition until a warning says so."""
GRACE = timedelta(minutes=1)
"""How long after its ttl a job is waited for."""
_EXAMPLE = """\
examples:
  $ resettle move shop/cart-1
  $ resettle move shop/cart-1 --wait
  $ resettle move shop/cart-1 --to node-3 --wait --reason "node-1 gets new memory"
  $ resettle move shop/cart-1 --mode EvictDirectly --ttl 2m
  $ resettle move shop/cart-1 -o json

Needs `resettle crds` applied and `resettle migration-controller` running. To look at the job and
to stop it:
  $ kubectl get podmigrationjob NAME -o wide
  $ kubectl annotate podmigrationjob NAME resettle.dev/abort=true

exit codes:
  0 the job was created, and with --wait it succeeded: the replacement is ready, or with
  EvictDirectly the pod is gone; 1 the job was not created or has failed; 2 usage error;
  130 interrupted, the job goes on
"""


class ServerBusy(ClusterError):
    """The API server could not answer just now."""


def register(subcommands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add `move` to the command line."""
    summary = "Move one pod to another node, with a place held for its replacement."
    command = subcommands.add_parser(
        "move",
        help=summary,
        description=summary,
        epilog=_EXAMPLE,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    command.add_argument("pod", metavar="NAMESPACE/POD", type=parse_pod_key, help="the pod")
    command.add_argument(
        "--mode",
        choices=MODES,
        help="hold a place before the eviction, or not (default: as the controller is configured)",
    )
    command.add_argument("--to", metavar="NODE", default="", help="the node to hold the place on")
    command.add_argument("--ttl", metavar="TIME", help="time after which the job fails, such as 5m")
    command.add_argument(
        "--steering",
        choices=STEERINGS,
        help="what keeps the replacement off the old node: a soft or hard taint, or a gate",
    )
    command.add_argument("--reason", metavar="TEXT", default="", help="why, for events and logs")
    add_switch(command, "--wait", "show the progress until the replacement is ready")
    command.add_argument(
        "-o",
        "--output",
        choices=("name", "json"),
        default="name",
        help="the name of the job (%(default)s), or the job; with --wait, as it has ended",
    )
    add_kubeconfig_flag(command)
    add_context_flag(command)
    command.set_defaults(run=run, usage_error=command.error)


def run(arguments: argparse.Namespace) -> int:
    """Create the job, and wait for its end if asked to."""
    import asyncio

    if arguments.mode == "EvictDirectly" and (arguments.to or arguments.steering):
        arguments.usage_error("--mode EvictDirectly holds no place: leave out --to and --steering")
    command = _Command(arguments)
    try:
        return asyncio.run(command.run())
    except KeyboardInterrupt:
        if not command.name:
            raise
        print(f"\njob {command.name} goes on; {_what_to_do(command.name)}", file=sys.stderr)
        return INTERRUPTED


class _Command:
    """One call of the command; `name` is that of its job once it is created."""

    def __init__(self, arguments: argparse.Namespace) -> None:
        self._arguments = arguments
        self._options = _job_options(arguments)
        self.name = ""

    async def run(self) -> int:
        from resettle.kube.auth.kubeconfig import find_access
        from resettle.kube.transport.client import Client

        access = find_access(self._arguments.kubeconfig, self._arguments.context)
        async with Client(access) as client:
            pod = await _find_pod(client, *self._arguments.pod)
            document = await _create_job(client, pod, self._options)
            self.name = document["metadata"]["name"]
            if self._arguments.output == "name":
                print(self.name, flush=True)
            if not self._arguments.wait:
                self._print_json(document)
                return 0
            return await self._wait(client)

    async def _wait(self, client: Client) -> int:
        """Show the progress until the job has ended."""
        from resettle.cli.text.job_progress import ending_line
        from resettle.model.migration_job import JobPhase, job_of_json

        document = await _follow(client, self.name)
        self._print_json(document)
        job = job_of_json(document)
        if job.phase is not JobPhase.SUCCEEDED:
            raise ClusterError(ending_line(job))
        print(ending_line(job), file=sys.stderr)
        return 0

    def _print_json(self, document: dict[str, Any]) -> None:
        import json

        if self._arguments.output == "json":
            print(json.dumps(document, indent=2, ensure_ascii=False))


def _job_options(arguments: argparse.Namespace) -> JobOptions:
    from resettle.model.migration_job import JobMode, JobOptions, Steering

    seconds = parse_seconds("--ttl", arguments.ttl) if arguments.ttl is not None else None
    if seconds is not None and seconds <= 0:
        raise InputError(f"--ttl: `{arguments.ttl}` is no time to wait", "write one such as 5m")
    return JobOptions(
        mode=JobMode(arguments.mode) if arguments.mode else None,
        ttl=timedelta(seconds=seconds) if seconds else None,
        steering=Steering(arguments.steering) if arguments.steering else None,
        node_name=arguments.to,
        reason=arguments.reason,
        created_by=CREATOR,
    )


# -- requests --------------------------------------------------------------------------------------


async def _find_pod(client: Client, namespace: str, name: str) -> PodReference:
    """The pod with its uid; raises `InputError` if there is none."""
    from resettle.kube.failures import refusal_error
    from resettle.model.migration_job import PodReference

    answer = await client.send("GET", f"/api/v1/namespaces/{namespace}/pods/{name}")
    if answer.status == 404:
        raise InputError(
            f"there is no pod {namespace}/{name}", f"see `kubectl get pods -n {namespace}`"
        )
    if answer.status != 200:
        raise refusal_error(answer, "get", "pods", access=client.access, namespace=namespace)
    metadata = _decode(answer)["metadata"]
    return PodReference(namespace, name, metadata["uid"])


async def _create_job(client: Client, pod: PodReference, options: JobOptions) -> dict[str, Any]:
    import msgspec

    from resettle.kube.failures import refusal_error
    from resettle.kube.status import status_of
    from resettle.model.migration_job import GROUP, JOBS_PATH, PLURAL, build_job

    answer = await client.send("POST", JOBS_PATH, msgspec.json.encode(build_job(pod, options)))
    match answer.status:
        case 201:
            return _decode(answer)
        case 404:
            raise ClusterError(
                "the cluster has no PodMigrationJobs; apply what `resettle crds` prints"
            )
        case 422:
            raise InputError(f"the API server refuses the job: {status_of(answer).message}")
        case _:
            raise refusal_error(answer, "create", PLURAL, group=GROUP, access=client.access)


async def _follow(client: Client, name: str) -> dict[str, Any]:
    """Print each change of the job until it has ended; returns it then."""
    from resettle.cli.text.job_progress import JobProgress
    from resettle.clock import SYSTEM
    from resettle.model.migration_job import job_of_json

    progress, began, is_warned, problem = JobProgress(), SYSTEM.steady(), False, ""
    while True:
        try:
            document = await _read_job(client, name)
            problem = ""
        except (ClusterUnreachable, ServerBusy) as error:
            if str(error) != problem:
                problem = str(error)
                print(f"note: {problem}; trying again", file=sys.stderr)
            await SYSTEM.sleep(POLL_SECONDS)
            continue
        job = job_of_json(document)
        for line in progress.lines(job):
            print(line, file=sys.stderr, flush=True)
        if job.is_terminal:
            return document
        waited = SYSTEM.steady() - began
        if not job.conditions and waited >= QUIET_SECONDS and not is_warned:
            is_warned = True
            print(
                f"warning: nothing has looked at job {name} yet; is `resettle migration-controller`"
                " running?",
                file=sys.stderr,
            )
        _check_time(job, waited)
        await SYSTEM.sleep(POLL_SECONDS)


def _check_time(job: MigrationJob, waited: float) -> None:
    """Raise if the job should have ended long ago: then nothing carries it out."""
    is_carried_out = bool(job.conditions)
    known_ttl = job.object.status.get("effective") or job.object.spec.get("ttl")
    if job.paused or (is_carried_out and not known_ttl):
        return  # only the controller knows how long it may wait
    if waited >= (job.settings.ttl + GRACE).total_seconds():
        raise ClusterError(
            f"job {job.name} has not ended although its ttl is over: nothing carries it out;"
            f" {_what_to_do(job.name)}"
        )


async def _read_job(client: Client, name: str) -> dict[str, Any]:
    from resettle.kube.failures import refusal_error
    from resettle.model.migration_job import GROUP, JOBS_PATH, PLURAL

    answer = await client.send("GET", f"{JOBS_PATH}/{name}")
    if answer.status == 404:
        raise ClusterError(f"job {name} was deleted before it ended")
    if answer.status == 429 or answer.status >= 500:
        raise ServerBusy(f"the API server answered {answer.status}")
    if answer.status != 200:
        raise refusal_error(answer, "get", PLURAL, group=GROUP, access=client.access)
    return _decode(answer)


def _decode(answer: Answer) -> dict[str, Any]:
    import msgspec

    document: dict[str, Any] = msgspec.json.decode(answer.body)
    return document


def _what_to_do(name: str) -> str:
    """How to look at a job, and how to stop it."""
    return (
        f"look at it with `kubectl get podmigrationjob {name} -o wide`,"
        f" stop it with `kubectl annotate podmigrationjob {name} resettle.dev/abort=true`"
    )
