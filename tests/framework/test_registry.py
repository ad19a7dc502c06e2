"""The registry: plugins by name, found by entry point, and what is wrong with some of them."""

from __future__ import annotations

from importlib.metadata import Distribution, EntryPoint
from pathlib import Path

import pytest

from resettle.errors import PluginError
from resettle.framework import Plugin, Registry, default_registry
from resettle.framework.registry import GROUP, load_plugins

ONE = Plugin(name="One")
TWO = Plugin(name="Two")
NOT_A_PLUGIN = 5


def entry(name: str, value: str) -> EntryPoint:
    """An entry point to something in this file."""
    return EntryPoint(name=name, value=f"{__name__}:{value}", group=GROUP)


def offered_by(package: str, where: Path, name: str, value: str) -> EntryPoint:
    """The entry point that an installed package of this name offers."""
    home = where / f"{package}-1.0.dist-info"
    home.mkdir()
    (home / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: 1.0\n")
    (home / "entry_points.txt").write_text(f"[{GROUP}]\n{name} = {__name__}:{value}\n")
    (entry_point,) = Distribution.at(home).entry_points
    return entry_point


def test_plugins_are_found_by_name_in_order() -> None:
    registry = load_plugins([entry("Two", "TWO"), entry("One", "ONE")])

    assert list(registry) == ["One", "Two"]
    assert (registry["One"], registry["Two"], len(registry)) == (ONE, TWO, 2)
    assert "Three" not in registry


@pytest.mark.parametrize(
    "name",
    [
        "AgeSort",
        "DefaultEvictor",
        "DeletionCostSort",
        "HighNodeUtilization",
        "LowNodeUtilization",
        "MigrationController",
        "MigrationLimits",
        "PodLifeTime",
        "PrioritySort",
        "RemoveDuplicates",
        "RemoveFailedPods",
        "RemovePodsHavingTooManyRestarts",
        "RemovePodsViolatingInterPodAntiAffinity",
        "RemovePodsViolatingNodeAffinity",
        "RemovePodsViolatingNodeTaints",
        "RemovePodsViolatingTopologySpreadConstraint",
        "UtilizationSort",
    ],
)
def test_our_own_plugins_are_found_by_entry_point(name: str) -> None:
    plugin = default_registry()[name]

    assert plugin.name == name
    assert plugin.points


@pytest.mark.parametrize(
    ("name", "value", "says"),
    [
        pytest.param(
            "One", "NOT_A_PLUGIN", ["NOT_A_PLUGIN", "is a int", "Plugin"], id="not a plugin"
        ),
        pytest.param(
            "One", "MISSING", ["`One`", "cannot be loaded", "AttributeError"], id="nothing there"
        ),
        pytest.param(
            "Uno", "ONE", ["`Uno`", "is called `One`", "the same name"], id="two different names"
        ),
    ],
)
def test_an_entry_point_that_keeps_no_promise_is_reported(
    name: str, value: str, says: list[str], tmp_path: Path
) -> None:
    with pytest.raises(PluginError) as caught:
        load_plugins([entry(name, value)])
    assert [word for word in says if word not in str(caught.value)] == []

    with pytest.raises(PluginError, match="package brittle"):
        load_plugins([offered_by("brittle", tmp_path, name, value)])


def test_a_package_that_cannot_be_imported_is_reported() -> None:
    broken = EntryPoint(name="One", value="no_such_module_anywhere:PLUGIN", group=GROUP)

    with pytest.raises(PluginError, match=r"`One` .* cannot be loaded .* ModuleNotFoundError"):
        load_plugins([broken])


def test_two_packages_with_one_name_are_both_named(tmp_path: Path) -> None:
    rivals = [
        offered_by("first-package", tmp_path, "One", "ONE"),
        offered_by("second-package", tmp_path, "One", "TWO"),
    ]

    for order in (rivals, rivals[::-1]):
        with pytest.raises(PluginError) as caught:
            load_plugins(order)
        assert str(caught.value) == (
            "the plugin `One` is offered by package first-package and by package second-package; "
            "uninstall one of them"
        )


def test_a_package_that_is_there_twice_offers_its_plugins_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for place, value in (("later", "TWO"), ("first", "ONE")):
        (tmp_path / place).mkdir()
        offered_by("twin", tmp_path / place, "One", value)
        monkeypatch.syspath_prepend(str(tmp_path / place))

    registry = default_registry()

    assert registry["One"] is ONE
    assert "PodLifeTime" in registry


def test_a_registry_in_code_holds_each_name_once() -> None:
    with pytest.raises(PluginError, match="two plugins are named `One`"):
        Registry([ONE, TWO, Plugin(name="One")])


def test_a_registry_grows_into_another() -> None:
    small = Registry([ONE])
    large = small.with_plugins(TWO)

    assert (list(small), list(large)) == (["One"], ["One", "Two"])
    with pytest.raises(PluginError, match="`One`"):
        large.with_plugins(ONE)
    with pytest.raises(KeyError):
        small["Two"]


def test_a_plugin_lists_the_points_it_serves() -> None:
    served = Plugin(name="It", filter=lambda args, view, pod: None, sort=lambda *_: 0)

    assert served.points == {"filter", "sort"}
    assert ONE.points == frozenset()
