"""Custom kinds of the test API server: CustomResourceDefinitions register and withdraw them."""

from __future__ import annotations

from resettle.testing.api_server.objects.kinds import Resource, defined_by
from resettle.testing.api_server.status import invalid
from resettle.testing.api_server.storage.revisions import Storage, StoredObject
from resettle.testing.builders import Object


def check_definition(resource: Resource, obj: Object) -> None:
    """Refuses a definition from which no resource can be made."""
    if resource.kind != "CustomResourceDefinition":
        return
    try:
        list(defined_by(obj))
    except (KeyError, TypeError, AttributeError) as error:
        says = f"Invalid value: {error} is missing or of the wrong shape"
        raise invalid(resource, obj["metadata"].get("name", ""), [("spec", says)]) from None


def register_kinds(storage: Storage, resource: Resource, entry: StoredObject) -> None:
    """Serves what a definition defines; other objects define nothing."""
    if resource.kind != "CustomResourceDefinition":
        return
    spec = entry.object["spec"]
    storage.catalogue.drop(spec["group"], spec["names"]["plural"])
    storage.catalogue.add(defined_by(entry.object))


def withdraw_kinds(storage: Storage, resource: Resource, entry: StoredObject) -> None:
    """Ends what a definition defined, its objects too."""
    if resource.kind != "CustomResourceDefinition":
        return
    spec = entry.object["spec"]
    for kind in defined_by(entry.object):
        for each in storage.entries(kind):
            storage.remove(kind, each)
    storage.catalogue.drop(spec["group"], spec["names"]["plural"])


def definition(
    kind: str,
    *,
    group: str,
    version: str = "v1",
    plural: str = "",
    namespaced: bool = True,
    status: bool = True,
    scale: bool = False,
) -> Object:
    """A CustomResourceDefinition that takes objects of any shape."""
    plural = plural or f"{kind.lower()}s"
    anything = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    served: Object = {"name": version, "served": True, "storage": True}
    served["schema"] = {"openAPIV3Schema": anything}
    if status:
        served["subresources"] = {"status": {}}
    if scale:
        paths = {"specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.replicas"}
        served.setdefault("subresources", {})["scale"] = paths
    names = {"kind": kind, "listKind": f"{kind}List", "plural": plural, "singular": kind.lower()}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.{group}"},
        "spec": {
            "group": group,
            "names": names,
            "scope": "Namespaced" if namespaced else "Cluster",
            "versions": [served],
        },
    }
