"""The audit log is read while the API server writes it."""

from __future__ import annotations

import json
from pathlib import Path

from tools.control_plane.audit_log import AuditLog


def line(name: str, user: str = "ada") -> bytes:
    return json.dumps({"auditID": name, "user": {"username": user}}).encode() + b"\n"


def names(log: AuditLog, user: str | None = None) -> list[str]:
    return [request["auditID"] for request in log.requests(user)]


def test_requests_come_in_the_order_of_the_file(tmp_path: Path) -> None:
    file = tmp_path / "audit.log"
    file.write_bytes(line("first") + line("second"))

    assert names(AuditLog(file)) == ["first", "second"]


def test_a_last_line_without_its_end_is_read_once_it_is_whole(tmp_path: Path) -> None:
    file, last = tmp_path / "audit.log", line("last")
    file.write_bytes(line("first") + last[:20])
    log = AuditLog(file)

    assert names(log) == ["first"]

    file.write_bytes(line("first") + last[:-1])
    assert names(log) == ["first"], "all but the end of the line"

    file.write_bytes(line("first") + last)
    assert names(log) == ["first", "last"]


def test_a_log_from_now_on_leaves_out_what_was_there(tmp_path: Path) -> None:
    file = tmp_path / "audit.log"
    file.write_bytes(line("before"))
    log = AuditLog.from_now_on(file)
    file.write_bytes(line("before") + line("after"))

    assert names(log) == ["after"]


def test_a_log_from_now_on_may_begin_within_a_line(tmp_path: Path) -> None:
    file = tmp_path / "audit.log"
    file.write_bytes(line("before") + line("middle")[:20])
    log = AuditLog.from_now_on(file)
    file.write_bytes(line("before") + line("middle") + line("after"))

    assert names(log) == ["middle", "after"], "a line counts once it is whole"


def test_requests_of_one_user(tmp_path: Path) -> None:
    file = tmp_path / "audit.log"
    file.write_bytes(line("hers", "ada") + line("about ada", "bob") + line("his", "bob"))

    assert names(AuditLog(file), "ada") == ["hers"]
    assert names(AuditLog(file), "bob") == ["about ada", "his"]
