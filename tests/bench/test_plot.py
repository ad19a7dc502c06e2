"""The plot is drawn where the figures are."""

from __future__ import annotations

import xml.etree.ElementTree as ET

import pytest

from bench.plot import Panel, fitted, svg

SVG = "{http://www.w3.org/2000/svg}"
LINEAR = [(100.0, 0.3), (1000.0, 1.0), (10_000.0, 10.0)]


def drawn(*panels: Panel) -> ET.Element:
    return ET.fromstring(svg(panels))


def texts(root: ET.Element) -> list[str]:
    return [text.text or "" for text in root.iter(f"{SVG}text")]


@pytest.mark.parametrize(
    ("exponent", "factor"),
    [
        pytest.param(1.0, 0.001, id="linear"),
        pytest.param(2.0, 3.0, id="quadratic"),
        pytest.param(0.0, 7.0, id="constant"),
    ],
)
def test_a_power_law_is_found_again(exponent: float, factor: float) -> None:
    points = [(x, factor * x**exponent) for x in (100.0, 200.0, 5000.0)]

    assert fitted(points) == pytest.approx((exponent, factor))


def test_only_large_clusters_count_for_the_exponent() -> None:
    assert Panel("CPU", LINEAR, fit_from=1000).exponent == pytest.approx(1.0)
    assert Panel("CPU", LINEAR).exponent < 0.9


def test_every_figure_is_a_dot_further_right_and_higher_up() -> None:
    dots = list(drawn(Panel("CPU", LINEAR)).iter(f"{SVG}circle"))
    across = [float(dot.attrib["cx"]) for dot in dots]
    down = [float(dot.attrib["cy"]) for dot in dots]

    assert len(dots) == 3
    assert across == sorted(across)
    assert down == sorted(down, reverse=True)


def test_equal_factors_are_equal_distances() -> None:
    first, second, third = (
        float(dot.attrib["cx"]) for dot in drawn(Panel("CPU", LINEAR)).iter(f"{SVG}circle")
    )

    assert second - first == pytest.approx(third - second, abs=0.2)


def test_the_plot_names_its_axes_its_decades_and_the_exponent() -> None:
    labels = texts(drawn(Panel("CPU seconds", LINEAR, fit_from=1000)))

    assert {"CPU seconds", "nodes", "100", "1,000", "10,000", "0.1", "1", "10"} <= set(labels)
    assert "∝ nodes^1.00" in labels


def test_panels_stand_side_by_side() -> None:
    root = drawn(Panel("CPU", LINEAR), Panel("memory", LINEAR))
    shifts = [group.attrib["transform"] for group in root.iter(f"{SVG}g")]

    assert shifts == ["translate(0 0)", "translate(374 0)"]
    assert root.attrib["viewBox"] == "0 0 748 300"
