"""The table of kinds: what is derived from it, and the declarations that must agree with it."""

from __future__ import annotations

import pytest
from msgspec import Struct, structs

from resettle.errors import InputError, PluginError
from resettle.model.changes import Changes
from resettle.model.decoding import wire
from resettle.model.decoding.decoder import Decoder
from resettle.model.kinds import (
    ALWAYS_READ,
    FIELDS,
    KEYED_FIELDS,
    KINDS,
    Kind,
    kinds_by_name,
    kinds_to_list,
)
from resettle.model.snapshot import Snapshot
from resettle.record.encoding import RecordPage
from resettle.testing import NOW


class Widget(Struct):
    pass


class Gadget(Struct):
    pass


WIDGET = Kind("Widget", Widget, "/apis/example.com/v1/widgets")
NOWHERE = Kind("Widget", Widget)


@pytest.mark.parametrize(
    ("kind", "plural", "group", "api_version"),
    [
        pytest.param(KINDS["Pod"], "pods", "", "v1", id="of the core"),
        pytest.param(
            KINDS["PodDisruptionBudget"], "poddisruptionbudgets", "policy", "policy/v1", id="policy"
        ),
        pytest.param(WIDGET, "widgets", "example.com", "example.com/v1", id="of a plugin"),
    ],
)
def test_the_path_says_plural_group_and_version(
    kind: Kind, plural: str, group: str, api_version: str
) -> None:
    assert (kind.plural, kind.group, kind.api_version) == (plural, group, api_version)


@pytest.mark.parametrize("part", ["list_path", "plural", "group", "api_version"])
def test_a_kind_without_a_path_cannot_be_listed(part: str) -> None:
    with pytest.raises(InputError, match="reads Widget declares no path to list it"):
        getattr(NOWHERE, part)


def test_every_kind_has_its_field_in_changes_and_in_the_pages_of_a_record() -> None:
    fields = {field.name for field in structs.fields(Changes)}

    assert set(FIELDS) <= fields
    assert set(FIELDS) <= {field.name for field in structs.fields(RecordPage)}


def test_an_empty_snapshot_has_every_field_that_is_looked_up_by_key() -> None:
    snapshot = Snapshot.of(nodes=(), pods=(), taken_at=NOW)

    assert [getattr(snapshot, name) for name in KEYED_FIELDS] == [{}] * len(KEYED_FIELDS)


def test_a_snapshot_of_objects_that_it_has_no_field_for_is_an_error() -> None:
    with pytest.raises(TypeError, match="no objects called budget, widgets"):
        Snapshot.of(nodes=(), pods=(), taken_at=NOW, widgets=(), budget=())


def test_objects_of_the_table_become_those_of_the_model_and_others_stay_as_they_are() -> None:
    convert = KINDS["Namespace"].converter(Decoder())

    assert convert(wire.NamespaceObject(wire.Meta(name="a"))).key == "a"
    assert WIDGET.converter(Decoder()) is None


@pytest.mark.parametrize(
    "declared",
    [
        pytest.param([WIDGET, Kind("Widget", Gadget)], id="two plugins disagree"),
        pytest.param([Kind("Pod", Widget)], id="a kind of the table"),
    ],
)
def test_one_kind_has_one_struct(declared: list[Kind]) -> None:
    with pytest.raises(PluginError, match="two structs are declared"):
        kinds_by_name(declared)


@pytest.mark.parametrize(
    ("declared", "reads", "names"),
    [
        pytest.param([], frozenset(), [*ALWAYS_READ], id="nodes and pods always"),
        pytest.param(
            [WIDGET],
            frozenset({"Widget", "CSINode", "history"}),
            [*ALWAYS_READ, "CSINode", "Widget"],
            id="then the others by name, but only kinds",
        ),
        pytest.param(
            [NOWHERE],
            None,
            [*ALWAYS_READ, *sorted(KINDS.keys() - {*ALWAYS_READ})],
            id="all that have a path",
        ),
    ],
)
def test_the_kinds_to_list(
    declared: list[Kind], reads: frozenset[str] | None, names: list[str]
) -> None:
    assert [kind.name for kind in kinds_to_list(declared, reads)] == names
