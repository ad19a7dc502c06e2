"""The shape an object must have for the server to work with it.

The real server knows every field of every kind. Here only those are checked that are looked at;
the rest is kept as it comes.
"""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec import Struct

from resettle.testing.api_server.objects.kinds import Resource
from resettle.testing.api_server.status import bad_request
from resettle.testing.builders import Object

Objects = list[dict[str, Any]] | None
Texts = dict[str, str] | None


class Meta(Struct, rename="camel"):
    """Metadata of any object."""

    name: str | None = None
    generate_name: str | None = None
    namespace: str | None = None
    uid: str | None = None
    resource_version: str | None = None
    generation: int | None = None
    labels: Texts = None
    annotations: Texts = None
    finalizers: list[str] | None = None
    owner_references: Objects = None


class Condition(Struct):
    """A row of a status."""

    type: str
    status: str


class Status(Struct, rename="camel"):
    """What is looked at in a status."""

    phase: str | None = None
    conditions: list[Condition] | None = None
    disruptions_allowed: int | None = None
    current_healthy: int | None = None
    desired_healthy: int | None = None
    observed_generation: int | None = None
    disrupted_pods: Texts = None
    replicas: int | None = None


class Resources(Struct):
    """What a container asks for."""

    limits: dict[str, Any] | None = None
    requests: dict[str, Any] | None = None


class Container(Struct):
    """What is looked at in a container."""

    image: str = ""
    resources: Resources | None = None


class PodSpec(Struct, rename="camel"):
    """What is looked at in a pod."""

    containers: list[Container] | None = None
    init_containers: list[Container] | None = None
    tolerations: Objects = None
    node_name: str | None = None
    priority: int | None = None
    priority_class_name: str | None = None
    termination_grace_period_seconds: int | None = None


class Template(Struct):
    """Pods to be."""

    spec: PodSpec | None = None


class Spec(Struct):
    """What is looked at in anything else."""

    replicas: int | None = None
    template: Template | None = None
    selector: dict[str, Any] | None = None


class Named(Struct):
    """Anything at all."""

    metadata: Meta


class BuiltIn(Named):
    """What is built in."""

    spec: Spec | None = None
    status: Status | None = None


class Pod(Named):
    """A pod."""

    spec: PodSpec | None = None
    status: Status | None = None


class Target(Struct):
    """The node that a binding names."""

    kind: str | None = None
    name: str | None = None


class Binding(Struct):
    """A pod and its node."""

    target: Target | None = None


class Eviction(Named):
    """A pod that is to go."""


class ScaleSpec(Struct):
    """How many are wanted."""

    replicas: int = 0


class Scale(Struct):
    """The scale of a workload."""

    metadata: Meta | None = None
    spec: ScaleSpec | None = None


class ReviewSpec(Struct, rename="camel"):
    """What is asked about, and by whom."""

    resource_attributes: dict[str, Any] | None = None
    non_resource_attributes: dict[str, Any] | None = None
    token: str | None = None


class Review(Struct):
    """A question about rights."""

    spec: ReviewSpec | None = None


def shaped(resource: Resource, obj: Object) -> None:
    """Refuses an object that has not the shape of its kind."""
    shape = Named if resource.custom else Pod if resource.kind == "Pod" else BuiltIn
    fits(obj, shape, resource.kind)


def fits(obj: object, shape: type[Struct], kind: str = "") -> None:
    """Refuses what has not this shape."""
    try:
        msgspec.convert(obj, shape)
    except msgspec.ValidationError as error:
        raise bad_request(f"this is no {kind or shape.__name__}: {error}") from None
