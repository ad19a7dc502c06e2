"""What Prometheus says to an instant query, off the wire and into figures."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime

import msgspec
from msgspec import Raw, Struct

from resettle.cluster.statuses import Answer
from resettle.errors import ClusterError
from resettle.model.readings import Figure

_LONGEST_WORDS = 120


class _Series(Struct):
    metric: dict[str, str] = {}
    value: tuple[float, str] | None = None


class _Data(Struct, rename="camel"):
    result_type: str = ""
    result: Raw = Raw(b"[]")


class _Reply(Struct, rename="camel"):
    status: str = ""
    data: _Data | None = None
    error_type: str = ""
    error: str = ""


_reply = msgspec.json.Decoder(_Reply)
_vector = msgspec.json.Decoder(list[_Series])


def samples(answer: Answer) -> Sequence[_Series]:
    """The samples of an answer; an error says what it is instead of one."""
    if answer.status == 401:
        raise ClusterError("it does not accept the token (401)")
    if answer.status == 403:
        raise ClusterError(f"it does not let us ask (403): {_words(answer.body)}")
    try:
        reply = _reply.decode(answer.body)
    except (msgspec.DecodeError, UnicodeDecodeError):
        said = _words(answer.body)
        if answer.status == 200:
            raise ClusterError(f"what it answers is not an answer of Prometheus: {said}") from None
        raise ClusterError(f"it answered {answer.status}: {said}") from None
    if reply.status != "success" or reply.data is None:
        said = f"{reply.error_type}: {reply.error}".strip(": ") or f"status `{reply.status}`"
        raise ClusterError(f"it answered {answer.status}: {said}")
    if reply.data.result_type != "vector":
        raise ClusterError(
            f"the query is answered with a {reply.data.result_type or 'nothing'} "
            "and not with a number for each node"
        )
    try:
        return _vector.decode(reply.data.result)
    except msgspec.DecodeError as error:
        raise ClusterError(f"what it answers cannot be understood: {error}") from None


def figures(values: Sequence[_Series], times: Sequence[_Series], label: str) -> tuple[Figure, ...]:
    """A figure for each sample, with the time it was really taken.

    An answer tells when it was worked out, which is always now; `times` is the answer to
    `timestamp(query)` and tells when the samples in it came in. Where two of one node differ,
    the older counts.
    """
    taken: dict[str, float] = {}
    for series in times:
        name, at = series.metric.get(label, ""), _number(series)
        taken[name] = min(taken.get(name, at), at)
    found = []
    for series in values:
        name = series.metric.get(label, "")
        asked_at = series.value[0] if series.value else 0.0
        # Whoever came in between the two answers is as old as the one that has it.
        found.append(Figure(name, _number(series), _time(taken.get(name, asked_at))))
    return tuple(found)


def _number(series: _Series) -> float:
    if series.value is None:
        raise ClusterError("the query is answered with histograms and not with numbers")
    try:
        return float(series.value[1])
    except ValueError:
        raise ClusterError(f"`{series.value[1]}` in its answer is no number") from None


def _time(seconds: float) -> datetime:
    try:
        return datetime.fromtimestamp(seconds, UTC)
    except (OverflowError, ValueError, OSError):
        raise ClusterError(f"`{seconds}` in its answer is no time") from None


def _words(body: bytes) -> str:
    """The beginning of something that was meant for people."""
    text = " ".join(body[: 4 * _LONGEST_WORDS].decode(errors="replace").split())
    return text[:_LONGEST_WORDS] + ("…" if len(text) > _LONGEST_WORDS else "") or "nothing"
