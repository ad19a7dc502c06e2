"""When dumps were taken, and what they say together."""

from __future__ import annotations

import gzip
import json
from datetime import datetime
from pathlib import Path

import pytest
import yaml

from resettle.dumps.reader import Dump
from resettle.errors import InputError
from resettle.testing import NOW, node
from resettle.testing.builders import Object

STAMP = "resettle/taken-at"
NOON = "2026-01-31T12:00:00Z"


def dump_of(stamp: object = None, annotations: object = None) -> Object:
    """A list that may say when it was taken."""
    stamps = {STAMP: stamp} if stamp is not None else annotations
    metadata = {"resourceVersion": "7"} | ({} if stamps is None else {"annotations": stamps})
    return {"apiVersion": "v1", "kind": "List", "metadata": metadata, "items": []}


@pytest.mark.parametrize(
    ("dumps", "taken"),
    [
        pytest.param([dump_of()], None, id="one without a timestamp"),
        pytest.param([dump_of(NOON)], NOW, id="one with a timestamp"),
        pytest.param([dump_of("2026-01-31T14:00:00+02:00")], NOW, id="in another zone"),
        pytest.param([dump_of(NOON), dump_of(NOON)], NOW, id="two that agree"),
        pytest.param([dump_of(NOON), dump_of()], NOW, id="one without a timestamp does not count"),
        pytest.param(
            [dump_of(NOON), dump_of("2026-01-31T13:00:00Z")], None, id="two that disagree"
        ),
        pytest.param([dump_of(annotations={"note": STAMP})], None, id="a note about it"),
        pytest.param([dump_of(""), dump_of(annotations=None)], None, id="an empty time"),
        pytest.param([{**node("n").node}], None, id="an object alone"),
    ],
)
def test_the_time_of_a_dump_is_read_from_its_timestamp(
    dumps: list[Object], taken: datetime | None
) -> None:
    for write in (json.dumps, yaml.safe_dump):
        dump = Dump()
        for i, content in enumerate(dumps):
            dump.add(write(content).encode(), f"file-{i}")
        assert dump.collection.taken_at == taken


def test_a_stamp_is_a_time_or_an_error() -> None:
    with pytest.raises(InputError) as caught:
        Dump().add(json.dumps(dump_of("teatime")).encode(), "c.json")
    assert str(caught.value) == (
        "c.json: `resettle/taken-at`: `teatime` is not a time; "
        "write one such as `2026-01-31T12:00:00Z`"
    )


@pytest.mark.parametrize("name", ["c.json.gz", "c.json"], ids=["called so", "called otherwise"])
def test_what_is_packed_is_unpacked_whatever_it_is_called(name: str, tmp_path: Path) -> None:
    (tmp_path / name).write_bytes(gzip.compress(json.dumps(dump_of(NOON)).encode()))
    dump = Dump()
    dump.read([str(tmp_path / name)])

    assert dump.collection.taken_at == NOW


def test_half_of_a_packed_dump_is_an_error(tmp_path: Path) -> None:
    file = tmp_path / "c.json"
    file.write_bytes(gzip.compress(json.dumps(dump_of(NOON)).encode())[:-20])

    with pytest.raises(InputError, match=r"cannot be read: .* ended before the end-of-stream"):
        Dump().read([str(file)])
