"""Answers on their way to a client: whole, slow, or broken off."""

from __future__ import annotations

import asyncio

from aiohttp import web

from resettle.testing.pocket.answers import Answer
from resettle.testing.pocket.faults import Fault

JSON = "application/json"
_SLICES_PER_SECOND = 20


async def spoken(
    request: web.Request, answer: Answer, fault: Fault, retry_after_seconds: int | None = None
) -> web.StreamResponse:
    """The answer, sent as the fault would have it."""
    headers = {"Content-Type": JSON}
    if retry_after_seconds:
        headers["Retry-After"] = str(retry_after_seconds)
    if fault.bytes_per_second is None and fault.cut_after_bytes is None:
        return web.Response(status=answer.code, body=answer.body, headers=headers)
    response = web.StreamResponse(status=answer.code, headers=headers)
    response.content_length = len(answer.body)
    await response.prepare(request)
    await written(response, answer.body[: fault.cut_after_bytes], fault.bytes_per_second)
    if fault.cut_after_bytes is not None:
        break_off(request)
    return response


async def written(response: web.StreamResponse, body: bytes, speed: int | None) -> None:
    """Sends the body, at so many bytes a second if that is said."""
    if speed is None:
        await response.write(body)
        return
    size = max(1, speed // _SLICES_PER_SECOND)
    for start in range(0, len(body), size):
        await response.write(body[start : start + size])
        await asyncio.sleep(size / speed)


def break_off(request: web.Request) -> None:
    """Ends the connection after what was said so far."""
    if request.transport is not None:
        request.transport.close()


def hang_up(request: web.Request) -> None:
    """Ends the connection at once."""
    if request.transport is not None:
        request.transport.abort()
