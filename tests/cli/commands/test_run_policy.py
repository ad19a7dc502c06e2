"""`resettle run` and a policy with mistakes: reported before a cluster is read, or forgiven."""

from __future__ import annotations

from pathlib import Path

from resettle.testing import ApiServer, cluster, node, pod
from tests.cli.harness import LIFETIME, resettle, write

SLIP = "maxNoOfPodsToEvictPerNodes: 0\n"
SAID = "`maxNoOfPodsToEvictPerNodes` is not a key known here"


def test_a_bad_policy_is_reported_before_a_cluster_is_looked_for(tmp_path: Path) -> None:
    write(tmp_path, {"policy.yaml": LIFETIME + SLIP})

    done = resettle("run", "--policy=policy.yaml", "--kubeconfig=none.conf", cwd=tmp_path)

    assert (done.code, done.out) == (1, "")
    assert done.err == (
        "error: policy.yaml has 1 problem\n"
        "policy.yaml:11:1: maxNoOfPodsToEvictPerNodes\n"
        f"    {SAID}; did you mean `maxNoOfPodsToEvictPerNode`?\n"
    )


def test_a_mistake_that_upstream_hides_may_be_forgiven(tmp_path: Path) -> None:
    world = cluster(node("n1").holding(pod("old", age="2h")), node("n2"))
    write(tmp_path, {"policy.yaml": LIFETIME + SLIP})
    with ApiServer(world.objects) as server:
        server.kubeconfig(tmp_path / "config")
        words = ("--policy=policy.yaml", "--kubeconfig=config", "--policy-problems=warn")
        done = resettle("run", *words, cwd=tmp_path)

    assert done.code == 0, done.err
    (warned,) = [line for line in done.err.splitlines() if " WARNING " in line]
    assert SAID in warned
    assert " INFO evicted pod=default/old " in done.err


def test_a_plan_forgives_as_the_run_does(tmp_path: Path) -> None:
    write(tmp_path, {"policy.yaml": LIFETIME + SLIP, "cluster.json": '{"kind":"List","items":[]}'})
    words = ("plan", "--policy=policy.yaml", "--cluster=cluster.json")

    strict = resettle(*words, cwd=tmp_path)
    forgiven = resettle(*words, "--policy-problems=warn", cwd=tmp_path)

    assert (strict.code, forgiven.code) == (1, 0)
    assert SAID in strict.err
    assert f"    {SAID}" in forgiven.err


def test_a_run_takes_no_policy_from_stdin(tmp_path: Path) -> None:
    done = resettle("run", "--policy", "-", cwd=tmp_path, stdin=LIFETIME.encode())

    assert (done.code, done.err) == (
        1,
        "error: --policy: the policy is read before every cycle, so stdin cannot be used; "
        "name a file\n",
    )
