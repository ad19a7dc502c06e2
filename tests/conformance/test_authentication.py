"""A request without a valid token is refused."""

from __future__ import annotations

from tests.conformance.client import Client


def test_a_wrong_token_is_unauthorized(client: Client) -> None:
    stranger = Client(client.url, {"Authorization": "Bearer wrong"}, client.trust)

    reply = stranger.get("/api/v1/pods")

    assert (reply.code, reply.reason) == (401, "Unauthorized")
    assert reply.body["kind"] == "Status"
