"""The list of planted bugs, `make planted`, is of this tree. (The bugs themselves take minutes.)"""

import re
import shlex
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]


def test_every_bug_can_be_planted_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(ROOT / "tools")
    import planted

    bugs = planted.bugs()
    for bug in bugs:
        text = (ROOT / bug.file).read_text(encoding="utf-8")
        assert bug.planted(text) != text, bug.name
        program, *words = shlex.split(bug.test)
        if program == "cargo":
            assert (ROOT / f"crates/{re.sub('.*lightloom-', '', words[2])}").is_dir(), bug.name
        else:
            files = [word for word in words if word.endswith(".py")]
            assert program == "pytest" and files, bug.name
            assert all((ROOT / file).is_file() for file in files), bug.name
    assert len({bug.name for bug in bugs}) == len(bugs) >= 30
    with pytest.raises(planted.ListError, match=f"{bugs[0].name}.* 0 times, not once"):
        bugs[0].planted("")
