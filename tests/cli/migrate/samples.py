"""The files of `found/`, each read as `resettle migrate` reads it."""

from __future__ import annotations

from pathlib import Path

from resettle.cli.migrate.findings import MigrationReport, assess_inventory
from resettle.cli.migrate.inventory import Inventory
from resettle.cli.migrate.policies import AssessedPolicy
from resettle.framework import default_registry

FOLDER = Path(__file__).parent / "found"
FILES = sorted(path.name for path in FOLDER.iterdir())
IMAGE = "resettle:1.2.3"


def verdict_on(file: str) -> MigrationReport:
    """What is said of a file."""
    inventory = Inventory()
    inventory.read((FOLDER / file).read_text(encoding="utf-8"), file)
    return assess_inventory(inventory, default_registry(), IMAGE)


def policy_in(file: str) -> AssessedPolicy:
    """The one policy in it."""
    (policy,) = verdict_on(file).policies
    return policy


def seed_of(file: str) -> int:
    """The number that a file begins with: its cluster is drawn by it."""
    return int(file.partition("-")[0])
