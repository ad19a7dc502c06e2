"""Worked examples: a small cluster, a policy, and what resettle really prints for them."""

from __future__ import annotations

import gc
import os
import textwrap
from contextlib import chdir, redirect_stderr, redirect_stdout
from io import StringIO
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import msgspec
import yaml

from resettle.cli.main import run
from resettle.dumps.anonymize import trimmed_struct
from resettle.model.kinds import KINDS
from resettle.testing import World, budget

NOW = "2026-01-31T12:00:00Z"
"""When every built world is looked at."""
WIDTH = "80"
LINE = 124
"""How wide pages are written."""

_TELLING = frozenset({"emptyDir", "hostPath", "ephemeral"})
"""Keys that say something by being there."""


class Example(NamedTuple):
    """What a page shows of a plugin at work."""

    says: str
    """What there is to see, before and in the words of a person."""
    world: World
    policy: str
    ask: str = ""
    """A further question, such as `explain pod shop/cart-1`."""


def worked(example: Example) -> str:
    """The example as a page has it: words, files, and commands with what they print."""
    policy = textwrap.dedent(example.policy).lstrip()
    files = {"cluster.yaml": cluster_file(example.world), "policy.yaml": policy}
    parts = [
        textwrap.fill(" ".join(example.says.split()), LINE, break_on_hyphens=False),
        _file("policy.yaml", files),
        "<details>\n<summary>cluster.yaml</summary>\n\n"
        + _file("cluster.yaml", files)
        + "\n\n</details>",
    ]
    for words in filter(None, ("plan", example.ask)):
        command = f"{words} --cluster cluster.yaml --policy policy.yaml --now {NOW}"
        parts.append(f"```console\n$ resettle {command}\n{printed(command, files)}```")
    return "\n\n".join(parts)


def _file(name: str, files: dict[str, str]) -> str:
    return f"```yaml title={name}\n{files[name]}```"


def printed(command: str, files: dict[str, str]) -> str:
    """What a command prints where there are these files."""
    out, columns = StringIO(), os.environ.get("COLUMNS")
    os.environ["COLUMNS"] = WIDTH
    try:
        with (
            TemporaryDirectory() as folder,
            chdir(folder),
            redirect_stdout(out),
            redirect_stderr(out),
        ):
            for name, text in files.items():
                Path(name).write_text(text, encoding="utf-8")
            code = run(command.split())
    finally:
        gc.unfreeze()
        gc.enable()
        if columns is None:
            del os.environ["COLUMNS"]
        else:
            os.environ["COLUMNS"] = columns
    assert code == 0, f"`{command}` ended with {code}"
    return out.getvalue()


def cluster_file(world: World) -> str:
    """The objects of a world, with no more of each than a plan reads."""
    spare = budget("shop", namespace="shop", allowed=9, labels={"app": "any"})
    items = [_short(item) for item in (*world.objects, spare)]
    document = {"apiVersion": "v1", "kind": "List", "items": items}
    return yaml.dump(document, Dumper=_Dumper, sort_keys=False, width=110, default_flow_style=None)


def _short(item: dict[str, Any]) -> dict[str, Any]:
    if item["kind"] not in KINDS:
        return item  # what was measured is short enough
    struct: Any = trimmed_struct(KINDS[item["kind"]].struct, spelled_out=True)
    read = msgspec.to_builtins(msgspec.convert(item, struct))
    return {"apiVersion": item["apiVersion"], "kind": item["kind"], **_without_nothing(read)}


def _without_nothing(part: Any) -> Any:
    """The part without what is empty in it, and without what is the same every time."""
    if isinstance(part, dict):
        short = {key: _without_nothing(value) for key, value in part.items()}
        if short.get("capacity") == short.get("allocatable"):
            short.pop("capacity", None)
        return {
            key: value
            for key, value in short.items()
            if key in _TELLING or value not in ({}, [], [{}], None)
        }
    if isinstance(part, list | tuple):
        return [_without_nothing(value) for value in part]
    return part


class _Dumper(yaml.SafeDumper):
    """Writes out what occurs twice, as people do."""

    def ignore_aliases(self, data: Any) -> bool:
        return True
