"""Extension points: one spelling for policies, plugins and what is printed."""

from __future__ import annotations

import msgspec
import pytest

from resettle.framework import Plugin, PluginRun
from resettle.policy.args import ExtensionPoint
from resettle.policy.document import PluginSets


@pytest.mark.parametrize("point", ExtensionPoint)
def test_a_policy_and_a_plugin_have_a_field_of_this_name(point: ExtensionPoint) -> None:
    assert PluginSets().at(point).enabled == ()
    assert Plugin(name="None").function(point) is None


def test_a_policy_has_no_other_keys_for_plugins() -> None:
    assert sorted(PluginSets.__struct_fields__) == sorted(ExtensionPoint)


def test_json_has_the_word_of_the_policy() -> None:
    run = PluginRun(profile="p", plugin="A", point=ExtensionPoint.PRE_EVICTION_FILTER)

    assert b'"point":"preevictionfilter"' in msgspec.json.encode(run)
    assert f"{run.point}" == "preevictionfilter"
