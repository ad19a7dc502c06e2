"""Skips or fails a suite when this machine lacks a program that the suite needs."""

from __future__ import annotations

import os
from typing import NoReturn

import pytest


def skip_or_fail(what: str) -> NoReturn:
    """Skips the test with a reason; fails the test if `CI` is set."""
    if os.environ.get("CI"):
        pytest.fail(what)
    pytest.skip(what)
