"""Shape of the source tree: size, imports, repeated lines and complexity, at one or several revisions.

    python tools/shape.py                       the working tree
    python tools/shape.py ca9fbc4 HEAD .        revisions side by side; `.` is the working tree
    python tools/shape.py --names --mutual      also classes that share a name, modules that import each other
    python tools/shape.py --single              also modules with one importer
    python tools/shape.py --shared --complex    also pairs of places with shared code, and complex functions

What is counted, below ``src/corewise``:

- lines, and those of ``Examples`` sections of docstrings, which are taken off in the row below;
- modules that exactly one other module imports (packages and ``_kernels`` are left out: they serve one
  package by design);
- pairs of modules that import each other, ``TYPE_CHECKING`` blocks and imports inside functions included;
- pairs of places that share six or more consecutive lines with anything on them, imports left out; and those
  in code alone, since docstrings of like functions describe like parameters, and examples begin alike;
- functions with a cyclomatic complexity above 10, as ruff's C901 counts it;
- names that two or more classes of different modules have.
"""

from __future__ import annotations

import argparse
import ast
import json
import re
import subprocess
import sys
import tarfile
import tempfile
from collections import defaultdict
from collections.abc import Iterator, Sequence
from io import BytesIO
from pathlib import Path

PACKAGE = "corewise"
SHARED_LINES = 6
MOST_COMPLEX = 10


class Tree:
    """Modules of a source tree by dotted name, parsed."""

    def __init__(self, source: Path) -> None:
        self.source = source
        self.texts: dict[str, str] = {}
        for path in sorted((source / PACKAGE).rglob("*.py")):
            parts = path.relative_to(source).with_suffix("").parts
            name = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
            self.texts[name] = path.read_text(encoding="utf-8")
        self.parsed = {name: ast.parse(text) for name, text in self.texts.items()}

    @property
    def lines(self) -> int:
        """Lines in all."""
        return sum(text.count("\n") for text in self.texts.values())

    @property
    def example_lines(self) -> int:
        """Lines of `Examples` sections of docstrings."""
        return sum(_example_lines(parsed) for parsed in self.parsed.values())

    def imports(self) -> dict[str, set[str]]:
        """Return which modules of the package each module imports."""
        found: dict[str, set[str]] = defaultdict(set)
        for name, parsed in self.parsed.items():
            for node in ast.walk(parsed):
                found[name].update(self._targets(node))
            found[name].discard(name)
        return found

    def _targets(self, node: ast.AST) -> Iterator[str]:
        if isinstance(node, ast.ImportFrom) and node.module is not None:
            for alias in node.names:
                inner = f"{node.module}.{alias.name}"
                if inner in self.texts:
                    yield inner
                elif node.module in self.texts:
                    yield node.module
        elif isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name in self.texts)

    def single_importers(self) -> list[tuple[str, str]]:
        """Return modules with exactly one importer, and that one."""
        importers: dict[str, set[str]] = defaultdict(set)
        for name, targets in self.imports().items():
            for target in targets:
                importers[target].add(name)
        packages = {name.rpartition(".")[0] for name in self.texts}
        return [
            (name, next(iter(by)))
            for name, by in sorted(importers.items())
            if len(by) == 1 and name not in packages and "_kernels" not in name
        ]

    def mutual_imports(self) -> list[tuple[str, str]]:
        """Return pairs of modules that import each other."""
        found = self.imports()
        return sorted(
            (one, other)
            for one, targets in found.items()
            for other in targets
            if one < other and one in found[other]
        )

    def shared_places(self, *, docstrings: bool) -> list[str]:
        """Return the pairs of places that share six or more consecutive lines."""
        windows: dict[tuple[str, ...], list[tuple[str, int, int]]] = defaultdict(list)
        for name, text in self.texts.items():
            left_out = set(_lines_left_out(self.parsed[name], docstrings=docstrings))
            lines = [
                (at, line.strip())
                for at, line in enumerate(text.splitlines(), start=1)
                if line.strip() and at not in left_out
            ]
            for k in range(len(lines) - SHARED_LINES + 1):
                shared = tuple(line for _, line in lines[k : k + SHARED_LINES])
                windows[shared].append((name, k, lines[k][0]))
        pairs: dict[tuple[str, str, int], str] = {}
        for places in windows.values():
            for k, one in enumerate(places):
                for other in places[k + 1 :]:
                    pair = f"{one[0]}:{one[2]} ~ {other[0]}:{other[2]}"
                    pairs.setdefault((one[0], other[0], one[1] - other[1]), pair)
        return sorted(pairs.values())

    def shared_names(self) -> dict[str, list[str]]:
        """Return the names that classes of several modules have, and these modules."""
        found: dict[str, list[str]] = defaultdict(list)
        for name, parsed in self.parsed.items():
            for node in parsed.body:
                if isinstance(node, ast.ClassDef):
                    found[node.name].append(name)
        return {name: where for name, where in sorted(found.items()) if len(where) > 1}

    def complex_functions(self) -> list[str]:
        """Return the functions that are above 10 in cyclomatic complexity."""
        command = [sys.executable, "-m", "ruff", "check", "--isolated", "--select", "C901", "--exit-zero"]
        options = ["--config", f"lint.mccabe.max-complexity={MOST_COMPLEX}", "--output-format", "json"]
        done = subprocess.run(
            [*command, *options, str(self.source)], capture_output=True, check=True, text=True
        )
        found = json.loads(done.stdout)
        return [f"{Path(one['filename']).relative_to(self.source)}: {one['message']}" for one in found]


def _lines_left_out(parsed: ast.Module, *, docstrings: bool) -> Iterator[int]:
    """Yield the numbers of the lines of imports, and of docstrings unless these are wanted."""
    documented = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    for node in ast.walk(parsed):
        found: ast.stmt | None = None
        if isinstance(node, ast.Import | ast.ImportFrom):
            found = node
        elif not docstrings and isinstance(node, documented) and ast.get_docstring(node) is not None:
            found = node.body[0]
        if found is not None:
            yield from range(found.lineno, (found.end_lineno or found.lineno) + 1)


def _example_lines(parsed: ast.Module) -> int:
    count = 0
    for node in ast.walk(parsed):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            text = ast.get_docstring(node) or ""
            section = re.search(r"^Examples\n-+\n(.*?)(?=^\w[\w ]*\n-+\n|\Z)", text, re.MULTILINE | re.DOTALL)
            count += 0 if section is None else section.group(0).count("\n") + 1
    return count


def _unpacked(revision: str, folder: Path) -> Path:
    """Return the `src` folder of a revision, unpacked; of the working tree for `.`."""
    here = Path(__file__).resolve().parents[1]
    if revision == ".":
        return here / "src"
    packed = subprocess.run(
        ["git", "-C", str(here), "archive", revision, "src"], capture_output=True, check=True
    ).stdout
    with tarfile.open(fileobj=BytesIO(packed)) as archive:
        archive.extractall(folder / revision, filter="data")
    return folder / revision / "src"


def _rows(tree: Tree) -> dict[str, int]:
    examples = tree.example_lines
    return {
        "lines": tree.lines,
        "  without examples in docstrings": tree.lines - examples,
        "files": len(tree.texts),
        "modules with one importer": len(tree.single_importers()),
        "pairs of modules that import each other": len(tree.mutual_imports()),
        f"pairs of places with {SHARED_LINES} shared lines": len(tree.shared_places(docstrings=True)),
        "  in code, docstrings left out": len(tree.shared_places(docstrings=False)),
        f"functions above {MOST_COMPLEX} in complexity": len(tree.complex_functions()),
        "class names used twice or more": len(tree.shared_names()),
    }


def main(arguments: Sequence[str] | None = None) -> None:
    """Print the table, and what else was asked for, of the last tree."""
    parser = argparse.ArgumentParser(description="Shape of the source tree, at one or several revisions.")
    parser.add_argument("revisions", nargs="*", default=["."], help="git revisions; `.` is the working tree")
    parser.add_argument("--names", action="store_true", help="list classes that share a name")
    parser.add_argument("--mutual", action="store_true", help="list modules that import each other")
    parser.add_argument("--single", action="store_true", help="list modules with one importer")
    parser.add_argument("--shared", action="store_true", help="list pairs of places with shared code")
    parser.add_argument("--complex", action="store_true", help="list complex functions")
    asked = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as folder:
        trees = [Tree(_unpacked(revision, Path(folder))) for revision in asked.revisions]
        columns = [_rows(tree) for tree in trees]
        last = trees[-1]
        listed = [
            *(last.shared_places(docstrings=False) if asked.shared else ()),
            *(last.complex_functions() if asked.complex else ()),
        ]
    print(f"{'':44}" + "".join(f"{revision:>12}" for revision in asked.revisions))
    for label in columns[0]:
        print(f"{label:44}" + "".join(f"{column[label]:12}" for column in columns))
    print(*listed, sep="\n", end="\n" if listed else "")
    if asked.names:
        for name, where in last.shared_names().items():
            print(f"{name}: {', '.join(where)}")
    if asked.mutual:
        for one, other in last.mutual_imports():
            print(f"{one} <-> {other}")
    if asked.single:
        for module, importer in last.single_importers():
            print(f"{module} <- {importer}")


if __name__ == "__main__":
    main()
