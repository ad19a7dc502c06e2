"""The pages about installing and security speak of what is shipped; `tests/e2e` follows the first.

Each right in the roles has its reason on the page, figures are those of the manifests, links lead
on.
"""

from __future__ import annotations

import re

import yaml

from tests.deploy.manifests import DEPLOY, KUSTOMIZE, WORKLOADS, documents, pod_of

from .page import doc

INSTALL, SECURITY = "operate/install.md", "operate/security.md"


def test_every_right_that_is_shipped_has_its_reason() -> None:
    shipped = yaml.safe_load((DEPLOY / "helm/resettle/files/rights.yaml").read_text())
    lease = documents(KUSTOMIZE / "deployment" / "rbac.yaml")[3]
    asked_for = {
        *(("create", "tokenreviews"), ("create", "subjectaccessreviews")),
        ("get", "secrets"),
    }
    granted = {
        (verb, resource)
        for rule in [*shipped["rbac"]["rules"], *lease["rules"]]
        for verb in rule["verbs"]
        for resource in rule["resources"]
    }

    explained = {
        (verb, resource.strip())
        for verbs, resources, why, without in doc(SECURITY).table("What it may do")
        for verb in re.findall(r"[a-z]+", verbs.replace("of one name", ""))
        for resource in resources.removesuffix(", in one namespace").split(",")
        if why and without
    }
    assert explained == granted | asked_for


def test_the_page_lists_every_form() -> None:
    forms = {file.parent.name for file in KUSTOMIZE.glob("*/rbac.yaml")}

    assert doc(INSTALL).first_column("With kustomize") == forms


def test_the_figures_are_those_of_the_manifests() -> None:
    spec = pod_of(WORKLOADS["deployment"])["spec"]
    (container,) = spec["containers"]
    asked, most = container["resources"]["requests"], container["resources"]["limits"]
    settings = [row[0] for row in doc(INSTALL).table("Settings of the manifests, and why")]

    assert (
        f"{asked['cpu']} of cpu and {asked['memory']} requested, {most['memory']} at most"
        in settings
    )
    assert f"priority class `{spec['priorityClassName']}`" in settings
    flags = " ".join(container["args"])
    assert "--leader-elect-retry-period=5s" in flags
    assert "--leader-elect-lease-duration=30s" in flags
    assert "one lease, renewed every 5 s, lost after 30 s" in settings
    assert f"user {spec['securityContext']['runAsUser']}" in doc(SECURITY).text
