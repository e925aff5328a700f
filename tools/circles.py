#!/usr/bin/env python3
"""Finds files of a crate, or of a Python package, that import each other in a circle.

    python tools/circles.py crates/units crates/flow python/lightloom

Counted as an import in Rust: each path of a `use`, and each path in code that begins with `crate`,
`super`, `self`, a module, or a name that a `use` gave to a module. A path leads to the file of the
deepest module that it names: `super::Item` leads to the parent's file even if the parent only
re-exports `Item`, and `crate::routing::Table` leads to `routing.rs`. Tests count like other code.
Not counted: `mod x;`, comments, strings, and the path of a visibility (`pub(in crate::x)`).
Not seen: what `include!` includes, and what a type or a trait brings without a path.

Counted in Python: each import that runs when a module is loaded, not those inside of functions or
under `TYPE_CHECKING`. `from package import name` leads to the module `name` if there is one.

The exit code is 0 without a circle, 1 with one, and 2 for a folder that is neither.
"""

import ast
import re
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

TOKEN = re.compile(
    r"""
      (?P<skip> //[^\n]* | \s+ )
    | (?P<comment> /\* )
    | (?P<text> [bc]?r(?P<hashes>\#*)".*?"(?P=hashes) | [bc]?"(?:\\.|[^"\\])*"
              | b?'(?:\\.[^'\n]*|[^\\'\n])' )
    | (?P<name> (?:r\#|\$|')?[^\W\d]\w* )
    | (?P<sign> :: | . )
    """,
    re.VERBOSE | re.DOTALL,
)
COMMENT = re.compile(r"/\*|\*/")
Module = tuple[str, ...]


@dataclass(frozen=True)
class Token:
    """A word or a sign of Rust, and its line."""

    text: str
    line: int


@dataclass(frozen=True)
class Import:
    """A path that a file imports, as it is written."""

    source: Path
    line: int
    text: str
    target: Path


@dataclass(frozen=True)
class Mention:
    """A path, the module that it stands in, and the name that a `use` gives it."""

    module: Module
    segments: Module
    line: int
    used_as: str | None


def tokens(source: str) -> list[Token]:
    """Split Rust into words, signs and texts, without comments and white space."""
    found = []
    at, line = 0, 1
    while at < len(source):
        match = TOKEN.match(source, at)
        assert match is not None, "the last sign of the pattern matches anything"
        end = match.end()
        if match["comment"]:
            end = end_of_comment(source, at)
        elif not match["skip"]:
            found.append(Token(match[0].removeprefix("r#"), line))
        line += source.count("\n", at, end)
        at = end
    return found


def end_of_comment(source: str, at: int) -> int:
    """Find where the block comment that begins `at` ends; such comments nest."""
    depth = 0
    for sign in COMMENT.finditer(source, at):
        depth += 1 if sign[0] == "/*" else -1
        if depth == 0:
            return sign.end()
    return len(source)


class Crate:
    """A crate of one target: its modules, and the paths that its files mention."""

    def __init__(self, root: Path) -> None:
        self.files: dict[Module, Path] = {}
        # What a path may begin with in a module: its children, and modules that a `use` named.
        self.names: dict[Module, dict[str, Module]] = {}
        self.mentions: list[Mention] = []
        self.read(root, (), root.parent)
        if root.name == "lib.rs":
            self.read_others(root.parent)

    def read_others(self, folder: Path) -> None:
        """Read files that no `mod` names, because a macro declares them, by their place."""
        known = set(self.files.values())
        for file in sorted(folder.rglob("*.rs"), key=lambda file: len(file.parts)):
            parts = file.relative_to(folder).with_suffix("").parts
            module = parts[:-1] if parts[-1] == "mod" else parts
            if file not in known and module and module[:-1] in self.files and parts[0] != "main":
                self.names[module[:-1]][module[-1]] = module
                self.read(file, module, folder.joinpath(*module))
                known = set(self.files.values())

    def read(self, file: Path, module: Module, folder: Path) -> None:
        """Read a file and those of its child modules, which lie in `folder`."""
        self.files[module] = file
        Reader(self, file, module, folder).read()

    def file(self, module: Module) -> Path:
        """Find the file that holds a module."""
        while module not in self.files:
            module = module[:-1]
        return self.files[module]

    def resolve(self, module: Module, segments: Module) -> tuple[Module | None, bool]:
        """Find the deepest module of a path, None outside the crate; say if the path ends there."""
        first, *rest = segments
        if first in ("crate", "$crate"):
            at: Module = ()
        elif first == "self":
            at = module
        elif first == "super":
            at = module[:-1]
        else:
            start = self.named(module, first)
            if start is None:
                return None, False
            at = start
        for name in rest:
            if name == "super":
                at = at[:-1]
            elif (*at, name) in self.names:
                at = (*at, name)
            elif name != "self":
                return at, False
        return at, True

    def named(self, module: Module, name: str) -> Module | None:
        """Find the module that a name means here, or in the modules around in the same file."""
        while True:
            if name in self.names[module]:
                return self.names[module][name]
            if module in self.files:
                return None
            module = module[:-1]

    def imports(self) -> list[Import]:
        """List what the files import from each other."""
        self.name_modules()
        found: dict[Import, None] = {}
        for mention in self.mentions:
            target, _ = self.resolve(mention.module, mention.segments)
            source = self.file(mention.module)
            if target is not None and self.file(target) != source:
                text = "::".join(mention.segments)
                found[Import(source, mention.line, text, self.file(target))] = None
        return list(found)

    def name_modules(self) -> None:
        """Note the names that `use` gives to modules: also in paths that begin with such a name."""
        more = True
        while more:
            more = False
            for mention in self.mentions:
                names = self.names[mention.module]
                if mention.used_as is None or mention.used_as in names:
                    continue
                target, whole = self.resolve(mention.module, mention.segments)
                if target is not None and whole:
                    names[mention.used_as] = target
                    more = True


class Reader:
    """Reads one file: its modules and its paths."""

    def __init__(self, crate: Crate, file: Path, module: Module, folder: Path) -> None:
        self.crate, self.module, self.folder = crate, module, folder
        self.tokens = tokens(file.read_text(encoding="utf-8"))
        self.beside = file.parent
        self.braces: list[bool] = []
        crate.names.setdefault(module, {})

    def text(self, at: int) -> str:
        """Give the token at a place, or nothing past the end."""
        return self.tokens[at].text if 0 <= at < len(self.tokens) else ""

    def read(self) -> None:
        """Read the file from its first token to its last."""
        at = 0
        while at < len(self.tokens):
            text = self.text(at)
            if text == "mod" and self.text(at + 2) in ("{", ";"):
                at = self.read_module(at)
            elif text == "use" and self.text(at + 1) != "<":
                at = self.read_use(at + 1, ())
            elif self.text(at + 1) == "::" and self.text(at - 1) != "::":
                at = self.read_path(at)
            else:
                self.read_brace(text)
                at += 1

    def read_brace(self, text: str) -> None:
        """Count braces; the one that closes a module in the file leads back to its parent."""
        if text == "{":
            self.braces.append(False)
        elif text == "}" and self.braces and self.braces.pop():
            self.module, self.folder = self.module[:-1], self.folder.parent

    def read_module(self, at: int) -> int:
        """Read `mod name {` or `mod name;`."""
        name = self.text(at + 1)
        child = (*self.module, name)
        self.crate.names.setdefault(child, {})
        self.crate.names[self.module][name] = child
        if self.text(at + 2) == "{":
            self.braces.append(True)
            self.module, self.folder = child, self.folder / name
        else:
            self.read_child(child, self.path_attribute(at))
        return at + 3

    def read_child(self, child: Module, path: str | None) -> None:
        """Read the file of a child module, if there is one."""
        name = child[-1]
        if path is not None:
            file = self.beside / path
            self.crate.read(file, child, file.parent)
            return
        for file in (self.folder / f"{name}.rs", self.folder / name / "mod.rs"):
            if file.is_file():
                self.crate.read(file, child, self.folder / name)

    def path_attribute(self, at: int) -> str | None:
        """Find the text of `#[path = "..."]` before a `mod`."""
        while at > 0 and self.text(at - 1) in ("pub", "crate", "super", "(", ")"):
            at -= 1
        if self.text(at - 1) == "]" and self.text(at - 4) == "path":
            return self.text(at - 2).strip('"')
        return None

    def read_use(self, at: int, prefix: Module) -> int:
        """Read one tree of a `use`, up to the sign after it."""
        line = self.tokens[at].line
        segments = prefix
        if self.text(at) == "::":  # the path of another crate
            at += 1
            segments = ("::",)
        while True:
            text = self.text(at)
            if text == "{":
                at += 1
                while self.text(at) != "}":
                    at = self.read_use(at, segments)
                    at += self.text(at) == ","
                return at + 1
            if text != "*":
                segments = (*segments, text)
            at += 1
            if self.text(at) != "::":
                break
            at += 1
        used_as: str | None = None
        if text != "*":
            used_as = segments[-2] if text == "self" and len(segments) > 1 else segments[-1]
        if self.text(at) == "as":
            used_as = self.text(at + 1)
            at += 2
        self.crate.mentions.append(Mention(self.module, segments, line, used_as))
        return at

    def read_path(self, at: int) -> int:
        """Read a path in code, up to the token after it."""
        start = at
        segments = [self.text(at)]
        while self.text(at + 1) == "::" and re.match(r"\w", self.text(at + 2)):
            at += 2
            segments.append(self.text(at))
        visibility = self.text(start - 1) == "in" and self.text(start - 3) == "pub"
        if len(segments) > 1 and not visibility:
            line = self.tokens[start].line
            self.crate.mentions.append(Mention(self.module, tuple(segments), line, None))
        return at + 1


def python_imports(package: Path) -> list[Import]:
    """List what the modules of a Python package import from each other when they are loaded."""
    files: dict[Module, Path] = {}
    for file in package.rglob("*.py"):
        module = file.relative_to(package.parent).with_suffix("").parts
        files[module[:-1] if module[-1] == "__init__" else module] = file
    found = []
    for module, file in files.items():
        inside = module if file.name == "__init__.py" else module[:-1]
        for statement in loaded(ast.parse(file.read_text(encoding="utf-8")).body):
            for name in imported(statement, inside):
                target = name
                while target and target not in files:
                    target = target[:-1]
                if target and files[target] != file:
                    found.append(Import(file, statement.lineno, ".".join(name), files[target]))
    return found


def loaded(body: Iterable[ast.stmt]) -> Iterator[ast.Import | ast.ImportFrom]:
    """Find the imports that run when a module is loaded."""
    for statement in body:
        if isinstance(statement, ast.Import | ast.ImportFrom):
            yield statement
        elif isinstance(statement, ast.If) and "TYPE_CHECKING" in ast.unparse(statement.test):
            yield from loaded(statement.orelse)
        elif not isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef):
            for part in ast.iter_child_nodes(statement):
                inner = part.body if isinstance(part, ast.ExceptHandler) else [part]
                yield from loaded(item for item in inner if isinstance(item, ast.stmt))


def imported(statement: ast.Import | ast.ImportFrom, inside: Module) -> list[Module]:
    """List the names that an import in the package `inside` asks for, each as a whole path."""
    if isinstance(statement, ast.Import):
        return [tuple(alias.name.split(".")) for alias in statement.names]
    base = inside[: len(inside) - statement.level + 1] if statement.level else ()
    base += tuple(statement.module.split(".")) if statement.module else ()
    return [(*base, alias.name) for alias in statement.names]


def circles(imports: list[Import]) -> list[list[Import]]:
    """Group the imports within each set of files that all reach each other."""
    next_of: dict[Path, set[Path]] = {}
    for edge in imports:
        next_of.setdefault(edge.source, set()).add(edge.target)
    reached = {file: reach(file, next_of) for file in next_of}
    groups: dict[frozenset[Path], list[Import]] = {}
    for edge in imports:
        if edge.source in reached.get(edge.target, ()):
            group = frozenset(
                file for file in reached[edge.source] if edge.source in reached.get(file, ())
            )
            groups.setdefault(group, []).append(edge)
    return list(groups.values())


def reach(file: Path, next_of: dict[Path, set[Path]]) -> set[Path]:
    """Find the files that a file imports, and that these import, and so on."""
    found: set[Path] = set()
    waiting = [file]
    while waiting:
        for target in next_of.get(waiting.pop(), set()) - found:
            found.add(target)
            waiting.append(target)
    return found


def targets(crate: Path) -> list[Path]:
    """List the root files of a crate: library, binaries, tests, examples and benches."""
    patterns = ["src/lib.rs", "src/main.rs", "src/bin/*.rs", "src/bin/*/main.rs"]
    for folder in ("tests", "examples", "benches"):
        patterns += [f"{folder}/*.rs", f"{folder}/*/main.rs"]
    return [file for pattern in patterns for file in sorted(crate.glob(pattern))]


def describe(folder: Path, circle: list[Import]) -> str:
    """Describe a circle for people: its files, and the imports within it."""
    files = sorted({edge.source for edge in circle})
    lines = [f"{folder}: {len(files)} files import each other in a circle"]
    for file in files:
        edges = sorted((edge for edge in circle if edge.source == file), key=lambda e: e.line)
        lines += [
            f"  {file.relative_to(folder)}:{edge.line}: {edge.text}"
            f"  -> {edge.target.relative_to(folder)}"
            for edge in edges
        ]
    return "\n".join(lines)


def main(arguments: list[str]) -> int:
    """Check the crates and packages in these folders."""
    if not arguments:
        print("usage: circles.py FOLDER...", file=sys.stderr)
        return 2
    found = False
    for folder in map(Path, arguments):
        if (folder / "__init__.py").is_file():
            units = [python_imports(folder)]
        elif (folder / "Cargo.toml").is_file() and (roots := targets(folder)):
            units = [Crate(root).imports() for root in roots]
        else:
            print(f"{folder}: neither a crate nor a Python package", file=sys.stderr)
            return 2
        for circle in (circle for imports in units for circle in circles(imports)):
            print(describe(folder, circle))
            found = True
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
