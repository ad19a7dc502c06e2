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


class MetaSchema(Struct, rename="camel"):
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


class ConditionSchema(Struct):
    """A row of a status."""

    type: str
    status: str


class StatusSchema(Struct, rename="camel"):
    """What is looked at in a status."""

    phase: str | None = None
    conditions: list[ConditionSchema] | None = None
    disruptions_allowed: int | None = None
    current_healthy: int | None = None
    desired_healthy: int | None = None
    observed_generation: int | None = None
    disrupted_pods: Texts = None
    replicas: int | None = None


class ResourcesSchema(Struct):
    """What a container asks for."""

    limits: dict[str, Any] | None = None
    requests: dict[str, Any] | None = None


class ContainerSchema(Struct):
    """What is looked at in a container."""

    image: str = ""
    resources: ResourcesSchema | None = None


class PodSpecSchema(Struct, rename="camel"):
    """What is looked at in a pod."""

    containers: list[ContainerSchema] | None = None
    init_containers: list[ContainerSchema] | None = None
    tolerations: Objects = None
    node_name: str | None = None
    priority: int | None = None
    priority_class_name: str | None = None
    termination_grace_period_seconds: int | None = None


class TemplateSchema(Struct):
    """Pods to be."""

    spec: PodSpecSchema | None = None


class SpecSchema(Struct):
    """What is looked at in anything else."""

    replicas: int | None = None
    template: TemplateSchema | None = None
    selector: dict[str, Any] | None = None


class AnySchema(Struct):
    """Anything at all."""

    metadata: MetaSchema


class BuiltInSchema(AnySchema):
    """What is built in."""

    spec: SpecSchema | None = None
    status: StatusSchema | None = None


class PodSchema(AnySchema):
    """A pod."""

    spec: PodSpecSchema | None = None
    status: StatusSchema | None = None


class BindingTargetSchema(Struct):
    """The node that a binding names."""

    kind: str | None = None
    name: str | None = None


class BindingSchema(Struct):
    """A pod and its node."""

    target: BindingTargetSchema | None = None


class EvictionSchema(AnySchema):
    """A pod that is to go."""


class ScaleSpecSchema(Struct):
    """How many are wanted."""

    replicas: int = 0


class ScaleSchema(Struct):
    """The scale of a workload."""

    metadata: MetaSchema | None = None
    spec: ScaleSpecSchema | None = None


class ReviewSpecSchema(Struct, rename="camel"):
    """What is asked about, and the token of the client."""

    resource_attributes: dict[str, Any] | None = None
    non_resource_attributes: dict[str, Any] | None = None
    token: str | None = None


class ReviewSchema(Struct):
    """A question about rights."""

    spec: ReviewSpecSchema | None = None


def check_shape(resource: Resource, obj: Object) -> None:
    """Refuses an object that has not the shape of its kind."""
    shape = AnySchema if resource.custom else PodSchema if resource.kind == "Pod" else BuiltInSchema
    check_schema(obj, shape, resource.kind)


def check_schema(obj: object, shape: type[Struct], kind: str = "") -> None:
    """Refuses what has not this shape."""
    try:
        msgspec.convert(obj, shape)
    except msgspec.ValidationError as error:
        raise bad_request(
            f"this is no {kind or shape.__name__.removesuffix('Schema')}: {error}"
        ) from None
