"""Mistakes in a scenario: all of them at once, each with its place and a fix."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.harness import LOPSIDED, NOW, resettle, write

WORDS = ("--cluster", LOPSIDED / "cluster.yaml", "--policy", LOPSIDED / "policy.yaml")
KINDS = (
    "CSINode, Deployment, Job, Namespace, Node, PersistentVolume, PersistentVolumeClaim, Pod, "
    "PodDisruptionBudget, PriorityClass, ReplicaSet, ReplicationController, StatefulSet"
)


def event(text: str) -> str:
    """A scenario with one event, its lines two to the right."""
    return "events:\n  - cycle: 2\n    " + text.replace("\n", "\n    ") + "\n"


@pytest.mark.parametrize(
    ("scenario", "problems"),
    [
        pytest.param(
            "cycls: 3\n",
            ["s.yaml:1:1: cycls", "`cycls` is not a key known here; did you mean `cycles`?"],
            id="a key that is misspelt",
        ),
        pytest.param(
            "cycles: 0\n",
            ["s.yaml:1:9: cycles", "0 is out of range; write a whole number of 1 or more"],
            id="no cycles",
        ),
        pytest.param(
            "interval: soon\n",
            [
                "s.yaml:1:11: interval",
                "`soon` is not a duration such as `50m`, `1h30m` or `90s`",
            ],
            id="not a duration",
        ),
        pytest.param(
            "interval: 0s\nnow: yesterday\n",
            [
                "s.yaml:1:11: interval",
                "0s is not a positive duration; write how long after one cycle the next one begins",
                "s.yaml:2:6: now",
                "`yesterday` is not a time; write one such as `2026-01-31T12:00:00Z`",
            ],
            id="times that are none",
        ),
        pytest.param(
            "events:\n  - says: x\n    delete: Node/x\n",
            [
                "s.yaml:2:5: events[0].cycle",
                "`cycle` is missing; add `cycle`",
                "s.yaml:3:13: events[0].delete",
                "`Node/x` is not a list; write it as a list: `[Node/x]`",
            ],
            id="an event of the wrong shape",
        ),
        pytest.param(
            "events:\n  - {cycle: 1, says: x}\n",
            [
                "s.yaml:2:5: events[0]",
                "this event changes nothing; add `apply`, `delete`, `scale` or `cordon`",
            ],
            id="an event in which nothing happens",
        ),
        pytest.param(
            "events:\n  - {cycle: 11, cordon: [node-1]}\n",
            [
                "s.yaml:2:13: events[0].cycle",
                "cycle 11 comes after the last one, 10; choose an earlier one, or more `cycles`",
            ],
            id="after the end",
        ),
        pytest.param(
            event("delete: [Nod/a, Node/node-11, Pod/cart-1, Pod/shop/cart-3]"),
            [
                "s.yaml:3:14: events[0].delete[0]",
                "`Nod/a` does not begin with a kind that resettle reads; did you mean `Node`?",
                "s.yaml:3:21: events[0].delete[1]",
                "there is no Node `node-11` by cycle 2; did you mean `node-1`?",
                "s.yaml:3:35: events[0].delete[2]",
                "`Pod/cart-1` is not the name of a Pod; write `Pod/NAMESPACE/NAME`",
                "s.yaml:3:47: events[0].delete[3]",
                "there is no Pod `shop/cart-3` by cycle 2; did you mean `shop/cart-2`?",
            ],
            id="what is not there cannot go",
        ),
        pytest.param(
            event("scale:\n  cart: 2\n  ReplicaSet/shop/cat: 3"),
            [
                "s.yaml:4:13: events[0].scale.cart",
                "`cart` is not the name of a controller; write `ReplicaSet/NAMESPACE/NAME`",
                "s.yaml:5:28: events[0].scale.ReplicaSet/shop/cat",
                "no pod belongs to `ReplicaSet/shop/cat`, so there is none to copy; "
                "did you mean `ReplicaSet/shop/cart`?",
            ],
            id="nothing to scale",
        ),
        pytest.param(
            event("cordon: [moon]"),
            [
                "s.yaml:3:14: events[0].cordon[0]",
                "there is no node `moon` by cycle 2; name one that the cluster has",
            ],
            id="no such node",
        ),
        pytest.param(
            event(
                "apply:\n"
                "  - metadata: {name: x}\n"
                "  - {kind: DaemonSet, metadata: {name: x}}\n"
                "  - {kind: Node, metadata: {name: x}, status: {allocatable: {cpu: lots}}}\n"
                "  - {kind: Pod, metadata: {name: x}, spec: 7}"
            ),
            [
                "s.yaml:4:9: events[0].apply[0]",
                f"this has no `kind`; known here: {KINDS}",
                "s.yaml:5:9: events[0].apply[1]",
                f"`DaemonSet` is not a kind that resettle reads; known here: {KINDS}",
                "s.yaml:6:9: events[0].apply[2]",
                "Node x: cpu: `lots` is not a quantity; "
                "write a number such as `250m`, `1.5` or `2Gi`",
                "s.yaml:7:9: events[0].apply[3]",
                "this is not a Pod as Kubernetes writes it: Expected `object`, got `int` - at "
                "`$.spec`; correct it or leave it out",
            ],
            id="objects that are none",
        ),
        pytest.param(
            "- a\n",
            [
                "s.yaml:1:1:",
                "a scenario is a mapping; write `cluster`, `policy` and `events` as its keys",
            ],
            id="not a mapping",
        ),
        pytest.param(
            "",
            [
                "s.yaml:1:1:",
                "a scenario is one document; write one document with `cluster`, "
                "`policy` and `events`",
            ],
            id="nothing at all",
        ),
    ],
)
def test_every_mistake_of_a_scenario_is_reported_with_its_place(
    scenario: str, problems: list[str], tmp_path: Path
) -> None:
    write(tmp_path, {"s.yaml": scenario})

    done = resettle("simulate", "--scenario", "s.yaml", *WORDS, cwd=tmp_path)

    many = "1 problem" if len(problems) == 2 else f"{len(problems) // 2} problems"
    expected = [f"error: s.yaml has {many}"]
    expected += [line if i % 2 == 0 else f"    {line}" for i, line in enumerate(problems)]
    assert (done.code, done.out) == (1, "")
    assert done.err.splitlines() == expected


def test_a_later_event_may_undo_an_earlier_one_whatever_their_order(tmp_path: Path) -> None:
    scenario = (
        "events:\n"
        "  - {cycle: 3, delete: [Node/node-9]}\n"
        "  - {cycle: 2, apply: [{kind: Node, metadata: {name: node-9}, status: {}}]}\n"
    )
    write(tmp_path, {"s.yaml": scenario})

    done = resettle("simulate", "--scenario", "s.yaml", *WORDS, "--now", NOW, cwd=tmp_path)

    assert (done.code, done.err) == (0, "")
    assert "event  Node node-9 is applied\n" in done.out
    assert "event  Node/node-9 is deleted\n" in done.out
