"""Builds the control plane into the cache directory, once.

    python -m tools.control_plane.build

prints where the programs are. A cold build takes about nine minutes on two cores; afterwards
nothing is done until a pinned version changes.
"""

from __future__ import annotations

from pathlib import Path

from tools.control_plane.recipe import RECIPE
from tools.go_programs import build
from tools.go_programs.build import Programs


def built(cache: Path | None = None) -> Programs:
    """The programs, from the cache or built now."""
    return build.built(RECIPE, cache)


if __name__ == "__main__":
    build.main(RECIPE)
