"""What a suite does when this machine lacks a part that it needs."""

from __future__ import annotations

import os
from typing import NoReturn

import pytest


def absent(what: str) -> NoReturn:
    """Skips the test and says why; fails it where everything has to be there (`CI` is set)."""
    if os.environ.get("CI"):
        pytest.fail(what)
    pytest.skip(what)
