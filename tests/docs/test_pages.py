"""The pages keep their word: commands print what is shown, nothing is missing, links lead on."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from resettle.cli.main import build_parser
from resettle.cli.text.plan import plan_document
from resettle.framework.codes import NOT_PROPOSED, NOTED, REFUSED, RULED_OUT, STOPPED, Meaning
from resettle.model.kinds import KINDS
from resettle.testing import cluster, node, plan, pod
from tools.plugin_pages.page import IN_TREE

from .page import doc
from .reference import (
    ROOT,
    ground_codes,
    noted_codes,
    refusal_codes,
    stopped_codes,
    unwanted_codes,
)

# -- codes ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("used", "listed"),
    [
        pytest.param(refusal_codes(), REFUSED, id="refusals"),
        pytest.param(stopped_codes(), STOPPED, id="ways to stop"),
        pytest.param(unwanted_codes(), NOT_PROPOSED, id="reasons to pass a pod over"),
        pytest.param(ground_codes(), RULED_OUT, id="what rules a node out"),
        pytest.param(noted_codes(), NOTED, id="remarks on a node"),
    ],
)
def test_every_code_in_the_source_is_listed_and_every_listed_one_is_used(
    used: set[str], listed: dict[str, Meaning]
) -> None:
    assert used == set(listed)


@pytest.mark.parametrize(
    ("heading", "listed"),
    [
        pytest.param("Why a pod stays", REFUSED, id="refusals"),
        pytest.param("Why a plugin stops", STOPPED, id="ways to stop"),
        pytest.param("Why a pod is not proposed", NOT_PROPOSED, id="reasons to pass a pod over"),
        pytest.param("Why a node does not take a pod", RULED_OUT, id="what rules a node out"),
        pytest.param("What is remarked on a node", NOTED, id="remarks on a node"),
    ],
)
def test_the_page_of_codes_lists_each_with_what_helps(
    heading: str, listed: dict[str, Meaning]
) -> None:
    helps = {row[0].strip("`"): row[-1] for row in doc("reference/codes.md").table(heading)}

    assert helps == {code: meaning.helps for code, meaning in listed.items()}
    assert list(helps) == sorted(helps)


def test_every_refusal_leads_somewhere() -> None:
    assert doc("operate/troubleshooting.md").first_column("By code") == set(REFUSED)


# -- the plan as JSON, and the command line ------------------------------------------------------


def paths(value: Any, prefix: str = "") -> Iterator[str]:
    """Every key of a document, those of its parts too."""
    if isinstance(value, list):
        for item in value:
            yield from paths(item, f"{prefix}[]")
    elif isinstance(value, dict):
        for key, item in value.items():
            path = f"{prefix}.{key}".lstrip(".")
            yield path
            if key != "refused" or isinstance(item, list):  # else its keys are codes
                yield from paths(item, path)


@pytest.mark.parametrize(
    ("world", "args"),
    [
        pytest.param(
            cluster(node("n1").holding(pod("a"), pod("b", owner=None)), node("n2")),
            {"maxPodLifeTimeSeconds": 60},
            id="with moves and refusals",
        ),
        pytest.param(
            cluster(node("n1").holding(pod("a")), node("n2")),
            {"maxPodLifeTimeSeconds": 10**9},
            id="with a plugin that stopped",
        ),
        pytest.param(cluster(node("n1")), {"maxPodLifeTimeSeconds": 60}, id="skipped"),
    ],
)
def test_every_key_of_a_plan_is_explained(world: Any, args: dict[str, Any]) -> None:
    drawn = plan(IN_TREE["PodLifeTime"], world, **args).plan
    document = json.loads(json.dumps(plan_document(drawn)))
    explained = doc("start/plans.md").first_column("For programs")

    keys = {
        path for path in paths(document) if not any(p.startswith(path + ".") for p in explained)
    }
    assert keys <= explained


@pytest.mark.parametrize("subject", ["pod", "moving-pod", "node", "cycle"])
def test_every_key_of_an_answer_is_explained(subject: str) -> None:
    kept = ROOT / "tests" / "cli" / "transcripts" / f"explain-{subject}.json"
    explained = doc("start/explain.md").first_column(
        f"Keys about a {subject.removeprefix('moving-')}"
    )

    keys = {
        path
        for each in paths(json.loads(kept.read_text(encoding="utf-8")))
        for path in [re.sub(r"^resources\.[^.]+", "resources.*", each)]
        if not any(other.startswith((path + ".", path + "[")) for other in explained)
    }

    assert keys <= explained


@pytest.mark.parametrize(
    ("command", "page", "heading"),
    [
        pytest.param(["plan"], "start/plans.md", "What goes in", id="plan"),
        pytest.param(["simulate"], "start/simulate.md", "What goes in", id="simulate"),
        pytest.param(["snapshot"], "operate/snapshots.md", "What goes in", id="snapshot"),
        *(
            pytest.param(
                ["explain", what], "start/explain.md", "What goes in", id=f"explain {what}"
            )
            for what in ("pod", "node", "cycle")
        ),
    ],
)
def test_every_flag_of_a_command_is_explained(command: list[str], page: str, heading: str) -> None:
    parser = build_parser()
    for word in command:
        (commands,) = (action for action in parser._actions if isinstance(action.choices, dict))
        assert isinstance(commands.choices, dict)
        parser = commands.choices[word]
    flags = {action.option_strings[0] for action in parser._actions if action.option_strings} - {
        "-h"
    }

    assert flags == doc(page).first_column(heading)


# -- what the pages show -------------------------------------------------------------------------


def test_the_account_of_the_time_has_the_lines_that_the_page_shows(tmp_path: Path) -> None:
    ((command, account),) = re.findall(
        r"^```text\n\$ resettle (.+ --profile-cycle) > plan.txt\n(.*?)^```$",
        doc("start/plans.md").text,
        re.M | re.S,
    )

    done = subprocess.run(
        [sys.executable, "-m", "resettle", *command.split()],
        cwd=ROOT / "examples" / "lopsided",
        capture_output=True,
        encoding="utf-8",
        check=False,
    )

    def untimed(text: str) -> list[str]:
        return re.sub(r" *\d+(\.\d)?", "", text).splitlines()

    assert done.returncode == 0
    assert untimed(done.stderr) == untimed(account)


def test_the_role_on_the_page_may_list_what_resettle_lists_and_no_more() -> None:
    (role,) = (body for title, body in doc("start/plans.md").files.items() if "reader" in title)
    granted = {
        (group, resource, verb)
        for rule in yaml.safe_load(role)["rules"]
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
    }

    assert granted == {(kind.group, kind.plural, "list") for kind in KINDS.values()}
