"""Tests of resettle; folders mirror those of `src/resettle`, as far as they are about one."""

from __future__ import annotations

from pathlib import Path

ROOT = Path(__file__).parents[1]
"""The folder of the repository."""
