"""YAML itself: syntax, documents, duplicate keys, aliases, and texts that never end."""

from __future__ import annotations

import pytest

from tests.policy.fakes import LifeArgs
from tests.policy.harness import HEAD, document, errors, load, one_profile, profile

EMPTY = "start with `apiVersion: descheduler/v1alpha2` and `kind: DeschedulerPolicy`"


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        pytest.param("", f"1:1: the document is empty; {EMPTY}", id="nothing"),
        pytest.param("# only this\n---\n", f"1:1: the document is empty; {EMPTY}", id="a comment"),
        pytest.param(
            "- a",
            "1:1: a policy is a mapping; start with `apiVersion: descheduler/v1alpha2`",
            id="a list",
        ),
        pytest.param(
            HEAD + "---\n" + HEAD,
            "4:1: a second document starts here, and a policy is one document; "
            "remove it and the `---` before it, or give it a file of its own",
            id="two documents",
        ),
        pytest.param(
            HEAD + "profiles:\n\t- name: a",
            "4:1: YAML does not indent with tabs; replace the tab by spaces",
            id="a tab",
        ),
        pytest.param(
            HEAD + "nodeSelector: a: b",
            "3:16: this is not YAML: mapping values are not allowed in this context; "
            "compare this line with the one before it",
            id="two colons",
        ),
        pytest.param(
            HEAD + "a: \x07",
            "3:4: there is a control character here; remove it",
            id="a control character",
        ),
        pytest.param(
            b"kind: \xff", "1:7: this is not UTF-8 text; save the file as UTF-8", id="not UTF-8"
        ),
        pytest.param(
            "a: \ud800",
            "1:1: the text has characters that cannot be written as UTF-8; remove them",
            id="half a character",
        ),
        pytest.param(
            "a: " + "[" * 101 + "]" * 101,
            "1:103: this is nested deeper than 100 levels; nest less deeply",
            id="too deep",
        ),
        pytest.param(
            "a: " + "[" * 300_000,
            "1:103: this is nested deeper than 100 levels; nest less deeply",
            id="far too deep",
        ),
        pytest.param(
            HEAD + "profiles: &a\n- pluginConfig: *a",
            "3:11: an alias in here refers to a mapping or list that contains it; "
            "write the inner part out",
            id="an alias inside itself",
        ),
        pytest.param(
            "a: &a [0,0,0,0,0,0,0,0,0,0]\n"
            + "\n".join(
                f"{n}: &{n} [{','.join('*' + p for _ in range(10))}]"
                for p, n in zip("abcdef", "bcdefg", strict=True)
            ),
            "6:4: its aliases make this larger than 1,000,000 values; use fewer aliases",
            id="aliases that multiply",
        ),
    ],
)
def test_a_text_that_is_no_document_is_one_problem(text: str | bytes, problem: str) -> None:
    assert errors(text) == [problem]


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("---\n" + HEAD + "---\n", id="a marker before and after"),
        pytest.param("\ufeff" + HEAD, id="a byte order mark"),
        pytest.param(HEAD.replace("\n", "\r\n"), id="windows line ends"),
        pytest.param(("\ufeff" + HEAD).encode(), id="bytes"),
    ],
)
def test_harmless_variations_are_read(text: str | bytes) -> None:
    assert load(text).api_version == "descheduler/v1alpha2"


def test_a_key_written_twice_is_reported_with_the_first_line() -> None:
    text = document("nodeSelector: a=b\nprofiles: []\nnodeSelector: c=d")

    assert errors(text) == [
        "5:1: nodeSelector `nodeSelector` is written twice, first on line 3; keep one of the two"
    ]


def test_an_alias_stands_for_what_it_names() -> None:
    text = document(
        """
        profiles:
        - pluginConfig: &configs
          - {name: PodLifeTime, args: {maxPodLifeTimeSeconds: 5}}
          plugins: &plugins {deschedule: {enabled: [PodLifeTime]}}
        - pluginConfig: *configs
          plugins: *plugins
        """
    )

    first, second = load(text).profiles
    assert first == second
    assert first.args["PodLifeTime"] == LifeArgs(max_pod_life_time_seconds=5)


def test_merged_keys_count_unless_written_again() -> None:
    text = one_profile(
        """
        plugins: {deschedule: {enabled: [PodLifeTime]}}
        pluginConfig:
        - name: RemoveFailedPods
          args: &common
            <<: {labelSelector: {}}
            namespaces: {include: [a]}
        - name: PodLifeTime
          args:
            <<: [*common, {states: [Failed], maxPodLifeTimeSeconds: 1}]
            maxPodLifeTimeSeconds: 5
        """
    )

    args = profile(text).args["PodLifeTime"]
    assert isinstance(args, LifeArgs)
    assert args.max_pod_life_time_seconds == 5
    assert args.states == ("Failed",)
    assert args.namespaces is not None
    assert args.namespaces.include == ("a",)
    assert args.label_selector is not None


def test_a_merge_of_something_else_is_a_problem() -> None:
    assert errors(document("<<: 5")) == [
        "3:1: << `<<` merges mappings only; give it an alias of a mapping, as in `<<: *common`"
    ]


def test_a_block_of_lines_is_pointed_at_by_its_key() -> None:
    text = one_profile(
        """
        pluginConfig:
        - name: RemoveFailedPods
          args:
            namespaces:
              include: [a]
              exclude: [b]
        plugins: {deschedule: {enabled: [RemoveFailedPods]}}
        """
    )

    assert errors(text) == [
        "8:7: profiles[0].pluginConfig[0].args.namespaces both `include` and `exclude` are set; "
        "keep one of the two lists"
    ]
