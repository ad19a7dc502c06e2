"""News for those who watch: pods that go, and others of their make that come in their place."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator, Sequence
from typing import Any

from bench.generate import compact


def replaced(pods: Sequence[bytes], version: int, seed: int) -> Iterator[bytes]:
    """For each pod the line of its end and the line of its successor, on the node of another."""
    lots = random.Random(seed)
    going = [json.loads(it) for it in pods]
    places = [it["spec"]["nodeName"] for it in going]
    lots.shuffle(places)
    for i, (pod, place) in enumerate(zip(going, places, strict=True)):
        meta = pod["metadata"]
        yield _line("DELETED", {**pod, "metadata": {**meta, "resourceVersion": str(version + i)}})
        name, uid = f"{meta['name'][:40]}-{version + i}", f"{meta['uid']}-{version + i}"
        later = str(version + len(going) + i)
        yield _line(
            "ADDED",
            {
                **pod,
                "metadata": {**meta, "name": name, "uid": uid, "resourceVersion": later},
                "spec": {**pod["spec"], "nodeName": place},
            },
        )


def _line(kind: str, pod: dict[str, Any]) -> bytes:
    whole = {"kind": "Pod", "apiVersion": "v1", **pod}
    return compact({"type": kind, "object": whole}).encode() + b"\n"
