"""Scales in dumps: written with the policy that reads them, and read again."""

from __future__ import annotations

import gzip
from io import BytesIO

import pytest

from resettle.dumps.anonymize import Anonymizer
from resettle.dumps.reader import Dump
from resettle.dumps.writer import write_capture
from resettle.kube.auth.access import Access
from resettle.kube.watch.lists import ListClient
from resettle.model.workloads import Workload
from resettle.testing import NOW, ApiServer

SCALE = Workload("CloneSet", "shop", "web", "uid-web", "apps.kruise.io/v1alpha1", 5, 4)


@pytest.mark.parametrize("digests", [None, Anonymizer(b"salt")], ids=["plain", "hashed"])
def test_a_scale_that_was_written_is_read_again(digests: Anonymizer | None) -> None:
    sink = BytesIO()
    with ApiServer([]) as server:
        api = ListClient(Access(server=server.url))
        captured = write_capture(api, [], sink, NOW, digests, scales=[SCALE])
        api.close()

    dump = Dump()

    dump.add(gzip.decompress(sink.getvalue()), "capture")
    (scale,) = dump.snapshot(NOW).scales

    assert captured.counts == {"scales": 1}
    assert (scale.kind, scale.api_version, scale.desired) == ("CloneSet", SCALE.api_version, 5)
    assert scale.name == ("web" if digests is None else digests.hash_name("web"))


def test_a_scale_as_the_api_server_writes_it_is_read_too() -> None:
    dump = Dump()
    dump.add(
        b'{"kind": "Scale", "apiVersion": "autoscaling/v1", "metadata": {"name": "web", '
        b'"namespace": "shop", "uid": "u"}, "spec": {"replicas": 3}}',
        "file",
    )

    (scale,) = dump.snapshot(NOW).scales
    assert (scale.key, scale.desired) == ("shop/web", 3)
