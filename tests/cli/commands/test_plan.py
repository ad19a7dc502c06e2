"""`resettle plan` from end to end: what goes in as files and words, and what comes out."""

from __future__ import annotations

import gzip
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from resettle.testing import NodeBuilder, node, pod
from tests.cli.harness import (
    BUDGET,
    HEAD,
    LIFETIME,
    LOPSIDED,
    NOW,
    documents,
    listing,
    lopsided_objects,
    resettle,
    transcript,
    write,
)

POLICY = LOPSIDED / "policy.yaml"
CLUSTER = LOPSIDED / "cluster.yaml"
Objects = list[dict[str, Any]]


NO_BUDGETS = "the dump holds no disruption budgets, so the plan assumes there are none"


def objects(*parts: NodeBuilder) -> Objects:
    """The nodes and all they hold."""
    return [item for part in parts for item in (part.node, *part.pods)]


def kinds(wanted: Callable[[str], bool]) -> Objects:
    """Those objects of the bundled cluster whose kind is wanted."""
    return [obj for obj in lopsided_objects() if wanted(obj["kind"])]


# -- what comes out ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("output", "kept"),
    [
        pytest.param("table", "lopsided.txt", id="for people"),
        pytest.param("json", "lopsided.json", id="for programs"),
        pytest.param("yaml", "lopsided.yaml", id="for programs that like YAML"),
    ],
)
def test_a_plan_over_the_bundled_cluster_reads_as_it_always_did(
    output: str, kept: str, tmp_path: Path
) -> None:
    words = ("plan", "--cluster", CLUSTER, "--policy", POLICY, "--now", NOW, "-o", output)

    assert resettle(*words, cwd=tmp_path) == (0, transcript(kept), "")


def test_json_and_yaml_say_the_same() -> None:
    assert yaml.safe_load(transcript("lopsided.yaml")) == json.loads(transcript("lopsided.json"))


# -- what goes in --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("files", "sources"),
    [
        pytest.param(
            {
                "nodes.json": listing(kinds(lambda kind: kind == "Node")),
                "rest.yaml": documents(kinds(lambda kind: kind != "Node")),
            },
            ["nodes.json", "rest.yaml"],
            id="several files",
        ),
        pytest.param(
            {
                "dump/a/nodes.json": listing(kinds(lambda kind: kind == "Node")),
                "dump/rest.yml": documents(kinds(lambda kind: kind != "Node")),
                "dump/README.txt": "not a dump",
            },
            ["dump"],
            id="a folder, and the folders in it",
        ),
        pytest.param({"c.yaml": documents(lopsided_objects())}, ["c.yaml"], id="YAML documents"),
        pytest.param({"c.json": listing(lopsided_objects())}, ["c.json"], id="a JSON list"),
        pytest.param(
            {"c.json": listing(lopsided_objects()[::-1])}, ["c.json"], id="listed backwards"
        ),
        pytest.param(
            {
                "pods.json": listing(
                    [
                        {key: value for key, value in item.items() if key not in ("kind",)}
                        for item in kinds(lambda kind: kind == "Pod")
                    ],
                    "PodList",
                ),
                "rest.json": listing(kinds(lambda kind: kind != "Pod")),
            },
            ["pods.json", "rest.json"],
            id="a list of pods that do not say they are pods",
        ),
        pytest.param(
            {"c.json.gz": gzip.compress(listing(lopsided_objects()))}, ["c.json.gz"], id="gzip"
        ),
        pytest.param(
            {"dump/c.yaml.gz": gzip.compress(CLUSTER.read_bytes())}, ["dump"], id="gzip in a folder"
        ),
        pytest.param(
            {"c.json": b"\xef\xbb\xbf" + listing(lopsided_objects())},
            ["c.json"],
            id="with a byte order mark",
        ),
    ],
)
def test_the_plan_is_the_same_however_the_dump_is_given(
    files: dict[str, str | bytes], sources: list[str], tmp_path: Path
) -> None:
    write(tmp_path, files)
    words = ("plan", "--policy", POLICY, "--now", NOW, "-o", "json", "--cluster")

    assert resettle(*words, *sources, cwd=tmp_path) == (0, transcript("lopsided.json"), "")


@pytest.mark.parametrize(
    ("words", "piped"),
    [
        pytest.param(("--cluster", "-", "--policy", POLICY), CLUSTER, id="the cluster"),
        pytest.param(("--cluster", CLUSTER, "--policy", "-"), POLICY, id="the policy"),
    ],
)
def test_a_dash_reads_standard_input(
    words: tuple[str | Path, ...], piped: Path, tmp_path: Path
) -> None:
    done = resettle(
        "plan", *words, "--now", NOW, "-o", "json", cwd=tmp_path, stdin=piped.read_bytes()
    )

    assert done == (0, transcript("lopsided.json"), "")


def test_a_pipe_with_a_name_is_read_like_a_file(tmp_path: Path) -> None:
    """As the shell makes one for `--cluster <(kubectl get … -o json)`."""
    held = node("n1").holding(pod("web-1"))
    write(tmp_path, {"p.yaml": LIFETIME})
    reader, writer = os.pipe()
    os.write(writer, listing([*objects(held, node("n2")), BUDGET]))
    os.close(writer)
    with os.fdopen(reader):
        words = ("plan", "--cluster", f"/dev/fd/{reader}", "--policy", "p.yaml", "--now", NOW)
        done = resettle(*words, cwd=tmp_path, pass_fds=(reader,))

    assert (done.code, done.err) == (0, "")
    assert done.out.startswith("1 pod would move of 1 pod on 2 nodes, off 1 node.")


@pytest.mark.parametrize(
    ("now", "moves"),
    [
        pytest.param("2026-01-31T12:00:00Z", ["new", "old"], id="a day after both were made"),
        pytest.param("2026-01-30T13:00:01Z", ["old"], id="an hour and a second after the younger"),
        pytest.param("2026-01-30T14:00:01+01:00", ["old"], id="the same instant in another zone"),
        pytest.param("2026-01-30T13:00:01", ["old"], id="without a zone it is UTC"),
        pytest.param("2026-01-28T00:00:00Z", [], id="before either was made"),
    ],
)
def test_now_is_the_time_the_plan_is_drawn_for(now: str, moves: list[str], tmp_path: Path) -> None:
    held = node("n1").holding(pod("new", age="23h"), pod("old", age="2d"))
    write(tmp_path, {"c.json": listing(objects(held, node("n2"))), "p.yaml": LIFETIME})
    words = ("plan", "--cluster", "c.json", "--policy", "p.yaml", "--now", now, "-o", "json")

    plan = json.loads(resettle(*words, cwd=tmp_path).out)

    assert sorted(move["name"] for move in plan["moves"]) == moves


# -- nothing to do is no error -------------------------------------------------------------------

PAIR = objects(node("n1"), node("n2"))
MISSPELT = LIFETIME.replace("maxPodLifeTimeSeconds: 3600", "nodeAffinityType: [required]").replace(
    "PodLifeTime", "RemovePodsViolatingNodeAffinity"
)
LOST = [
    {**pod(name), "spec": {**pod(name)["spec"], "nodeName": "gone"}} for name in ("web-1", "web-2")
]


@pytest.mark.parametrize(
    ("cluster", "policy", "says", "notes"),
    [
        pytest.param(
            [],
            LIFETIME,
            "Nothing would move of 0 pods on 0 nodes: no node is ready and selected; "
            "moving pods takes at least two.",
            ["there are no nodes", "there are no pods", NO_BUDGETS],
            id="an empty cluster",
        ),
        pytest.param(
            objects(node("n1").holding(pod("web-1"))),
            LIFETIME,
            "Nothing would move of 1 pod on 1 node: only one node is ready and selected; "
            "moving pods takes at least two.",
            [NO_BUDGETS],
            id="one node",
        ),
        pytest.param(
            objects(node("n1").holding(pod("web-1")), node("n2", ready=False)),
            LIFETIME,
            "Nothing would move of 1 pod on 2 nodes: only one node is ready and selected "
            "(1 unready or not selected); moving pods takes at least two.",
            [NO_BUDGETS],
            id="one node that is ready",
        ),
        pytest.param(
            PAIR + LOST,
            LIFETIME,
            "Nothing would move of 2 pods on 2 nodes: no plugin found a pod to move.",
            [
                "pods on nodes that are not listed (gone) count as replicas "
                "and stay where they are: 2",
                NO_BUDGETS,
            ],
            id="pods on a node that is not listed",
        ),
        pytest.param(
            objects(node("n1").holding(pod("web-1")), node("n2")),
            HEAD,
            "Nothing would move of 1 pod on 2 nodes: the policy enables no strategy.",
            [NO_BUDGETS, "the policy has no profiles, so nothing will move"],
            id="a policy without profiles",
        ),
        pytest.param(
            [*objects(node("n1").holding(pod("web-1", owner=None)), node("n2")), BUDGET],
            LIFETIME,
            "Nothing would move of 1 pod on 2 nodes: 1 proposal was made and all refused.",
            [],
            id="every proposal refused",
        ),
        pytest.param(
            [*objects(node("n1").holding(pod("w", age="5m")), node("n2")), {"kind": "Service"}],
            LIFETIME,
            "Nothing would move of 1 pod on 2 nodes: no plugin found a pod to move.",
            ["ignored object kinds: 1 Service", NO_BUDGETS],
            id="objects that say nothing to a plan",
        ),
        pytest.param(
            [*objects(node("n1").holding(pod("web-1")), node("n2")), BUDGET],
            MISSPELT,
            "Nothing would move of 1 pod on 2 nodes: no plugin found a pod to move.",
            [
                "profile main: RemovePodsViolatingNodeAffinity: `required` is not a type of node "
                "affinity, so it matches no pod"
            ],
            id="a type of node affinity that does not exist",
        ),
    ],
)
def test_a_plan_without_moves_says_why_in_its_first_line(
    cluster: Objects, policy: str, says: str, notes: list[str], tmp_path: Path
) -> None:
    write(tmp_path, {"c.json": listing(cluster), "p.yaml": policy})

    done = resettle("plan", "--cluster", "c.json", "--policy", "p.yaml", "--now", NOW, cwd=tmp_path)

    assert done.code == 0
    assert done.out.splitlines()[0] == says
    assert done.err.splitlines() == [f"note: {note}" for note in notes]


def test_a_warning_about_the_policy_does_not_keep_it_from_being_used(tmp_path: Path) -> None:
    policy = LIFETIME + "      sort:\n        enabled: [AgeSort]\n"
    policy = policy.replace("    pluginConfig:\n", "    pluginConfig:\n      - name: AgeSort\n")
    held = node("n1").holding(pod("web-1"))
    cluster = [*objects(held, node("n2")), BUDGET]
    write(tmp_path, {"c.json": listing(cluster), "p.yaml": policy})

    done = resettle("plan", "--cluster", "c.json", "--policy", "p.yaml", "--now", NOW, cwd=tmp_path)

    assert done.out.startswith("1 pod would move of 1 pod on 2 nodes, off 1 node.")
    assert (done.code, done.err) == (
        0,
        "warning: p.yaml:12:7: profiles[0].plugins.sort\n"
        "    `sort` has no effect in `descheduler/v1alpha2`; "
        "it works in `apiVersion: resettle/v1`\n",
    )


def test_a_plugin_that_fails_is_named_and_the_others_still_plan(tmp_path: Path) -> None:
    measured = """      - name: LowNodeUtilization
        args:
          thresholds: {cpu: 20}
          targetThresholds: {cpu: 50}
          metricsUtilization: {source: KubernetesMetrics}
"""
    policy = LIFETIME.replace("    plugins:\n", f"{measured}    plugins:\n")
    policy = policy.replace(
        "profiles:\n", "metricsProviders: [{source: KubernetesMetrics}]\nprofiles:\n"
    )
    policy += "      balance:\n        enabled: [LowNodeUtilization]\n"
    held = node("n1").holding(pod("web-1"))
    cluster = [*objects(held, node("n2")), BUDGET]
    write(tmp_path, {"c.json": listing(cluster), "p.yaml": policy})

    done = resettle("plan", "--cluster", "c.json", "--policy", "p.yaml", "--now", NOW, cwd=tmp_path)

    assert done.out.startswith("1 pod would move of 1 pod on 2 nodes, off 1 node.")
    assert (done.code, done.err) == (
        1,
        "error: LowNodeUtilization in profile main: the snapshot holds no usage from "
        "KubernetesMetrics; nothing is moved without it\n",
    )
