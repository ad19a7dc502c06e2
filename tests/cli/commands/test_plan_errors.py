"""What `resettle plan` says when it cannot plan: what is wrong, where, and what to do about it."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from resettle.testing import node, pod
from tests.cli.harness import ASK_FOR, BUDGET, LIFETIME, listing, resettle, write

DAMAGED = bytearray(gzip.compress(bytes(range(256)) * 64))
DAMAGED[40] ^= 0xFF
CLASSED = LIFETIME.replace(
    "      - name: PodLifeTime\n",
    "      - name: DefaultEvictor\n        args: {priorityThreshold: {name: gold}}\n"
    "      - name: PodLifeTime\n",
)


def as_text(item: dict[str, Any]) -> str:
    return json.dumps(item)


@pytest.mark.parametrize(
    ("name", "content", "says"),
    [
        pytest.param(
            "c.yaml",
            None,
            "there is no file c.yaml; name a dump, a folder of dumps, or `-`",
            id="no such file",
        ),
        pytest.param(
            "c.yaml",
            "kind: Pod\nmetadata: [a: b\n",
            "c.yaml:3:1 is not YAML: did not find expected ',' or ']'; "
            f"make a dump with `{ASK_FOR}`",
            id="not YAML",
        ),
        pytest.param(
            "c.json",
            '{"kind": "Pod",',
            f"c.json is not JSON: Input data was truncated; make a dump with `{ASK_FOR}`",
            id="not JSON",
        ),
        pytest.param(
            "c.yaml",
            "hello\n",
            f"c.yaml is not a Kubernetes object; make a dump with `{ASK_FOR}`",
            id="a word",
        ),
        pytest.param(
            "c.json",
            '{"a": 1}',
            f"c.json is not a Kubernetes object: it has no `kind`; make a dump with `{ASK_FOR}`",
            id="no Kubernetes object",
        ),
        pytest.param(
            "c.json",
            as_text(node("n1", cpu="-4").node),
            "c.json, Node n1: cpu: `-4` is negative; a resource is zero or more",
            id="a node that offers less than nothing",
        ),
        pytest.param(
            "c.json",
            listing([pod("p", cpu="-1")]),
            "c.json: items[0], Pod default/p: cpu: `-1` is negative; a resource is zero or more",
            id="a pod that requests less than nothing",
        ),
        pytest.param(
            "c.json",
            as_text(node("n1", memory="16 GB").node),
            "c.json, Node n1: memory: `16 GB` is not a quantity; "
            "write a number such as `250m`, `1.5` or `2Gi`",
            id="no quantity",
        ),
        pytest.param(
            "c.json",
            '{"apiVersion": "v1", "kind": "Pood", "metadata": {"name": "p"}}',
            "c.json is of the unknown kind `Pood` (did you mean `Pod`?); "
            f"leave it out, or make a dump with `{ASK_FOR}`",
            id="an unknown kind with a neighbour",
        ),
        pytest.param(
            "c.json",
            '{"apiVersion": "v1", "kind": "Widget", "metadata": {"name": "w"}}',
            "c.json is of the unknown kind `Widget` (known here: CSINode, Deployment, Job, "
            "Namespace, Node, NodeMetrics, PersistentVolume, PersistentVolumeClaim, Pod, "
            "PodDisruptionBudget, PodMetrics, PodMigrationJob, PriorityClass, QueryAnswer, "
            "ReplicaSet, ReplicationController, Scale, StatefulSet); "
            f"leave it out, or make a dump with `{ASK_FOR}`",
            id="an unknown kind like no other",
        ),
        pytest.param(
            "c.json",
            listing([pod("p"), pod("p")]),
            "Pod default/p is there twice, in c.json; keep only one",
            id="the same pod twice",
        ),
        pytest.param(
            "c.yaml", "", f"c.yaml is empty; make a dump with `{ASK_FOR}`", id="an empty file"
        ),
        pytest.param(
            "c.yaml",
            "# nothing yet\n",
            f"c.yaml is empty; make a dump with `{ASK_FOR}`",
            id="only a comment",
        ),
        pytest.param(
            "c.json.gz",
            "{}",
            f"c.json.gz cannot be read: Not a gzipped file (b'{{}}'); make a dump with `{ASK_FOR}`",
            id="gzip by name only",
        ),
        pytest.param(
            "c.json",
            listing([pod("p"), {**pod("q"), "spec": {"containers": 5}}]),
            "c.json: items[1] is not a Pod as Kubernetes writes it: Expected `array | null`, "
            "got `int` - at `$.spec.containers`; correct it or leave it out",
            id="a pod unlike any that Kubernetes writes",
        ),
        pytest.param(
            "c.yaml",
            LIFETIME,
            "c.yaml is a policy; name it with --policy, not --cluster",
            id="a policy in place of a dump",
        ),
        pytest.param(
            "c.json",
            listing([node("n1").node, {"kind": "DeschedulerPolicy"}]),
            "c.json: items[1] is a policy; name it with --policy, not --cluster",
            id="a policy among the objects",
        ),
    ],
)
def test_a_dump_that_cannot_be_read_is_an_error_that_says_what_and_where(
    name: str, content: str | bytes | None, says: str, tmp_path: Path
) -> None:
    write(
        tmp_path, {"p.yaml": LIFETIME} if content is None else {"p.yaml": LIFETIME, name: content}
    )

    done = resettle("plan", "--cluster", name, "--policy", "p.yaml", cwd=tmp_path)

    assert done == (1, "", f"error: {says}\n")


@pytest.mark.parametrize(
    ("name", "content"),
    [
        pytest.param("c.json.gz", bytes(DAMAGED), id="damaged gzip"),
        pytest.param("c.json", b'{"kind": "Pod", "metadata": {"name": "\xff"}}', id="not UTF-8"),
        pytest.param("c.yaml", b"kind: Pod\nmetadata: {name: \xff}\n", id="YAML that is not UTF-8"),
    ],
)
def test_bytes_gone_bad_are_an_error_that_names_the_file(
    name: str, content: bytes, tmp_path: Path
) -> None:
    write(tmp_path, {"p.yaml": LIFETIME, name: content})

    done = resettle("plan", "--cluster", name, "--policy", "p.yaml", cwd=tmp_path)

    assert (done.code, done.out) == (1, "")
    assert done.err.startswith(f"error: {name}")
    assert done.err.count("\n") == 1


def test_the_same_pod_in_two_files_names_both(tmp_path: Path) -> None:
    content = listing([pod("p")])
    write(tmp_path, {"dump/a.json": content, "dump/b.json": content, "p.yaml": LIFETIME})

    done = resettle("plan", "--cluster", "dump", "--policy", "p.yaml", cwd=tmp_path)

    where = "in dump/a.json and in dump/b.json"
    assert done == (1, "", f"error: Pod default/p is there twice, {where}; keep only one\n")


@pytest.mark.parametrize(
    ("words", "says"),
    [
        pytest.param(
            ("--cluster", "c.json", "--policy", "gone.yaml"),
            "there is no file `gone.yaml`; check the path",
            id="no such policy",
        ),
        pytest.param(
            ("--cluster", "empty", "--policy", "p.yaml"),
            f"the folder empty holds no .json or .yaml file; make a dump with `{ASK_FOR}`",
            id="a folder without dumps",
        ),
        pytest.param(
            ("--cluster", "-", "--policy", "p.yaml"),
            f"standard input is empty; make a dump with `{ASK_FOR}`",
            id="nothing on standard input",
        ),
        pytest.param(
            ("--cluster", "-", "--policy", "-"),
            "stdin cannot be both policy and cluster; write one of them to a file",
            id="standard input twice",
        ),
        pytest.param(
            ("--cluster", "c.json", "--policy", "p.yaml", "--now", "tomorrow"),
            "--now: `tomorrow` is not a time; write one such as `2026-01-31T12:00:00Z`",
            id="no time",
        ),
        pytest.param(
            ("--cluster", "c.json", "--policy", "p.yaml", "--now", ""),
            "--now is empty; write a time such as 2026-01-31T12:00:00Z",
            id="an empty time",
        ),
        pytest.param(
            ("--cluster", "c.json", "--policy", "classed.yaml"),
            "the cluster lacks what the policy names\n"
            "profile main: DefaultEvictor: there is no priority class `gold`; name one that "
            "exists; a dump needs them too (`kubectl get priorityclasses`)",
            id="a priority class that does not exist",
        ),
        pytest.param(
            ("--cluster", "c.json", "--policy", "typo.yaml"),
            "typo.yaml has 1 problem\n"
            "typo.yaml:10:19: profiles[0].plugins.deschedule.enabled[0]\n"
            "    no plugin is named `PodLifetime`; did you mean `PodLifeTime`?",
            id="a policy with a mistake",
        ),
    ],
)
def test_a_request_that_cannot_be_met_is_an_error_that_says_why(
    words: tuple[str, ...], says: str, tmp_path: Path
) -> None:
    (tmp_path / "empty").mkdir()
    cluster = listing([node("n1").node, node("n2").node, pod("p"), BUDGET])
    typo = LIFETIME.replace("enabled: [PodLifeTime]", "enabled: [PodLifetime]")
    files: dict[str, str | bytes]
    files = {"c.json": cluster, "p.yaml": LIFETIME, "classed.yaml": CLASSED, "typo.yaml": typo}
    write(tmp_path, files)

    done = resettle("plan", *words, cwd=tmp_path)

    assert (done.code, done.out) == (1, "")
    assert done.err == f"error: {says}\n"


@pytest.mark.parametrize(
    ("words", "says"),
    [
        pytest.param((), "resettle: error: the following arguments are required: COMMAND", id="-"),
        pytest.param(
            ("plam",),
            "resettle: error: there is no command `plam`; did you mean `plan`?",
            id="no such command",
        ),
        pytest.param(
            ("plan",),
            "resettle plan: error: the following arguments are required: ",
            id="no policy",
        ),
        pytest.param(
            ("plan", "--cluster", "c.json", "--policy", "p.yaml", "-o", "xml"),
            "resettle plan: error: argument -o/--output: invalid choice: 'xml' (choose from",
            id="no such output",
        ),
        pytest.param(
            ("plan", "--cluster", "c.json", "--policy", "p.yaml", "--hurry"),
            "resettle plan: error: there is no flag --hurry; --help lists all flags",
            id="no such flag",
        ),
    ],
)
def test_a_usage_error_exits_with_two_and_shows_the_usage(
    words: tuple[str, ...], says: str, tmp_path: Path
) -> None:
    done = resettle(*words, cwd=tmp_path)

    assert (done.code, done.out) == (2, "")
    assert done.err.startswith("usage: resettle")
    assert done.err.splitlines()[-1].startswith(says)
