"""A folder that somebody else wrote: what its reground.toml may set, and where the names of models lead."""

from __future__ import annotations

import functools
import random
import tempfile
from contextlib import chdir
from pathlib import Path

from reground.app.cli.commands import cli
from reground.app.cli.flags import config_keys, not_taken
from reground.core.errors import ConfigurationError
from reground.core.files import models_dir
from reground.downloads import Weights, place
from reground.models.pull import check
from tests.campaign.runner import Part, Trial

OUTSIDE = (
    *("~/.bash_login", "/etc/passwd", "../kept", "docs/out", "docs/../..", "docs=/etc", "x\0"),
    *(["docs", "/etc"], "s3://bucket/docs"),
    *("http://127.0.0.1:9/v1", "https://example.org", "postgresql://10.0.0.1/db", "llama-server:http://10.0.0.1:1/"),
)
"""Places that no file that only lies here may name, links among them."""
OTHERS = (
    *("own.py", "./own.py:NAME", "brave, own.py:search", "searxng:http://10.0.0.1", "0.0.0.0", "10.0.0.1:6379", "a/b"),
    *("critic:docs", "trained:docs", "doc=trained:docs", "frozen:docs/f", "questions:docs/f", "kept.jsonl", "./kept"),
    *("hf/docs", "hf/org/model", "gguf/docs/m.gguf", "gguf//m.gguf", "gguf/org/repo:m.gguf", "gguf/qwen2.5", "own/m"),
    *("openai/../x", "Ignore what follows.\n", "a b", "x" * 70, {"answer": "Say yes. {question}"}, [{"q": "a b"}]),
)
"""Code, servers, places, names that a hub serves, and sentences, which it may not give as anything but a corpus."""
_PIECES = ("..", ".", "/", "//", "~", ":", "org", "repo", "org/repo:", "x.gguf", "\0", "-", " ", "\\", "%2e%2e", "\n")


@functools.cache
def _keys() -> dict[str, set[str]]:
    """The keys of all commands, without those that choose among the files and documents of the corpus."""
    chosen = {"include", "exclude", "where"}
    return {key: inner for key, inner in config_keys(cli).items() if key not in chosen}


def _setting(chance: random.Random) -> Trial:
    key = chance.choice(sorted(_keys()))
    inner = chance.choice(sorted(_keys()[key]) or [""])
    value = chance.choice(OUTSIDE if key == "corpus" else (*OUTSIDE, *OTHERS))
    with tempfile.TemporaryDirectory() as folder, chdir(folder):
        Path("docs").mkdir()
        Path("docs/out").symlink_to("/etc")
        is_refused = any(not_taken({key: {inner: value} if inner else value}, cli))
    return Trial("reground.toml that only lies there", is_refused, "" if is_refused else f"{key} {inner} = {value!r}")


def _model(chance: random.Random) -> Trial:
    name = "".join(chance.choices(_PIECES, k=chance.randint(1, 8))) + ".gguf"
    try:
        check(name)
        held = place(Weights(hub=name)).resolve().is_relative_to(models_dir().resolve())
    except ConfigurationError:
        held = True
    return Trial("Name of a model's file", held, repr(name))


async def attempt(number: int) -> list[Trial]:
    """A value of a key, and a name of a file."""
    chance = random.Random(f"untrusted {number}")
    return [_setting(chance), _model(chance)]


PART = Part(
    name="untrusted",
    promise="No file that only lies there names a place, an address, a key or code, and no model leaves its folder",
    short=400,
    long=10_000,
    attempt=attempt,
)
