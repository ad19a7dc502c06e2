"""The log of a run, at each `--v`, as text and as JSON."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from resettle import __version__
from resettle.testing import ApiServer, cluster, node, pod
from tests.cli.harness import LIFETIME, Done, resettle, write

STAMP = re.compile(r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ ", re.M)
TOOK = re.compile(r"took=[\d.]+")
AGE = re.compile(r'"is [^"]* old, longer than')


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    write(tmp_path, {"policy.yaml": LIFETIME})
    return tmp_path


def run(folder: Path, *words: str) -> Done:
    """One cycle over two nodes and a pod that has to go."""
    world = cluster(node("n1").holding(pod("old", age="2h")), node("n2"))
    with ApiServer(world.objects) as server:
        server.kubeconfig(folder / "config")
        given = ("--policy=policy.yaml", "--kubeconfig=config", "--secure-port=0")
        done = resettle("run", *given, *words, cwd=folder)
        return done._replace(err=done.err.replace(server.url, "SERVER"))


def log_lines(done: Done) -> list[str]:
    """The lines without what differs from run to run."""
    text = AGE.sub('"is AGE old, longer than', TOOK.sub("took=T", STAMP.sub("", done.err)))
    return text.splitlines()


STARTING = (
    f"INFO starting version={__version__} server=SERVER policy=policy.yaml "
    "decides_as=descheduler/v1alpha2 profiles=main interval=once"
)
EVICTED = (
    "INFO evicted pod=default/old uid=uid-default-old node=n1 profile=main plugin=PodLifeTime "
    'reason="is AGE old, longer than 1h"'
)
DONE = "INFO cycle done nodes=2 pods=1 planned=1 evicted=1 refused=0 took=T"


def test_without_v_it_is_a_line_an_eviction_and_a_line_a_cycle(folder: Path) -> None:
    done = run(folder)

    assert (done.code, done.out) == (0, "")
    assert log_lines(done) == [STARTING, EVICTED, DONE]


@pytest.mark.parametrize("verbosity", ["1", "3"])
def test_with_v_there_is_more_in_between(folder: Path, verbosity: str) -> None:
    lines = log_lines(run(folder, f"--v={verbosity}"))

    assert [line for line in lines if line.startswith("INFO")] == [STARTING, EVICTED, DONE]
    assert "DEBUG listed kind=Node objects=2 took=T" in lines
    assert (
        "DEBUG plugin done profile=main plugin=PodLifeTime point=deschedule proposed=1 admitted=1"
        in lines
    )


def test_json_is_json_to_the_last_line(folder: Path) -> None:
    done = run(folder, "--logging-format=json", "--v=3")

    entries = [json.loads(line) for line in done.err.splitlines()]
    assert {"level", "msg", "ts"} <= set.intersection(*({*line} for line in entries))
    assert {"msg": "evicted", "pod": "default/old", "node": "n1"}.items() <= next(
        line for line in entries if line["msg"] == "evicted"
    ).items()


def test_json_logs_in_json_why_it_could_not_run(folder: Path) -> None:
    write(folder, {"policy.yaml": "kind: DeschedulerPolicy"})

    done = run(folder, "--logging-format=json")

    assert done.code == 1
    (line,) = map(json.loads, done.err.splitlines())
    assert (line["level"], line["msg"]) == ("error", "could not run")
    assert "`apiVersion` is missing" in line["reason"]
