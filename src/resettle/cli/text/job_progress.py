"""How far a migration job is, in plain words: one line for each change of a condition."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from resettle.model.migration_job import ConditionType, JobPhase, MigrationJob

Shown = tuple[str, str, str]
"""Status, reason and message of a condition."""

_WORDS = {
    (ConditionType.ARBITRATED, "True"): "accepted",
    (ConditionType.ARBITRATED, "False"): "waits: {message}",
    (ConditionType.RESERVATION_CREATED, "True"): "looks for a place",
    (ConditionType.RESERVATION_CREATED, "False"): "cannot look for a place: {message}",
    (ConditionType.RESERVATION_SCHEDULED, "True"): "{message}",
    (ConditionType.RESERVATION_SCHEDULED, "False"): "no place yet: {message}",
    (ConditionType.STEERED, "True"): "the replacement is kept off the old node ({message})",
    (ConditionType.EVICTION, "Unknown"): "{message}",
    (ConditionType.EVICTION, "False"): "the eviction is granted",
    (ConditionType.EVICTION, "True"): "{message}",
    (ConditionType.RESERVATION_BOUND, "True"): "{message}",
    (ConditionType.BOUND_POD_READY, "True"): "the replacement is ready",
    (ConditionType.BOUND_POD_READY, "False"): "the replacement is not ready yet",
    (ConditionType.POD_BOUND_RESERVATION, "True"): "",
    (ConditionType.POD_BOUND_RESERVATION, "False"): "waits for the replacement",
    (ConditionType.SUPPORTED, "False"): "left alone: {message}",
    (ConditionType.SUPPORTED, "True"): "goes on",
}
"""What is written for a condition; nothing where the end of the job says it."""


class JobProgress:
    """The lines about one job: each change is written once."""

    def __init__(self) -> None:
        self._shown: dict[str, Shown] = {}

    def lines(self, job: MigrationJob) -> Iterator[str]:
        """What has changed since the last call, in the order in which the conditions were set."""
        for kind, condition in job.conditions.items():
            shown = (condition.status, condition.reason, condition.message)
            if self._shown.get(kind) == shown:
                continue
            self._shown[kind] = shown
            if line := _line(kind, *shown):
                yield line


def _line(kind: str, status: str, reason: str, message: str) -> str:
    words = next(
        (text for (known, value), text in _WORDS.items() if (known, value) == (kind, status)), None
    )
    if words is None:
        # A condition of a newer version.
        return f"{kind} is {status}" + (f": {message or reason}" if message or reason else "")
    return words.format(message=message or reason)


def ending_line(job: MigrationJob) -> str:
    """How the job has ended."""
    status: Mapping[str, Any] = job.object.status
    says, reason = status.get("message") or "", status.get("reason") or ""
    if job.phase is JobPhase.SUCCEEDED:
        return f"done: {says}" if says else "done"
    why = ": ".join(part for part in (reason, says) if part)
    return f"job {job.name} {job.phase.lower()}{f': {why}' if why else ''}"
