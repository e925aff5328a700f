"""Text to train on, as token ids.

Modelled: real text of one kind (by default the sources of the Python standard library for a
recording, and the language reference for a training), one token
per frequent word and one per byte of every other word, so that tokens differ in how often and where
they occur, as they do for any language model. Ignored: sub-word merges. Checked: decoding gives the
text back (``tests/test_trace_record.py``).
"""

from __future__ import annotations

import hashlib
import re
import sysconfig
from collections import Counter
from dataclasses import dataclass
from importlib import resources
from pathlib import Path

import numpy as np
import numpy.typing as npt

from lightloom.errors import InputError

# A word with the space before it, a number, a run of spaces, or one other character.
_PIECE = re.compile(rb" ?[A-Za-z_]+|[0-9]+|\n *|.", re.DOTALL)


@dataclass(frozen=True)
class Corpus:
    """Tokenised text.

    Attributes
    ----------
    tokens
        Token ids, int64 of shape [token], file after file.
    words
        The bytes that each id stands for; the first 256 are the single bytes.
    description
        What the text is, without any path of this machine.
    digest
        SHA-256 of the text, in hexadecimal.
    """

    tokens: npt.NDArray[np.int64]
    words: tuple[bytes, ...]
    description: str
    digest: str


def standard_library() -> tuple[bytes, str]:
    """Return the sources of the running Python's standard library, and what they are.

    Examples
    --------
    >>> text, description = standard_library()
    >>> b"import" in text, description.startswith("Python")
    (True, True)
    """
    root = Path(sysconfig.get_paths()["stdlib"])
    skipped = {"site-packages", "dist-packages", "test", "tests", "idle_test", "__pycache__"}
    files = sorted(
        path
        for path in root.rglob("*.py")
        if path.is_file() and not skipped & set(path.relative_to(root).parts)
    )
    version = sysconfig.get_python_version()
    return _join(files), f"Python {version} standard library, {len(files)} source files"


def reference() -> tuple[bytes, str]:
    """Return the text that ships with Lightloom: the same on every machine, whatever its Python.

    It is Python's own reference, as `help()` shows it, of 3.11.7: 65,000 words of English with code
    between them. Its licence, of the Python Software Foundation, is beside it.

    Examples
    --------
    >>> text, description = reference()
    >>> len(text), description
    (465352, 'Python 3.11 language reference')
    """
    place = resources.files("lightloom.trace") / "text" / "python_reference.txt"
    return place.read_bytes(), "Python 3.11 language reference"


def text_at(path: Path) -> tuple[bytes, str]:
    """Return the bytes of a file, or of every file below a directory in the order of their names.

    Raises
    ------
    InputError
        If there is nothing to read.
    """
    if path.is_dir():
        files = sorted(file for file in path.rglob("*") if file.is_file())
    elif path.is_file():
        files = [path]
    else:
        raise InputError(f"--text {path}: no such file or directory")
    return _join(files), f"{path.name}, {len(files)} files"


def tokenize(text: bytes, description: str, vocabulary: int) -> Corpus:
    r"""Turn text into ids: 256 single bytes, and the most frequent longer pieces.

    Parameters
    ----------
    text
        Any bytes.
    description
        Kept with the corpus.
    vocabulary
        Number of ids, at least 256; the pieces are chosen by how many bytes they save.

    Raises
    ------
    InputError
        If the vocabulary cannot hold the single bytes.

    Examples
    --------
    >>> corpus = tokenize(b"spam spam eggs spam", "breakfast", vocabulary=257)
    >>> [corpus.words[i] for i in corpus.tokens[:6]]
    [b's', b'p', b'a', b'm', b' spam', b' ']
    """
    if vocabulary < 256:
        raise InputError(f"--vocabulary {vocabulary}: must be at least 256, the single bytes")
    pieces: list[bytes] = _PIECE.findall(text)
    tally = Counter(piece for piece in pieces if len(piece) > 1)
    saved = sorted(tally, key=lambda piece: (-tally[piece] * (len(piece) - 1), piece))
    words = [bytes([i]) for i in range(256)] + saved[: vocabulary - 256]
    ids = {word: [i] for i, word in enumerate(words)}
    spelled = {piece: ids.get(piece) or list(piece) for piece in tally}
    spelled |= {word: [i] for i, word in enumerate(words[:256])}
    tokens = np.fromiter((i for piece in pieces for i in spelled[piece]), dtype=np.int64)
    return Corpus(tokens, tuple(words), description, hashlib.sha256(text).hexdigest())


def _join(files: list[Path]) -> bytes:
    try:
        return b"\n".join(path.read_bytes() for path in files)
    except OSError as error:
        raise InputError(f"{error.filename}: cannot be read: {error.strerror}") from error
