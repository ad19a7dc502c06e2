"""Builds kubectl and Helm into the cache directory, once.

    python -m tools.installers.build

prints where they are. What they share with the control plane is compiled for it already, so they
take a minute or two after it.
"""

from __future__ import annotations

from tools.go_programs import build
from tools.go_programs.build import Programs
from tools.installers.recipe import RECIPE


def built() -> Programs:
    """The programs, from the cache or built now."""
    return build.built(RECIPE)


if __name__ == "__main__":
    build.main(RECIPE)
