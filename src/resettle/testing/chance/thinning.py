"""A policy with parts left out, so that a counterexample names only what it takes to fail."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Any

_ALWAYS = ("apiVersion", "kind", "profiles")
_OPTIONAL_ARGS = ("namespaces", "labelSelector")
_EVICTOR = "DefaultEvictor"


def thinned(
    document: Mapping[str, Any], own: Collection[str], stays: Callable[[], bool]
) -> dict[str, Any]:
    """The policy without what does not stay; plugins of one's own always do.

    A limit, a strategy, a sorter, an argument of DefaultEvictor or a selector can be left out, and
    what is left has no problems either.
    """
    kept = {key: value for key, value in document.items() if key in _ALWAYS or stays()}
    return {**kept, "profiles": [_profile(it, own, stays) for it in document["profiles"]]}


def _profile(
    profile: Mapping[str, Any], own: Collection[str], stays: Callable[[], bool]
) -> dict[str, Any]:
    enabled = {
        point: [name for name in chosen["enabled"] if name in own or stays()]
        for point, chosen in profile["plugins"].items()
    }
    named = {_EVICTOR, *own}.union(*enabled.values())
    return {
        **profile,
        "pluginConfig": [
            {**it, "args": _args(it, own, stays)}
            for it in profile["pluginConfig"]
            if it["name"] in named
        ],
        "plugins": {point: {"enabled": names} for point, names in enabled.items()},
    }


def _args(
    config: Mapping[str, Any], own: Collection[str], stays: Callable[[], bool]
) -> dict[str, Any]:
    if config["name"] in own:
        return dict(config["args"])
    optional = config["args"] if config["name"] == _EVICTOR else _OPTIONAL_ARGS
    return {key: it for key, it in config["args"].items() if key not in optional or stays()}
