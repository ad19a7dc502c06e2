"""The benchmark of our client's requests runs, and reports both kinds of request."""

from __future__ import annotations

import pytest

from bench.requests import main


def test_a_few_requests_are_measured(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--requests", "100", "--together", "5", "--rounds", "1"]) == 0

    assert [line.split()[0] for line in capsys.readouterr().out.splitlines()] == [
        "evict",
        "write_events",
    ]
