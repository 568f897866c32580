"""Surroundings of a command that are odd: what it finds in its environment, and where it stands.

Streams that are closed or full are in tests/app/test_process.py.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from pathlib import Path

from tests.campaign.commands import Done, environment, run

Try = Callable[[Path, str, random.Random], list[str]]
_FINE = {0, 4}
_HOMES = ("file", "file/below", "/proc/nowhere", "/dev/null/x", "x" * 300, "new\nline", "\udcff", "loop", "~nobody-of-that-name/x")  # fmt: skip


def _commands(url: str) -> tuple[tuple[str, ...], ...]:
    model = ("--model", "openai/mock", "--base-url", url)
    return (
        ("methods",),
        ("methods", "rar", "--json"),
        ("models", "--base-url", url),
        ("--help",),
        ("ask", "Who wrote book 1? – Größe 中", "-m", "cot", *model),
        ("ask", "Who wrote book 1?", "-m", "rag", "-c", "docs", "--json", *model),
        ("eval", "--task", "bamboogle", "--data", "data", "-m", "cot", "--out", "out", *model),
        ("index", "docs", "--out", "idx"),
    )


def _and_then(words: Sequence[str], folder: Path, done: Done, codes: set[int]) -> list[str]:
    """The flaws of the odd run, and of the same command when all is well."""
    well = run(words, folder, environment(folder))
    return done.flaws(codes) + [f"when all is well: {flaw}" for flaw in well.flaws(_FINE)]


def odd_home(folder: Path, url: str, chance: random.Random) -> list[str]:
    """A home that cannot be, or that nobody can write to."""
    words = chance.choice(_commands(url)[4:6])
    (folder / "file").write_text("")
    (folder / "loop").symlink_to(folder / "loop")
    home = chance.choice(_HOMES)
    place = home if home.startswith(("/", "~")) else f"{folder}/{home}"
    done = run(words, folder, environment(folder, REGROUND_HOME=place))
    return _and_then(words, folder, done, {0, 2, 4})


def odd_environment(folder: Path, url: str, chance: random.Random) -> list[str]:
    """Encodings, terminals, keys, addresses and proxies that are odd."""
    words = chance.choice(_commands(url))
    odd: dict[str, str] = chance.choice(
        (
            {"PYTHONIOENCODING": "ascii", "LC_ALL": "C", "PYTHONUTF8": "0"},
            {"PYTHONIOENCODING": "latin-1"},
            {"LC_ALL": "C", "LANG": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"},
            {"TERM": "dumb", "COLUMNS": "1"},
            {"COLUMNS": "0", "LINES": "0"},
            {"COLUMNS": "many"},
            {"OPENAI_API_KEY": "sk-a\nb"},
            {"OPENAI_API_KEY": "sk-\u00e9"},
            {"OPENAI_API_KEY": " "},
            {"OPENAI_BASE_URL": "http://[::1"},
            {"OPENAI_BASE_URL": "not an address"},
            {"http_proxy": "http://[::1", "HTTP_PROXY": "nonsense://"},
            {"http_proxy": "http://127.0.0.1:9", "no_proxy": ""},
            {"HOME": "/nowhere"},
            {"TZ": "Nowhere/At_All"},
            {"REGROUND_DATA": "/nowhere"},
            {"PYTHONHASHSEED": "1", "PYTHONDONTWRITEBYTECODE": "1", "PYTHONWARNINGS": "default"},
        )
    )
    done = run(words, folder, environment(folder, **odd))
    return _and_then(words, folder, done, {0, 2, 4})


def odd_places(folder: Path, url: str, chance: random.Random) -> list[str]:
    """Files where folders should be, links in circles, names that no disk has."""
    index = _commands(url)[7]
    evaluation = _commands(url)[6]
    words, name, home = chance.choice(((index, "idx", "--out"), (evaluation, "out", "--out")))
    odd = chance.choice(
        ("file", "file/below", "/proc/nowhere", "x" * 300, "loop", "/dev/null", "a\nb", "\udcff", "docs", ".")
    )
    (folder / "file").write_text("here")
    (folder / "loop").symlink_to(folder / "loop")
    before = sorted(path.name for path in (folder / "docs").iterdir())
    done = run([odd if word == name else word for word in words], folder, environment(folder))
    after = sorted(path.name for path in (folder / "docs").iterdir())
    flaws = [] if before == after else ["the documents' folder was changed"]
    return flaws + [f"{home} {odd!r:.40}: {flaw}" for flaw in _and_then(words, folder, done, {0, 2, 4})]


def no_room_for_temporary_files(folder: Path, url: str, chance: random.Random) -> list[str]:
    """TMPDIR leads nowhere while programs are to be run."""
    words = ["cot" if word == "direct" else "gsm8k" if word == "bamboogle" else word for word in _commands(url)[6]]
    place = chance.choice(("/nowhere", "/proc", "/dev/null"))
    done = run(words, folder, environment(folder, TMPDIR=place))
    return _and_then(words, folder, done, {0, 2, 3})


SURROUNDINGS: dict[str, Try] = {
    "odd environment": odd_environment,
    "home that cannot be written": odd_home,
    "odd places": odd_places,
    "no temporary files": no_room_for_temporary_files,
}
