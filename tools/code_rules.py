"""Checks the rules of CONTRIBUTING that a program can check, and prints figures about the tree.

    python -m tools.code_rules              # broken rules with their places; exit 1 if any
    python -m tools.code_rules --figures    # modules, lines, repeated names, words to avoid

`EXCEPTIONS` is the one list of exceptions; each has its reason.
"""

from __future__ import annotations

import argparse
import ast
import re
import sys
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from statistics import median

SHORTEST, LONGEST = 60, 400
"""Lines of a module."""
MOST_MODULES = 15
"""Modules of one package, its sub-packages apart."""
SMALL = 100
"""A module under so many lines that one sibling alone imports belongs into that sibling."""

EXCEPTIONS: Mapping[str, str] = {
    "src/resettle/text.py length": "two functions that simulate, web and cli share",
}
"""File and rule of each exception, with the reason."""

SHARED_CLASS_NAMES = {"Args"}
"""Every plugin calls its arguments so."""

AVOIDED = (
    "told|tells|heard|wish|wished|wishes|heed|heeds|mend|mended|mends|suffer|suffers|foretell"
    "|foretold|reckon|reckons|reckoned|be it|whoever|whom|nobody|somebody|gone by|goes by|of then"
    "|anew|befall|befalls|in the mind|to be had|vouch|vouches|by lot|house|peer"
)
"""Words that a reader who learned English late stumbles over; quotations may have them."""
_AVOIDED = re.compile(rf"\b({AVOIDED})\b", re.IGNORECASE)
_IDENTIFIER_WORD = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])")

VAGUE_NAMES = {"it", "one", "told", "said", "found"}
PARTICIPLES = re.compile(
    r"^(?!(?:speed|feed|need|seed|embed|shed|exceed)$)"
    r"([a-z]+ed|told|written|found|said|kept|held|given|taken|made|drawn|known|seen|met|left|spent"
    r"|gone|sent|read_in|chosen|begun|bound|hidden|shown|spoken|built|brought|caught|cast|spelt)$"
)


@dataclass(frozen=True)
class Broken:
    """A rule that a place breaks."""

    place: str
    rule: str
    """A short name, for the exceptions, such as `length` or `class-name`."""
    says: str


class Module:
    """One Python file of the package."""

    def __init__(self, path: Path, root: Path) -> None:
        self.path = path
        self.place = path.relative_to(root.parent.parent).as_posix()
        parts = path.relative_to(root.parent).with_suffix("").parts
        self.is_package = parts[-1] == "__init__"
        self.name = ".".join(parts[:-1] if self.is_package else parts)
        self.text = path.read_text()
        self.lines = self.text.count("\n")
        self.tree = ast.parse(self.text)

    @property
    def package(self) -> str:
        """The package the module is in; a package is in itself."""
        return self.name if self.is_package else self.name.rpartition(".")[0]

    def imports(self, names: set[str]) -> Iterator[tuple[str, int]]:
        """Modules of ours that this one imports, with the line."""
        for node in ast.walk(self.tree):
            if isinstance(node, ast.ImportFrom) and node.module:
                for alias in node.names:
                    whole = f"{node.module}.{alias.name}"
                    yield (whole if whole in names else node.module), node.lineno
            elif isinstance(node, ast.Import):
                yield from ((alias.name, node.lineno) for alias in node.names)


class Tree:
    """All modules below `src/resettle`, and the pages below `docs`."""

    def __init__(self, top: Path) -> None:
        self.top = top
        root = top / "src" / "resettle"
        self.modules = [Module(path, root) for path in sorted(root.rglob("*.py"))]

    @cached_property
    def plain(self) -> list[Module]:
        """Modules that are not the front of a package, nor `__main__`."""
        return [
            module
            for module in self.modules
            if not module.is_package and not module.name.endswith("__main__")
        ]

    @cached_property
    def names(self) -> set[str]:
        """Names of all modules and packages."""
        return {module.name for module in self.modules}

    @cached_property
    def importers(self) -> Mapping[str, set[str]]:
        """Which modules import a module."""
        importers: dict[str, set[str]] = defaultdict(set)
        for module in self.modules:
            for target, _ in module.imports(self.names):
                importers[target].add(module.name)
        return importers

    @cached_property
    def classes(self) -> Mapping[str, list[str]]:
        """Places of each public class name."""
        places: dict[str, list[str]] = defaultdict(list)
        for module in self.modules:
            for node in module.tree.body:
                if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                    places[node.name].append(f"{module.place}:{node.lineno}")
        return places

    def with_one_importer(self) -> list[Module]:
        """Small modules that one sibling alone imports."""
        return [
            module
            for module in self.plain
            if module.lines < SMALL
            and len(self.importers[module.name]) == 1
            and next(iter(self.importers[module.name])).rpartition(".")[0] == module.package
        ]


def lengths(tree: Tree) -> Iterator[Broken]:
    """Modules that are too short or too long, and packages with too many modules."""
    for module in tree.plain:
        if not SHORTEST <= module.lines <= LONGEST:
            says = f"has {module.lines} lines; {SHORTEST} to {LONGEST} are allowed"
            yield Broken(module.place, "length", says)
    for package, count in sorted(Counter(module.package for module in tree.plain).items()):
        if count > MOST_MODULES:
            place = f"src/{package.replace('.', '/')}"
            yield Broken(place, "modules", f"has {count} modules; at most {MOST_MODULES}")


def small_modules(tree: Tree) -> Iterator[Broken]:
    """Small modules with one importer, a sibling."""
    for module in tree.with_one_importer():
        (importer,) = tree.importers[module.name]
        yield Broken(module.place, "small", f"only {importer} imports it: make it part of that")


def class_names(tree: Tree) -> Iterator[Broken]:
    """Class names with more than one meaning."""
    for name, places in sorted(tree.classes.items()):
        if len(places) > 1 and name not in SHARED_CLASS_NAMES:
            yield Broken(places[0], "class-name", f"`{name}` is also in {', '.join(places[1:])}")


def names(tree: Tree) -> Iterator[Broken]:
    """Functions that are named by a bare participle, and variables with no meaning of their own."""
    for module in tree.modules:
        for node in ast.walk(module.tree):
            match node:
                case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
                    if PARTICIPLES.match(name.lstrip("_")) and not _is_property(node):
                        says = f"`{name}` is a bare participle: begin with a verb or use a noun"
                        yield Broken(f"{module.place}:{node.lineno}", "participle", says)
                case ast.Name(id=name, ctx=ast.Store()) | ast.arg(arg=name):
                    if name in VAGUE_NAMES:
                        says = f"`{name}` names nothing: use a noun of the field"
                        yield Broken(f"{module.place}:{node.lineno}", "variable", says)


def _is_property(node: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    return any("property" in ast.unparse(decorator) for decorator in node.decorator_list)


def words(tree: Tree) -> Iterator[Broken]:
    """Words to avoid, in the sources and in the pages."""
    for module in tree.modules:
        for number, line in enumerate(module.text.splitlines(), 1):
            split = " ".join(_IDENTIFIER_WORD.findall(line))
            for match in {found.group().lower() for found in _AVOIDED.finditer(split)}:
                yield Broken(f"{module.place}:{number}", "word", f"`{match}` is a word to avoid")
    for page in sorted((tree.top / "docs").rglob("*.md")):
        place = page.relative_to(tree.top).as_posix()
        for number, line in enumerate(page.read_text().splitlines(), 1):
            for match in {hit.group().lower() for hit in _AVOIDED.finditer(line)}:
                yield Broken(f"{place}:{number}", "word", f"`{match}` is a word to avoid")


def introductions(tree: Tree) -> Iterator[Broken]:
    """Packages whose docstring does not say what they are for and where to start reading."""
    for module in tree.modules:
        if module.is_package:
            text = ast.get_docstring(module.tree) or ""
            if text.count("\n") < 2 or "Start with" not in " ".join(text.split()):
                says = "say what the package is for, and `Start with` the module to read first"
                yield Broken(module.place, "introduction", says)


def docstrings(tree: Tree) -> Iterator[Broken]:
    """Docstrings that do not stand alone."""
    for module in tree.modules:
        for node in ast.walk(module.tree):
            if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Module)):
                text = ast.get_docstring(node) or ""
                if text.startswith("The same"):
                    place = f"{module.place}:{getattr(node, 'lineno', 1)}"
                    yield Broken(place, "docstring", "begins with `The same`: say it in full")


def imports_from_outside(tree: Tree) -> Iterator[Broken]:
    """Imports from outside a package that its `__init__` does not document."""
    documented = {module.name: _documented(module) for module in tree.modules if module.is_package}
    for module in tree.modules:
        for target, line in module.imports(tree.names):
            if target not in tree.names or target in documented:
                continue
            package, _, leaf = target.rpartition(".")
            inside = module.package == package or module.package.startswith(f"{package}.")
            if package == "resettle" or inside or leaf in documented[package]:
                continue
            says = f"imports `{target}`, which the docstring of `{package}` does not list"
            yield Broken(f"{module.place}:{line}", "import", says)


def _documented(package: Module) -> set[str]:
    """Modules that the docstring of a package lists behind `Import from outside:`."""
    _, _, listed = (ast.get_docstring(package.tree) or "").partition("Import from outside:")
    return set(re.findall(r"`(\w+)`", listed))


CHECKS = (
    lengths,
    small_modules,
    class_names,
    names,
    words,
    docstrings,
    introductions,
    imports_from_outside,
)


def broken_rules(tree: Tree) -> list[Broken]:
    """Every broken rule that is no exception, and exceptions that are none any more."""
    broken = [broken for check in CHECKS for broken in check(tree)]
    keys = {f"{b.place.partition(':')[0]} {b.rule}" for b in broken}
    kept = [b for b in broken if f"{b.place.partition(':')[0]} {b.rule}" not in EXCEPTIONS]
    kept += [
        Broken(key, "exception", "is no exception any more")
        for key in EXCEPTIONS
        if key not in keys and (tree.top / key.partition(" ")[0]).exists()
    ]
    return kept


def figures(tree: Tree) -> Iterator[str]:
    """The figures of the tree, a line each."""
    sizes = [module.lines for module in tree.plain]
    yield f"modules: {len(sizes)}"
    yield f"median lines: {median(sizes):g}"
    yield f"modules under {SHORTEST} lines: {sum(size < SHORTEST for size in sizes)}"
    single = [m for m in tree.plain if len(tree.importers[m.name]) == 1]
    yield f"modules imported by one other module only: {len(single)}"
    yield f"small modules that one sibling alone imports: {len(tree.with_one_importer())}"
    repeated = [name for name, places in tree.classes.items() if len(places) > 1]
    yield f"class names with more than one meaning: {len(set(repeated) - SHARED_CLASS_NAMES)}"
    for check in (words, names):
        count = Counter(broken.rule for broken in check(tree))
        yield from (f"{rule}s to avoid: {number}" for rule, number in sorted(count.items()))
    packages = Counter(module.package for module in tree.plain)
    yield f"largest package: {max(packages.values())} modules"


def main() -> int:
    """Prints broken rules or figures; the exit code says whether a rule is broken."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--figures", action="store_true", help="print figures instead")
    parser.add_argument("--tree", type=Path, default=Path(), help="the checkout (.)")
    arguments = parser.parse_args()
    tree = Tree(arguments.tree.resolve())
    if arguments.figures:
        print(*figures(tree), sep="\n")
        return 0
    broken = broken_rules(tree)
    for rule in broken:
        print(f"{rule.place}: {rule.says} [{rule.rule}]")
    print(f"{len(broken)} broken rules" if broken else "all rules hold", file=sys.stderr)
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
