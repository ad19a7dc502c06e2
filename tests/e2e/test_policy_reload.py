"""The policy changes under a run, as an editor, a mistake or a ConfigMap would have it."""

from __future__ import annotations

import json
from datetime import datetime
from itertools import pairwise
from pathlib import Path

from tests.e2e.cluster.old_pods import crowded, left_on_nodes, too_old
from tests.e2e.cluster.policies import UPSTREAM, policy
from tests.e2e.cluster.workspace import Room, eventually
from tests.e2e.processes.run import Account, Policy, Run, settled
from tests.e2e.servers.faulty_proxy import Between, Fault, to_evictions
from tools.control_plane.api import Api
from tools.control_plane.plane import Access

EVERY_SECOND = ("--descheduling-interval", "1s")
NOT_TAKEN = "policy not loaded; the last good one stays in force"
NEVER_SECONDS = 10**8


def idle(room: Room) -> Policy:
    """A policy that finds nobody too old."""
    return too_old(room, NEVER_SECONDS)


def with_more_kinds(document: Policy) -> Policy:
    """The same policy, for which namespaces have to be read as well."""
    everywhere = {"matchExpressions": [{"key": "nobody-has-this", "operator": "DoesNotExist"}]}
    wider: Policy = json.loads(json.dumps(document))
    for config in wider["profiles"][0]["pluginConfig"]:
        if config["name"] == "DefaultEvictor":
            config["args"]["namespaceLabelSelector"] = everywhere
    return wider


def test_a_good_policy_is_taken_while_running(account: Account, api: Api, room: Room) -> None:
    everybody = crowded(room, 6)

    with account.run(idle(room), *EVERY_SECOND) as run:
        run.awaits("cycle done", 2)
        assert left_on_nodes(room) == everybody
        replace(run.policy, json.dumps(too_old(room)))
        eventually("an empty room", lambda: not left_on_nodes(room))
        assert run.stop() == 0, run.story

    settled(api, account, run)
    assert run.evicted == everybody
    assert len(run.told("policy loaded")) == 1


def replace(file: Path, text: str) -> None:
    """Has the file say so from one moment to the next."""
    new = file.with_suffix(".new")
    new.write_text(text)
    new.rename(file)


def misspelt(file: Path) -> None:
    replace(file, file.read_text().replace("PodLifeTime", "PodLifetime"))


def garbled(file: Path) -> None:
    replace(file, "profiles: [")


def emptied(file: Path) -> None:
    replace(file, "")


def not_text(file: Path) -> None:
    file.write_bytes(b"\xff\xfe")


def deleted(file: Path) -> None:
    file.unlink()


def a_folder(file: Path) -> None:
    file.mkdir()


MISTAKES = {
    misspelt: "did you mean `PodLifeTime`?",
    garbled: "this is not YAML",
    emptied: "the document is empty",
    not_text: "is not UTF-8 text",
    deleted: "there is no file",
    a_folder: "is a directory",
}
"""Ways to spoil a policy, each after the one before, and what is said of it."""


def test_each_policy_that_cannot_be_used_is_told_of_once_and_the_last_good_one_stays(
    account: Account, api: Api, room: Room
) -> None:
    everybody = crowded(room, 3)

    with account.run(only_marked(room), *EVERY_SECOND) as run:
        run.awaits("cycle done")
        for told, spoil in enumerate(MISTAKES, start=1):
            spoil(run.policy)
            run.awaits(NOT_TAKEN, told)
        run.awaits_more("cycle done", 2)
        assert left_on_nodes(room) == everybody
        _mark(room)
        eventually("an empty room", lambda: not left_on_nodes(room))
        assert run.stop() == 0, run.story

    settled(api, account, run)
    assert run.evicted == everybody
    reasons = [it["reason"] for it in run.told(NOT_TAKEN)]
    assert [said in reason for said, reason in zip(MISTAKES.values(), reasons, strict=True)] == [
        True
    ] * len(MISTAKES), reasons


def only_marked(room: Room) -> Policy:
    """A policy that minds the age of marked pods only."""
    marked = {"maxPodLifeTimeSeconds": 1, "labelSelector": {"matchLabels": {"marked": "yes"}}}
    return policy(UPSTREAM, "PodLifeTime", marked, room)


def _mark(room: Room) -> None:
    for pod in room.running():
        path = f"{room.pods}/{pod['metadata']['name']}"
        room.api.patch(path, {"metadata": {"labels": {"marked": "yes"}}}).granted()


def test_a_config_map_that_is_swapped_is_taken(
    account: Account, api: Api, room: Room, tmp_path: Path
) -> None:
    everybody = crowded(room, 6)
    mounted = tmp_path / "mounted"
    _mount(mounted, "first", idle(room))

    with Run(account.kubeconfig, mounted / "policy.yaml", *EVERY_SECOND) as run:
        run.awaits("cycle done")
        _mount(mounted, "second", too_old(room))
        eventually("an empty room", lambda: not left_on_nodes(room))
        assert run.stop() == 0, run.story

    settled(api, account, run)
    assert run.evicted == everybody
    assert run.told(NOT_TAKEN) == []


def _mount(folder: Path, version: str, document: Policy) -> None:
    """Puts a file where a kubelet would: behind a link that is swapped in one step."""
    (folder / version).mkdir(parents=True)
    (folder / version / "policy.yaml").write_text(json.dumps(document))
    (folder / "new").symlink_to(version)
    (folder / "new").rename(folder / "..data")
    if not (folder / "policy.yaml").is_symlink():
        (folder / "policy.yaml").symlink_to("..data/policy.yaml")


def test_a_policy_that_reads_other_kinds_is_taken_and_given_up_again(
    account: Account, api: Api, room: Room
) -> None:
    everybody = crowded(room, 6)

    with account.run(idle(room), *EVERY_SECOND) as run:
        run.awaits("cycle done")
        replace(run.policy, json.dumps(with_more_kinds(too_old(room))))
        eventually("an empty room", lambda: not left_on_nodes(room))
        assert "namespaces" in _watched(account)
        replace(run.policy, json.dumps(idle(room)))
        run.awaits("policy loaded", 2)
        run.awaits_more("cycle done", 2)
        assert run.stop() == 0, run.story

    settled(api, account, run)
    assert run.evicted == everybody


def _watched(account: Account) -> set[str]:
    return {it["objectRef"]["resource"] for it in account.audited() if it["verb"] == "watch"}


def test_pods_in_doubt_are_not_forgotten_when_other_kinds_are_read(
    plane: Access, account: Account, api: Api, room: Room
) -> None:
    everybody = crowded(room, 4)

    with Between(plane, account) as way:
        way.fault = to_evictions(Fault.TORN)
        with account.run(too_old(room), *EVERY_SECOND) as run:
            run.awaits("answer lost", 4)
            replace(run.policy, json.dumps(with_more_kinds(too_old(room))))
            eventually("namespaces to be watched", lambda: "namespaces" in _watched(account))
            way.fault = lambda method, path: None
            run.awaits_more("cycle done", 2)
            assert run.stop() == 0, run.story

    settled(api, account, run)
    assert account.asked_to_evict() == []
    assert len(run.told("answer lost")) == 4
    assert left_on_nodes(room) == everybody == run.unknown


def test_kinds_that_cannot_be_listed_at_first_are_listed_later(
    plane: Access, account: Account, api: Api, room: Room
) -> None:
    everybody = crowded(room, 3)

    def no_namespaces(method: str, path: str) -> Fault | None:
        return Fault.TORN if path.startswith("/api/v1/namespaces?") else None

    with Between(plane, account) as way, account.run(idle(room), *EVERY_SECOND) as run:
        run.awaits("cycle done")
        way.fault = no_namespaces
        replace(run.policy, json.dumps(with_more_kinds(too_old(room))))
        run.awaits("cycle failed")
        assert left_on_nodes(room) == everybody
        way.fault = lambda method, path: None
        eventually("an empty room", lambda: not left_on_nodes(room))
        assert run.stop() == 0, run.story

    settled(api, account, run)
    assert run.evicted == everybody


def test_an_interval_is_counted_from_start_to_start(account: Account, api: Api, room: Room) -> None:
    crowded(room, 12)
    pace = ("--client-connection-qps", "8", "--client-connection-burst", "1")

    with account.run(too_old(room), "--descheduling-interval", "3s", *pace) as run:
        run.awaits("cycle done", 4)
        assert run.stop() == 0, run.story

    settled(api, account, run)
    ends = run.told("cycle done")
    starts = [_seconds(it) - it["took"] for it in ends]
    assert ends[0]["took"] > 1
    assert all(after - before > 2.9 for before, after in pairwise(starts))
    # A cycle that took its time does not push back those after it.
    assert starts[1] < _seconds(ends[0]) + 3 - 1


def _seconds(line: dict[str, str]) -> float:
    return datetime.fromisoformat(line["ts"]).timestamp()
