"""CPU of our client for each request: evictions one by one, and events over one connection.

    python -m bench.requests [--requests 20000] [--together 50] [--rounds 5]

The API server is a process of its own on the loopback, so only the client's work is counted.
Medians over all rounds; compare two versions in alternation, because the speed of a shared machine
varies. What watches cost is measured by `bench.watching`.
"""

from __future__ import annotations

import argparse
import asyncio
import tempfile
import time
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from statistics import median

from bench.serving import Serving
from resettle.kube.auth.access import Access
from resettle.kube.transport.client import Client

EVICTION = b'{"apiVersion":"policy/v1","kind":"Eviction","metadata":{"name":"p","namespace":"n"}}'
EVENT = b'{"apiVersion":"v1","kind":"Event","metadata":{"name":"e","namespace":"n"}}'
_BATCH = 100


async def evict(client: Client, count: int, together: int) -> None:
    """Send so many evictions, a fixed number of them in flight at any time."""
    numbers = iter(range(count))

    async def work() -> None:
        for number in numbers:
            path = f"/api/v1/namespaces/n/pods/p{number}/eviction"
            answer = await client.send("POST", path, EVICTION, before=_allow)
            assert answer.status == 201, answer

    await asyncio.gather(*[work() for _ in range(together)])


async def write_events(client: Client, count: int, together: int) -> None:
    """Send so many events, a hundred at a time over one connection."""
    for _ in range(0, count, _BATCH):
        answers = await client.post_all([("/api/v1/namespaces/n/events", EVENT)] * _BATCH)
        assert {answer.status for answer in answers} == {201}


def _allow() -> None:
    """The check before each request."""


async def cpu_microseconds(
    client: Client, work: Callable[[Client, int, int], Awaitable[None]], count: int, together: int
) -> float:
    """CPU of this process for each request."""
    began = time.process_time()
    await work(client, count, together)
    return (time.process_time() - began) / count * 1e6


async def measure(server: str, count: int, together: int, rounds: int) -> dict[str, float]:
    """Medians in CPU microseconds for each request."""
    async with Client(Access(server=server)) as client:
        await evict(client, together * 2, together)
        return {
            work.__name__: median(
                [await cpu_microseconds(client, work, count, together) for _ in range(rounds)]
            )
            for work in (evict, write_events)
        }


def main(words: Sequence[str] | None = None) -> int:
    """Print the medians."""
    parser = argparse.ArgumentParser(description="Measure the CPU of our client for each request.")
    parser.add_argument("--requests", type=int, default=20_000)
    parser.add_argument("--together", type=int, default=50)
    parser.add_argument("--rounds", type=int, default=5)
    chosen = parser.parse_args(words)
    with (
        tempfile.TemporaryDirectory() as folder,
        Serving(Path(folder), "--nodes", "10", "--pods", "1") as serving,
    ):
        work = measure(serving.address, chosen.requests, chosen.together, chosen.rounds)
        for name, cost in asyncio.run(work).items():
            print(f"{name:14} {cost:8.1f} us of CPU for each request")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
