"""The page about simulations lists what there is: keys for programs, and keys of a scenario."""

from __future__ import annotations

import json
from typing import Any

from msgspec import structs

from resettle.cli.inputs.scenario import EventDocument, ScenarioDocument
from resettle.cli.inputs.simulation import LoadsDocument, Queries
from resettle.cli.text.simulation_json import simulation_document
from resettle.model.constraints import PREFER_NO_SCHEDULE, Taint
from resettle.model.objects import Node
from resettle.model.snapshot import Snapshot
from resettle.testing import cluster, node, pod
from tests.simulate.harness import scripted, simulate

from .page import doc
from .reference import ROOT
from .test_pages import paths


def document() -> Any:
    """A simulation with all that a simulation can have."""
    world = cluster(
        node("n1", taints=["old:NoSchedule"]).holding(pod("waits", cpu="2"), pod("back", cpu="1")),
        node("n2").holding(pod("again", cpu="2"), pod("full", owner=None, cpu="1")),
        pod("comes", cpu="1", phase="Pending"),
    )
    script = scripted({1: ["waits"]}, always=["again"])
    result = simulate(world, script, cycles=3, tainter=Marker())
    return json.loads(json.dumps(simulation_document([result])))


class Marker:
    """A tainter that has marked everything."""

    def tainted_nodes(self, snapshot: Snapshot) -> list[Node]:
        return []

    def own_taints(self, node: Node) -> tuple[Taint, ...]:
        return (Taint("full", PREFER_NO_SCHEDULE),)


def holds_more(path: str, known: set[str]) -> bool:
    return any(other.startswith((f"{path}.", f"{path}[")) for other in known)


def test_every_key_for_programs_is_explained_and_every_explained_one_is_there() -> None:
    explained = doc("start/simulate.md").first_column("For programs")
    known = {path for path in paths(document()) if ".troubles." not in path}
    leaves = {path for path in known if not holds_more(path, known)}

    assert leaves == {path for path in explained if "." in path or path.endswith("_seconds")}


def test_every_key_of_a_scenario_is_explained() -> None:
    shapes = (ScenarioDocument, EventDocument)
    keys = {field.encode_name for shape in shapes for field in structs.fields(shape)}

    assert doc("start/simulate.md").first_column("A scenario") >= keys


def test_every_key_of_a_file_of_loads_is_explained() -> None:
    queries = {f"queries.{field.encode_name}" for field in structs.fields(Queries)}
    keys = {field.encode_name for field in structs.fields(LoadsDocument)} - {"queries"}

    assert doc("start/simulate.md").first_column("Loads") == queries | keys


def test_the_page_shows_the_bundled_scenario() -> None:
    (shown,) = doc("start/simulate.md").files.values()

    assert shown == (ROOT / "examples" / "lopsided" / "scenario.yaml").read_text(encoding="utf-8")


def test_each_kind_of_trouble_is_named() -> None:
    page = doc("start/simulate.md").text
    kinds = ("node affinity", "taints", "anti-affinity", "pod affinity", "spread", "pending")

    assert [kind for kind in kinds if f"`{kind}`" not in page] == []
