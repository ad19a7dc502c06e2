"""What `resettle migrate` says of files as people have them.

Kept in `expected/`; RESETTLE_KEEP=1 writes them again, to be read before they are committed.
"""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from resettle.cli.migrate.findings import HEADINGS
from resettle.cli.migrate.inventory import FindingKind
from resettle.framework import default_registry
from resettle.policy.load import load_policy
from resettle.policy.versions.upgrade import differences
from tests.cli.migrate.harness import Ask, ask
from tests.cli.migrate.samples import FILES, FOLDER, IMAGE, policy_in, verdict_on

__all__ = ["ask"]

EXPECTED = Path(__file__).parent / "expected"
READY = {
    "01-flux-release-with-metrics.yaml",
    "02-flux-release-old-strategies.yaml",
    "03-values-cronjob.yaml",
    "05-config-map-of-an-operator.json",
    "06-argo-application-bin-packing.yaml",
    "10-values-of-a-larger-chart.yaml",
}


@pytest.mark.parametrize("file", FILES)
def test_the_text_is_the_one_that_was_kept(file: str, ask: Ask) -> None:
    done = ask(file, "--image", IMAGE, within=FOLDER)
    before, heading, after = done.out.partition(f"\n{HEADINGS[FindingKind.BETTER]}\n")
    kept = EXPECTED / f"{Path(file).stem}.txt"
    if os.environ.get("RESETTLE_KEEP"):
        kept.write_text(before, encoding="utf-8")

    assert done.err == ""
    assert done.code == (0 if file in READY else 1)
    assert before == kept.read_text(encoding="utf-8")
    assert heading, "there is always something that resettle/v1 does better"
    assert after.splitlines()[-1].endswith("leads through it, and back")


@pytest.mark.parametrize("file", FILES)
def test_what_would_be_better_is_what_convert_reports(file: str) -> None:
    improved = policy_in(file).improved
    assert improved is not None

    better = [
        (finding.about, finding.says)
        for finding in verdict_on(file).of_kind(FindingKind.BETTER)
        if finding.about != "roles"
    ]

    assert better == [(difference.about, difference.says) for difference in differences(improved)]


@pytest.mark.parametrize("file", FILES)
@pytest.mark.parametrize("version", ["descheduler/v1alpha2", "resettle/v1"])
def test_the_policy_that_is_written_can_be_used_without_a_word(
    file: str, version: str, ask: Ask, tmp_path: Path
) -> None:
    target = tmp_path / "policy.yaml"
    done = ask(file, "--write", str(target), "--to", version, within=FOLDER)

    assert done.err == f"written: {target}\n"
    policy = load_policy(target.read_text(), name="policy", plugins=default_registry())
    assert policy.api_version == version
    assert policy.warnings == ()


@pytest.mark.parametrize("file", FILES)
def test_the_document_for_programs_says_the_same(file: str, ask: Ask) -> None:
    done = ask(file, "-o", "json", "--image", IMAGE, within=FOLDER)
    document, verdict = json.loads(done.out), verdict_on(file)

    assert document["ready"] is verdict.ready is (file in READY)
    assert [finding["says"] for finding in document["findings"]] == [
        finding.says for sort in FindingKind for finding in verdict.of_kind(sort)
    ]
    assert document["found"] == [{"file": file, "title": title} for file, title in verdict.inputs]
