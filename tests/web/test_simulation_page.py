"""The page of `simulate --report`: whole in one file, true to the simulation, harmless to open."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections import Counter
from datetime import timedelta
from html.parser import HTMLParser
from pathlib import Path

import pytest

from resettle.model.changes import Changes
from resettle.simulate.events import Event
from resettle.simulate.result import SimulationResult, run_simulation
from resettle.testing import NOW, World, cluster, node, pod, spread
from resettle.web.simulation_page import simulation_page
from tests.simulate.harness import scripted

VOID = {"meta", "input"}
HOSTILE = "</script><script>alert(1)</script><b title=\"x\" onclick='y'>&amp;"
WEB = {"app": "web"}
BUSY = pod("busy", owner=None, cpu="3")


class Outline(HTMLParser):
    """What a page consists of; open elements have to be closed in order."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.counts: Counter[str] = Counter()
        self.classes: Counter[str] = Counter()
        self.attributes: list[tuple[str, str]] = []
        self.open: list[str] = []
        self.words: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.counts[tag] += 1
        self.attributes += [(name, value or "") for name, value in attrs]
        self.classes.update(
            word for name, value in attrs if name == "class" for word in (value or "").split()
        )
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.open and self.open[-1] not in ("style", "script"):
            self.words.append(data)


def outline(html: str) -> Outline:
    parsed = Outline()
    parsed.feed(html)
    assert parsed.open == []
    return parsed


def lived(world: World, *, policy: str = "policy.yaml", says: str = "") -> SimulationResult:
    event = [Event(cycle=2, says=says, changes=Changes(at=NOW))] if says else []
    return run_simulation(
        policy,
        scripted({1: ["a", "b"], 2: ["a"], 3: ["a"]}),
        world.snapshot(),
        interval=timedelta(minutes=5),
        cycles=5,
        events=event,
    )


EVEN = [spread(labels=WEB)]
WORLD = cluster(
    node("n1", zone="x").holding(
        pod("a", cpu="1", labels=WEB, spread=EVEN), pod("b", cpu="1", labels=WEB, spread=EVEN)
    ),
    node("n2", zone="y").holding(BUSY),
)


def test_the_page_holds_what_the_simulation_holds() -> None:
    result = lived(WORLD, says="the wind turns")

    page = outline(simulation_page([result]))

    assert page.counts["h1"] == 1
    assert page.classes["cell"] == 2 * (1 + 5)
    assert page.classes["trouble"] == len({*result.violations})
    assert page.classes["flag"] == 1
    assert page.classes["card"] == 6
    text = " ".join(page.words)
    for says in ("the wind turns", "Moves over time", "Ping-pong", "the script says so"):
        assert says in text
    assert str(result.ping_pong[0].times) in page.words


def test_two_policies_stand_side_by_side() -> None:
    first, other = lived(WORLD), lived(WORLD, policy="other.yaml")

    page = outline(simulation_page([first, other]))

    assert page.classes["cell"] == 2 * 2 * (1 + 5)
    assert page.classes["two"] > 0
    assert page.words.count("other.yaml") > 5


@pytest.mark.parametrize("runs", [1, 2])
def test_the_page_needs_nothing_but_itself(runs: int) -> None:
    html = simulation_page([lived(WORLD, policy=f"{i}.yaml") for i in range(runs)])
    page = outline(html)

    assert {"link", "img", "iframe", "object", "embed"} & set(page.counts) == set()
    assert [name for name, _ in page.attributes if name in ("src", "href", "action")] == []
    assert re.findall(r"https?://|url\(|@import|//[a-z]", html) == []
    assert "default-src 'none'" in html


def test_no_name_gets_out_of_its_place() -> None:
    named = cluster(
        node(HOSTILE, zone="x").holding(pod("a", namespace=HOSTILE, owner=f"ReplicaSet/{HOSTILE}")),
        node("n2", cordoned=True),
    )
    calm, wild = lived(WORLD, says="x"), lived(named, policy=HOSTILE, says=HOSTILE)

    plain, page = outline(simulation_page([calm])), outline(simulation_page([wild]))

    assert page.counts["script"] == plain.counts["script"] == 2
    assert page.counts["b"] - page.classes["card"] == len({*wild.violations})
    assert not any(name.startswith("on") for name, _ in page.attributes)
    assert any(HOSTILE in word for word in page.words)


def test_many_nodes_are_cut_down_to_those_that_changed_most() -> None:
    holding = [node(f"n{i:03d}").holding(pod(f"p{i}", cpu="1")) for i in range(130)]
    result = run_simulation(
        "policy.yaml",
        scripted(),
        cluster(*holding).snapshot(),
        interval=timedelta(minutes=5),
        cycles=1,
    )

    page = outline(simulation_page([result]))

    assert page.classes["cell"] == 120 * 2
    assert any("10 others are left out" in word for word in page.words)


# -- in a browser ---------------------------------------------------------------------------------

BROWSERS = ("chromium", "chromium-browser", "google-chrome")
HANDS = """<script>
const cell = document.querySelector('.cell[data-r="0"][data-c="0"]');
cell.dispatchEvent(new MouseEvent("click", {bubbles: true}));
const box = document.querySelector("input[type=search]");
box.value = "default/b";
box.dispatchEvent(new Event("input"));
document.title = "used";
</script>"""


def used(html: str, folder: Path) -> str | None:
    """The page after a cell was clicked and a word typed; None where no browser is installed."""
    browser = next(filter(None, map(shutil.which, BROWSERS)), None)
    if browser is None:
        return None
    file = folder / "page.html"
    file.write_text(html.replace("</body>", HANDS + "</body>"), encoding="utf-8")
    flags = ("--headless", "--no-sandbox", "--disable-gpu", "--disable-background-networking")
    profile = f"--user-data-dir={folder / 'profile'}"
    done = subprocess.run(
        [browser, *flags, profile, "--dump-dom", file.as_uri()],
        capture_output=True,
        encoding="utf-8",
        timeout=120,
        check=True,
    )
    return done.stdout


def test_pointing_shows_figures_and_typing_filters(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    html = simulation_page([lived(WORLD)])

    seen = used(html, tmp_path)

    if seen is None:
        with capsys.disabled():
            print("\nno Chromium here: the script of the report is only checked for its hooks")
        asked = set(re.findall(r'data-(?:figures|readout|rows|count)="([^"]+)"', html))
        assert asked == {"loads-0", "readout-0", "moves", "count"}
        assert all(f'id="{name}"' in html for name in asked)
        return
    assert "<title>used</title>" in seen
    assert "n2 at the start: 75% cpu, 0% memory, 1 pod<" in seen
    assert "1 of 4 shown" in seen
    assert len(re.findall(r"<tr [^>]*hidden", seen)) == 3
