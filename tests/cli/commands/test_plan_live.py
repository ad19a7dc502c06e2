"""`resettle plan` from a live cluster: which kubeconfig and context, and where the time goes."""

from __future__ import annotations

import re
from argparse import Namespace
from pathlib import Path

import pytest
from msgspec import Struct

from resettle.cli.inputs.cluster import collect_objects
from resettle.clock import Stopwatch
from resettle.errors import PluginError
from resettle.framework import Descheduler, Kind, Plugin, Registry
from resettle.testing import ApiServer
from tests.cli.harness import (
    LIFETIME,
    LOPSIDED,
    NOW,
    listing,
    lopsided_objects,
    resettle,
    transcript,
    write,
)
from tests.kube.auth.builders import document, written
from tests.kube.watch.builders import in_pages

PLAN = ("plan", "--policy", LOPSIDED / "policy.yaml", "--now", NOW, "-o", "json")
RUNS = [
    "RemovePodsHavingTooManyRestarts",
    "RemovePodsViolatingNodeTaints",
    "RemovePodsViolatingInterPodAntiAffinity",
    "RemovePodsViolatingTopologySpreadConstraint",
    "LowNodeUtilization",
]


# -- which cluster -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("file", "env"),
    [
        pytest.param("elsewhere/config", {"KUBECONFIG": "elsewhere/config"}, id="the variable's"),
        pytest.param(".kube/config", {}, id="the one at home"),
        pytest.param(".kube/config", {"KUBECONFIG": ""}, id="at home if the variable is empty"),
    ],
)
def test_without_a_source_the_default_kubeconfig_is_used(
    file: str, env: dict[str, str], tmp_path: Path
) -> None:
    (tmp_path / file).parent.mkdir()
    with ApiServer(lopsided_objects()) as server:
        written((tmp_path / file).parent, document({"server": server.url}))
        done = resettle(*PLAN, cwd=tmp_path, env={"HOME": str(tmp_path), **env})

    assert done == (0, transcript("lopsided.json"), "")


@pytest.mark.parametrize(
    ("words", "file"),
    [
        pytest.param((), "HOME/.kube/config", id="by default"),
        pytest.param(("--kubeconfig", "gone"), "gone", id="by its name"),
        pytest.param(("--context", "there"), "HOME/.kube/config", id="with a context"),
    ],
)
def test_a_kubeconfig_that_is_not_there_is_an_error(
    words: tuple[str, ...], file: str, tmp_path: Path
) -> None:
    done = resettle(*PLAN, *words, cwd=tmp_path, env={"HOME": str(tmp_path)})

    named = file.replace("HOME", str(tmp_path))
    fix = "name one with --kubeconfig or $KUBECONFIG"
    assert done == (1, "", f"error: there is no kubeconfig {named}; {fix}\n")


def test_a_context_chooses_among_the_clusters_of_a_kubeconfig(tmp_path: Path) -> None:
    with ApiServer() as empty, ApiServer(lopsided_objects()) as full:
        config = document(
            contexts=[
                {"name": "here", "context": {"cluster": "empty"}},
                {"name": "there", "context": {"cluster": "full"}},
            ],
            clusters=[
                {"name": "empty", "cluster": {"server": empty.url}},
                {"name": "full", "cluster": {"server": full.url}},
            ],
        )
        words = ("--kubeconfig", written(tmp_path, config), "--context", "there")
        done = resettle(*PLAN, *words, cwd=tmp_path)

    assert done == (0, transcript("lopsided.json"), "")
    assert (empty.requests, bool(full.requests)) == ([], True)


def test_a_policy_with_a_mistake_is_reported_before_the_cluster_is_asked(tmp_path: Path) -> None:
    (tmp_path / "p.yaml").write_text(LIFETIME.replace("[PodLifeTime]", "[PodLifetime]"))
    with ApiServer() as server:
        file = written(tmp_path, document({"server": server.url}))
        done = resettle("plan", "--kubeconfig", file, "--policy", "p.yaml", cwd=tmp_path)

    assert (done.code, server.requests) == (1, [])
    assert done.err.startswith("error: p.yaml has 1 problem\n")


def test_a_dump_and_a_live_cluster_exclude_each_other(tmp_path: Path) -> None:
    done = resettle(*PLAN, "--cluster", "c.json", "--kubeconfig", "config", cwd=tmp_path)

    assert (done.code, done.out) == (2, "")
    assert done.err.splitlines()[-1] == (
        "resettle plan: error: argument --kubeconfig: not allowed with argument --cluster"
    )


# -- where the time goes -------------------------------------------------------------------------


def phases(text: str) -> list[str]:
    """The first column of the account, which has to look like one."""
    head, *rows, memory = text.splitlines()
    assert head.split() == ["PHASE", "WALL", "ms", "CPU", "ms"]
    assert re.fullmatch(r"peak memory \d+ MiB", memory)
    matches = [re.fullmatch(r"(\w+(?: \w+)*) +\d+\.\d +\d+\.\d", row) for row in rows]
    return [row[1] for row in matches if row]


def test_the_time_of_a_plan_from_a_dump_is_reported_by_phase(tmp_path: Path) -> None:
    words = ("--cluster", LOPSIDED / "cluster.yaml", "--profile-cycle")

    done = resettle(*PLAN, *words, cwd=tmp_path)

    assert (done.code, done.out) == (0, transcript("lopsided.json"))
    around = ["start", "read and decode", "snapshot"], ["print", "whole process"]
    assert phases(done.err) == [*around[0], *RUNS, *around[1]]


def test_the_time_of_a_plan_from_a_live_cluster_separates_fetching_from_decoding(
    tmp_path: Path,
) -> None:
    with ApiServer(lopsided_objects(), faults=[in_pages(7)]) as server:
        file = written(tmp_path, document({"server": server.url}))
        done = resettle(*PLAN, "--kubeconfig", file, "--profile-cycle", cwd=tmp_path)

    assert (done.code, done.out) == (0, transcript("lopsided.json"))
    around = ["start", "fetch", "decode", "snapshot"], ["print", "whole process"]
    assert phases(done.err) == [*around[0], *RUNS, *around[1]]


# -- kinds of plugins ----------------------------------------------------------------------------


class Small(Struct, frozen=True):
    """A widget as one plugin reads it."""


class Large(Struct, frozen=True):
    """A widget as another plugin reads it."""


def test_two_plugins_that_read_one_kind_differently_are_an_error(tmp_path: Path) -> None:
    write(tmp_path, {"c.json": listing([])})
    plugins = Registry(
        Plugin(name=struct.__name__, kinds=(Kind("Widget", struct),)) for struct in (Small, Large)
    )
    arguments = Namespace(cluster=[str(tmp_path / "c.json")], kubeconfig=None, context=None)

    with pytest.raises(PluginError, match="two structs are declared for the kind `Widget`"):
        collect_objects(arguments, Descheduler(profiles=()), plugins, Stopwatch())
