"""The checks of this suite in words, as `docs/extend/testing.md` lists them.

python -m tests.conformance.checks
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

HERE = Path(__file__).parent
_NAMES = {
    r"\bjson\b": "JSON",
    r"\bok\b": "`ok`",
    r"\buid\b": "uid",
}


def listed() -> str:
    """A heading for each file and a line for each test, in the order of the files."""
    parts = [_part(file) for file in sorted(HERE.glob("test_*.py"))]
    return "\n\n".join(part for part in parts if part) + "\n"


def _part(file: Path) -> str:
    module = ast.parse(file.read_text(encoding="utf-8"))
    sentences = list(_sentences(module))
    heading = (ast.get_docstring(module) or "").rstrip(".")
    return (
        "\n".join([f"**{heading}**", "", *(f"- {sentence}" for sentence in sentences)])
        if sentences
        else ""
    )


def _sentences(module: ast.Module) -> Iterator[str]:
    for node in module.body:
        if isinstance(node, ast.FunctionDef) and node.name.startswith("test_"):
            text = node.name.removeprefix("test_").replace("_", " ")
            for pattern, better in _NAMES.items():
                text = re.sub(pattern, better, text)
            cases = sum(_cases(decorator) for decorator in node.decorator_list)
            yield f"{text} ({cases} cases)" if cases else text


def _cases(decorator: ast.expr) -> int:
    match decorator:
        case ast.Call(args=[_, ast.List(elts=rows)]):
            return len(rows)
    return 0


if __name__ == "__main__":
    print(listed(), end="")
