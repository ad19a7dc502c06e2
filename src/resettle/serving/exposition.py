"""The text of all metrics, told as kubernetes-sigs/descheduler tells its own.

What prometheus_client writes differs in two points. Counters could not have the older name
`descheduler_pods_evicted`, since it ends them all in `_total`: so metrics with an older name are
the same lines once more. And a bucket is called `1.0` where it is `1` to Go, another series.
"""

from __future__ import annotations

import re

from resettle.serving.catalogue import CATALOGUE

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
_TWINS = {meter.name.encode(): meter.twin.encode() for meter in CATALOGUE if meter.twin}
_WHOLE_BUCKET = re.compile(rb'\ble="(\d+)\.0"')


def as_the_peer(text: bytes) -> bytes:
    """The text with Go's buckets, and behind it once more what has an older name."""
    text = _WHOLE_BUCKET.sub(rb'le="\1"', text)
    lines = text.splitlines(keepends=True)
    told = [text]
    for name, twin in _TWINS.items():
        starts = (name, b"# HELP %b " % name, b"# TYPE %b " % name)
        told += [_renamed(line, name, twin) for line in lines if line.startswith(starts)]
    return b"".join(told)


def _renamed(line: bytes, name: bytes, twin: bytes) -> bytes:
    if line.startswith(b"# HELP "):
        return b"# HELP %b Deprecated: the older name of %b.\n" % (twin, name)
    return line.replace(name, twin, 1)
