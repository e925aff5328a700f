"""The script that finds files that import each other in a circle."""

import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[1] / "tools" / "circles.py"


def check(*folders):
    """The exit code and what is printed."""
    done = subprocess.run(
        [sys.executable, str(SCRIPT), *map(str, folders)], capture_output=True, text=True
    )
    return done.returncode, done.stdout, done.stderr


@pytest.fixture
def crate(tmp_path):
    """Write a crate from its files, and check it."""

    def write(**files):
        (tmp_path / "Cargo.toml").write_text("[package]\nname = 'planted'\n")
        for name, text in files.items():
            file = tmp_path / "src" / (name.replace("__", "/") + ".rs")
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text)
        return check(tmp_path)

    return write


def test_a_child_that_uses_its_parent_who_uses_it_is_a_circle(crate):
    code, out, _ = crate(
        lib="mod child;\npub use child::Kept;\npub struct Shared;\n",
        child="use super::Shared;\npub struct Kept(Shared);\n",
    )
    assert code == 1
    assert "2 files import each other in a circle" in out
    assert "src/lib.rs:2: child::Kept  -> src/child.rs" in out
    assert "src/child.rs:1: super::Shared  -> src/lib.rs" in out


def test_one_direction_is_no_circle(crate):
    code, out, _ = crate(
        lib="mod child;\nmod shared;\npub use child::Kept;\npub use shared::Shared;\n",
        child="use crate::shared::Shared;\npub struct Kept(Shared);\n",
        shared="pub struct Shared;\n",
    )
    assert (code, out) == (0, "")


def test_what_a_parent_exports_again_is_the_parents(crate):
    code, out, _ = crate(
        lib="mod a;\nmod b;\npub use a::A;\npub use b::B;\n",
        a="pub struct A;\n",
        b="use crate::A;\npub struct B(A);\n",
    )
    assert code == 1
    assert "src/a.rs" not in out.split("->")[0], "only lib.rs and b.rs are in the circle"


@pytest.mark.parametrize(
    "back",
    [
        "use crate::first::A;",
        "use super::first::A;",
        "use super::{third::C, first::{A as Other}};",
        "use super::{first::{self, A}, third};",
        "use crate::first::*;",
        "pub use super::first::A;",
        "fn f() { let a = crate::first::A::<u8>::new(); }",
        "fn f(a: &'a super::first::A) {}",
        "use super::first; fn f() { first::go('\"'); }",
        "use crate as root; fn f() { root::first::go(); }",
        "mod tests { use super::super::first::A; }",
        "mod tests { use super::*; mod inner { fn f() { super::super::super::first::go(); } } }",
        "#[cfg(test)] mod tests { use crate::first::A; }",
        "macro_rules! m { () => { $crate::first::A } }",
        "use self::super::first::A;",
    ],
)
def test_each_form_of_a_path_counts(crate, back):
    code, out, _ = crate(
        lib="mod first;\nmod second;\nmod third;\n",
        first="use super::second::B;\n",
        second=back + "\n",
        third="",
    )
    assert code == 1, out
    assert "src/second.rs:1:" in out


@pytest.mark.parametrize(
    "other",
    [
        "// use crate::first::A;",
        "/* use crate::first::A; /* nested */ use crate::first::A; */",
        'const A: &str = "crate::first::A \\" crate::first::A";',
        'const A: &str = r#"" crate::first::A"#;',
        "pub(in crate::first) struct B;",
        "mod first { pub struct A; } use first::A; fn f() { self::first::A::new(); }",
        "use ::first::A;",
        "use std::first::A;",
        "fn f() -> impl Sized + use<'static> { std::first::go() }",
    ],
)
def test_what_is_no_import_does_not_count(crate, other):
    code, out, _ = crate(
        lib="mod first;\nmod second;\n", first="use super::second::B;\n", second=other + "\n"
    )
    assert (code, out) == (0, "")


def test_a_name_of_a_module_leads_to_what_is_in_it(crate):
    """`first` imports a room by its name, and a file of that room by a path that begins with it."""
    code, out, _ = crate(
        lib="mod first;\nmod room;\n",
        first="use crate::room;\nfn f() { room::deep::go(); }\n",
        room__mod="pub mod deep;\n",
        room__deep="use crate::first::A;\n",
    )
    assert code == 1
    assert "src/first.rs:2: room::deep::go  -> src/room/deep.rs" in out
    assert "2 files" in out, "room/mod.rs imports nothing"


def test_modules_of_folders_and_inline_ones_are_found(crate):
    code, out, _ = crate(
        lib="mod room;\nmod inline { pub mod leaf; }\n",
        room="mod table;\nfn f() { table::go(); }\n",
        room__table="use crate::inline::leaf::L;\n",
        inline__leaf="use crate::room::R;\n",
    )
    assert code == 1
    assert "3 files" in out


def test_a_file_that_a_macro_declares_is_found_by_its_place(crate):
    code, out, _ = crate(
        lib="mod kinds;\n",
        kinds__mod="macro_rules! kinds { ($($name:ident),*) => { $(mod $name;)* } }\nkinds!(one);\n"
        "fn f() { one::go(); }\n",
        kinds__one="use super::Kind;\n",
    )
    assert code == 1
    assert "src/kinds/mod.rs:3: one::go  -> src/kinds/one.rs" in out


def test_tests_that_use_their_parent_are_no_circle(crate):
    code, out, _ = crate(
        lib="mod a;\n", a="pub fn go() {}\n#[cfg(test)]\nmod tests;\n", a__tests="use super::*;\n"
    )
    assert (code, out) == (0, "")


def test_circles_of_three_and_of_the_tests_of_a_crate(tmp_path, crate):
    (tmp_path / "tests" / "world").mkdir(parents=True)
    (tmp_path / "tests" / "world" / "main.rs").write_text("mod a;\nmod b;\nmod c;\n")
    for name, to in ("a", "b"), ("b", "c"), ("c", "a"):
        (tmp_path / "tests" / "world" / f"{name}.rs").write_text(f"use crate::{to}::X;\n")
    code, out, _ = crate(lib="")
    assert code == 1
    assert "3 files import each other" in out
    assert "tests/world/a.rs:1: crate::b::X  -> tests/world/b.rs" in out


def test_bad_usage(tmp_path):
    assert check()[0] == 2
    code, out, err = check(tmp_path)
    assert (code, out) == (2, "")
    assert f"{tmp_path}: neither a crate nor a Python package" in err


@pytest.fixture
def package(tmp_path):
    """Write a Python package from its files, and check it."""

    def write(**files):
        folder = tmp_path / "planted"
        for name, text in {"__init__": "", **files}.items():
            file = folder / (name.replace("___", "/") + ".py")
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text)
        return check(folder)

    return write


@pytest.mark.parametrize(
    "back",
    [
        "from planted import first",
        "from planted.first import A",
        "import planted.first as one",
        "from . import first",
        "from .first import A",
        "from planted import (\n    third,\n    first,\n)",
        "try:\n    import planted.first\nexcept ImportError:\n    pass",
        "try:\n    import other\nexcept ImportError:\n    import planted.first",
        "if True:\n    pass\nelse:\n    from .first import A",
        "class Late:\n    from .first import A",
    ],
)
def test_each_form_of_an_import_counts(package, back):
    code, out, _ = package(first="import planted.second\n", second=back + "\n", third="")
    assert code == 1, out
    assert "2 files import each other in a circle" in out
    assert "  first.py:1: planted.second  -> second.py" in out


@pytest.mark.parametrize(
    "other",
    [
        "def late():\n    from planted import first",
        "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from .first import A",
        "from elsewhere import first",
        "import first",
    ],
)
def test_an_import_that_does_not_run_at_once_does_not_count(package, other):
    assert package(first="import planted.second\n", second=other + "\n")[:2] == (0, "")


def test_a_package_that_exports_what_imports_it_is_a_circle(package):
    code, out, _ = package(
        __init__="from planted.room.first import A\n",
        room_____init__="",
        room___first="import planted\n",
    )
    assert code == 1
    assert "  __init__.py:1: planted.room.first.A  -> room/first.py" in out
