"""What upstream was seen to do with the policies of `found/`, and when a plan agrees with that."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path

from msgspec import Struct, convert, to_builtins

FILE = Path(__file__).parent / "recorded.json"


class Recorded(Struct, frozen=True, kw_only=True):
    """One policy, the cluster it was tried on, and the sets of pods that six runs evicted."""

    file: str
    upstream: str
    cluster: str
    """The digest of the cluster's objects."""
    nodes: dict[str, int]
    """How many pods the first of the runs took off which node."""
    runs: list[list[str]]

    @property
    def choices(self) -> list[frozenset[str]]:
        """The distinct answers."""
        return [frozenset(run) for run in self.runs]

    def agrees(self, evicted: frozenset[str]) -> bool:
        """Whether evicting these pods is an answer the record supports, as in tests/parity."""
        if len(self.choices) == 1:
            return evicted == self.choices[0]
        sizes = {len(choice) for choice in self.choices}
        return len(evicted) in sizes and frozenset.intersection(*self.choices) <= evicted


def read() -> list[Recorded]:
    """All that was recorded."""
    return convert(json.loads(FILE.read_text(encoding="utf-8")), list[Recorded])


def write(records: Iterable[Recorded]) -> None:
    """Keeps what was recorded, a policy a line."""
    lines = ",\n".join(json.dumps(to_builtins(record)) for record in records)
    FILE.write_text(f"[\n{lines}\n]\n", encoding="utf-8")
