"""The picture of a rebalance: sound SVG, with a cell for each node and cycle."""

from __future__ import annotations

from xml.etree import ElementTree

from bench.heat import SHOWN, picture
from bench.machines import SETTINGS, builder, story_of

SVG = "{http://www.w3.org/2000/svg}"


def test_a_picture_has_a_row_for_each_node_and_a_column_for_each_cycle() -> None:
    run = story_of(SETTINGS["`resettle/v1`, OpenShift's two"], builder().SEED)
    drawn = ElementTree.fromstring(picture([run]))

    cells = [
        element
        for element in drawn.iter(f"{SVG}rect")
        if element.get("class", "").startswith("s") and element.get("x")
    ]
    legend = 8
    assert len(cells) == len(run.loads) * (SHOWN + 1) + legend
    says = {element.text for element in drawn.iter(f"{SVG}text")}
    assert {"start", "10", "node-12", f"{run.move_count} moves, still after cycle 8"} <= says
