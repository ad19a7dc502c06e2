"""Bodies in protobuf, as Go programs send them."""

from __future__ import annotations

import pytest

from resettle.testing.api_server.objects.protobuf import Unreadable, decode

Part = tuple[int, "int | str | bytes | list[Part]"]


def varint(number: int) -> bytes:
    number &= (1 << 64) - 1
    head = b""
    while number > 0x7F:
        head += bytes([number & 0x7F | 0x80])
        number >>= 7
    return head + bytes([number])


def written(parts: list[Part]) -> bytes:
    """A message of numbered parts: numbers, texts, or messages again."""
    return b"".join(_field(number, value) for number, value in parts)


def _field(number: int, value: int | str | bytes | list[Part]) -> bytes:
    if isinstance(value, int):
        return varint(number << 3) + varint(value)
    if isinstance(value, list):
        value = written(value)
    body = value.encode() if isinstance(value, str) else value
    return varint(number << 3 | 2) + varint(len(body)) + body


def sent(api_version: str, kind: str, parts: list[Part]) -> bytes:
    head: list[Part] = [(1, api_version), (2, kind)]
    return b"k8s\x00" + written([(1, head), (2, written(parts)), (3, ""), (4, "")])


NAMED: Part = (1, [(1, "a"), (2, ""), (3, "team")])


@pytest.mark.parametrize(
    ("api_version", "kind", "parts", "rest"),
    [
        pytest.param("v1", "Namespace", [], {}, id="a name, and nothing that is empty"),
        pytest.param(
            "v1",
            "ConfigMap",
            [(2, [(1, "x"), (2, "1")]), (2, [(1, "empty")])],
            {"data": {"x": "1", "empty": ""}},
            id="a map",
        ),
        pytest.param(
            "coordination.k8s.io/v1",
            "Lease",
            [(2, [(1, "me"), (2, 15), (4, [(1, 1769860800), (2, 5000)]), (5, -1)])],
            {
                "spec": {
                    "holderIdentity": "me",
                    "leaseDurationSeconds": 15,
                    "renewTime": "2026-01-31T12:00:00.000005Z",
                    "leaseTransitions": -1,
                }
            },
            id="numbers and times",
        ),
        pytest.param(
            "events.k8s.io/v1",
            "Event",
            [(8, [(1, "Pod"), (3, "web-1")]), (10, "moved"), (13, b""), (99, "from the future")],
            {"regarding": {"kind": "Pod", "name": "web-1"}, "note": "moved"},
            id="parts, and what is not known is passed over",
        ),
        pytest.param(
            "policy/v1",
            "Eviction",
            [(2, [(1, 0), (2, [(1, "u")]), (5, "All")])],
            {
                "deleteOptions": {
                    "gracePeriodSeconds": 0,
                    "preconditions": {"uid": "u"},
                    "dryRun": ["All"],
                }
            },
            id="a zero that was written counts",
        ),
    ],
)
def test_an_object_is_read(
    api_version: str, kind: str, parts: list[Part], rest: dict[str, object]
) -> None:
    expected = {
        "kind": kind,
        "apiVersion": api_version,
        "metadata": {"name": "a", "namespace": "team"},
        **rest,
    }

    assert decode(sent(api_version, kind, [NAMED, *parts])) == expected


@pytest.mark.parametrize(
    ("body", "says"),
    [
        pytest.param(b"{}", "does not begin", id="no protobuf"),
        pytest.param(sent("v1", "Pod", []), "send JSON", id="a kind without a table"),
        pytest.param(sent("v1", "Namespace", [NAMED])[:-9], "too early", id="half a body"),
        pytest.param(b"k8s\x00" + bytes([0x0D, 0, 0, 0, 0]), "wire type 5", id="another format"),
    ],
)
def test_what_cannot_be_read_says_why(body: bytes, says: str) -> None:
    with pytest.raises(Unreadable, match=says):
        decode(body)
