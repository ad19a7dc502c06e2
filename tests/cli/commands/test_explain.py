"""`resettle explain` from end to end: what is asked, and what is answered."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.harness import (
    HEAD,
    LOPSIDED,
    NOW,
    WITH_USAGE,
    resettle,
    transcript,
    write_small_cluster,
)

SOURCES = (
    *("--cluster", LOPSIDED / "cluster.yaml", "--policy", LOPSIDED / "policy.yaml"),
    *("--now", NOW),
)


@pytest.mark.parametrize(
    ("asked", "kept"),
    [
        pytest.param(("pod", "shop/frontend-1"), "explain-pod", id="a pod that is refused"),
        pytest.param(("pod", "shop/cart-1"), "explain-moving-pod", id="a pod that moves"),
        pytest.param(("node", "node-3"), "explain-node", id="a node"),
        pytest.param(("cycle",), "explain-cycle", id="the cycle"),
    ],
)
@pytest.mark.parametrize(
    ("output", "suffix"),
    [pytest.param("text", "txt", id="for people"), pytest.param("json", "json", id="for programs")],
)
def test_answers_about_the_bundled_cluster_read_as_they_always_did(
    asked: tuple[str, ...], kept: str, output: str, suffix: str, tmp_path: Path
) -> None:
    done = resettle("explain", *asked, *SOURCES, "-o", output, cwd=tmp_path)

    assert done == (0, transcript(f"{kept}.{suffix}"), "")


def test_no_line_for_people_is_wider_than_the_terminal() -> None:
    kept = ("explain-pod.txt", "explain-moving-pod.txt", "explain-node.txt", "explain-cycle.txt")
    wide = [line for name in kept for line in transcript(name).splitlines() if len(line) > 80]

    # The first line of a cycle is that of the plan, which is never broken.
    assert [line for line in wide if not line.endswith("all refused.")] == []


def test_a_wide_terminal_shows_names_and_words_side_by_side(tmp_path: Path) -> None:
    words = ("explain", "pod", "shop/frontend-1", *SOURCES)
    done = resettle(*words, cwd=tmp_path, env={"COLUMNS": "160"})

    assert done.out.splitlines()[1] == (
        "  proposed      RemovePodsViolatingTopologySpreadConstraint  "
        "topology.kubernetes.io/zone north has 5 matching pods, the emptiest 0 (maxSkew 1)"
    )


# -- asked wrongly --------------------------------------------------------------------------------

USAGE = "usage: resettle explain"


@pytest.mark.parametrize(
    ("words", "says"),
    [
        pytest.param(
            ("pod", "frontend-1", *SOURCES),
            "resettle explain pod: error: argument NAMESPACE/NAME: "
            "`frontend-1` is not the name of a pod; write NAMESPACE/NAME",
            id="a pod without its namespace",
        ),
        pytest.param(
            ("pod", "a/b/c", *SOURCES),
            "resettle explain pod: error: argument NAMESPACE/NAME: "
            "`a/b/c` is not the name of a pod; write NAMESPACE/NAME",
            id="one slash too many",
        ),
        pytest.param(
            ("pod", "/frontend-1", *SOURCES),
            "resettle explain pod: error: argument NAMESPACE/NAME: "
            "`/frontend-1` is not the name of a pod; write NAMESPACE/NAME",
            id="an empty namespace",
        ),
        pytest.param(
            ("pod", *SOURCES),
            "resettle explain pod: error: the following arguments are required: NAMESPACE/NAME",
            id="no pod at all",
        ),
        pytest.param(
            ("pod", "shop/frontend-1", "--kubeconfig", "k", *SOURCES),
            "resettle explain pod: error: argument --cluster: "
            "not allowed with argument --kubeconfig",
            id="two clusters",
        ),
        pytest.param(
            ("cycle", *SOURCES, "-o", "yaml"),
            "resettle explain cycle: error: argument -o/--output: invalid choice: 'yaml' "
            "(choose from 'text', 'json')",
            id="no such output",
        ),
        pytest.param(
            ("cycle", "--cluster", "c.json"),
            "resettle explain cycle: error: the following arguments are required: --policy",
            id="no policy",
        ),
        pytest.param(
            (),
            "resettle explain: error: the following arguments are required: WHAT",
            id="nothing to explain",
        ),
    ],
)
def test_a_usage_error_exits_with_two_and_shows_the_usage(
    words: tuple[str | Path, ...], says: str, tmp_path: Path
) -> None:
    done = resettle("explain", *words, cwd=tmp_path)

    assert (done.code, done.out) == (2, "")
    assert done.err.startswith(USAGE)
    assert done.err.splitlines()[-1].replace("text, json", "'text', 'json'") == says


@pytest.mark.parametrize(
    ("words", "says"),
    [
        pytest.param(
            ("pod", "shop/frontend-11"),
            "there is no pod `shop/frontend-11`; did you mean `shop/frontend-1`?",
            id="a pod with a name that is near",
        ),
        pytest.param(
            ("pod", "finance/frontend-1"),
            "there is no pod `finance/frontend-1`; did you mean `shop/frontend-1`?",
            id="a pod of that name elsewhere",
        ),
        pytest.param(
            ("pod", "shop/moon"),
            "there is no pod `shop/moon`; list them with `kubectl get pods`",
            id="a pod like no other",
        ),
        pytest.param(
            ("node", "node1"),
            "there is no node `node1`; did you mean `node-1`?",
            id="a node with a name that is near",
        ),
        pytest.param(
            ("node", "x"),
            "there is no node `x`; list them with `kubectl get nodes`",
            id="a node like no other",
        ),
    ],
)
def test_what_is_not_there_is_an_error_that_names_what_was_meant(
    words: tuple[str, ...], says: str, tmp_path: Path
) -> None:
    assert resettle("explain", *words, *SOURCES, cwd=tmp_path) == (1, "", f"error: {says}\n")


# -- what is unusual ------------------------------------------------------------------------------


def test_a_plugin_that_fails_is_named_and_the_answer_still_given(tmp_path: Path) -> None:
    measured = WITH_USAGE.replace(
        "profiles:\n", "metricsProviders: [{source: KubernetesMetrics}]\nprofiles:\n"
    )
    words = write_small_cluster(tmp_path, measured)

    done = resettle("explain", "pod", "default/web-1", *words, cwd=tmp_path)

    assert done.out == (
        "default/web-1 would move off n1\n"
        "  proposed      PodLifeTime         is 1d old, longer than 1h\n"
        "  not proposed  LowNodeUtilization  the plugin failed: the snapshot holds no\n"
        "                                    usage from KubernetesMetrics; nothing is\n"
        "                                    moved without it\n"
    )
    assert (done.code, done.err) == (
        1,
        "error: LowNodeUtilization in profile main: the snapshot holds no usage from "
        "KubernetesMetrics; nothing is moved without it\n",
    )


@pytest.mark.parametrize("asked", [("pod", "default/web-1"), ("node", "n1"), ("cycle",)])
def test_a_policy_without_strategies_is_explained_too(
    asked: tuple[str, ...], tmp_path: Path
) -> None:
    words = write_small_cluster(tmp_path, HEAD)

    done = resettle("explain", *asked, *words, cwd=tmp_path)

    assert done.code == 0
    assert done.err == "note: the policy has no profiles, so nothing will move\n"
    assert done.out.splitlines()[0] in (
        "default/web-1 stays on n1",
        "n1 is in scope and holds 1 pod, of which none would go",
        "Nothing would move of 1 pod on 2 nodes: the policy enables no strategy.",
    )


def test_programs_and_people_are_given_the_same(tmp_path: Path) -> None:
    document = json.loads(transcript("explain-pod.json"))
    text = " ".join(transcript("explain-pod.txt").split())

    assert f"{document['namespace']}/{document['name']} stays on {document['node']}" in text
    for change in document["would_move_if"]:
        assert change["says"] in text
    for word in document["plugins"]:
        assert word["plugin"] in text
