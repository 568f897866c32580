import asyncio
import fcntl
import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from reground.core.errors import ConfigurationError, IndexBusy, IndexRefused
from reground.core.run import Run
from reground.core.trajectory import NoteStep
from reground.methods.shared.evidence import find
from reground.retrieval.index import build_index, open_index
from reground.retrieval.settings import IndexSettings, Progress
from tests.retrieval.corpora import jsonl, write


@pytest.fixture
def notes(tmp_path: Path) -> Path:
    return write(tmp_path / "notes", {"cats.md": "# Cats\n\nCats purr.", "dogs.txt": "Dogs bark."})


@pytest.fixture
def index(notes: Path, tmp_path: Path) -> Path:
    build_index(notes, tmp_path / "index")
    return tmp_path / "index"


def generation(index: Path) -> Path:
    return index / json.loads((index / "manifest.json").read_text())["generation"]


def edit(index: Path, **changes: object) -> None:
    manifest = json.loads((index / "manifest.json").read_text())
    (index / "manifest.json").write_text(json.dumps({**manifest, **changes}))


def largest(index: Path, pattern: str) -> Path:
    return max(generation(index).rglob(pattern), key=lambda file: file.stat().st_size)


def flip(file: Path) -> None:
    content = bytearray(file.read_bytes())
    content[len(content) // 2] ^= 0xFF
    file.write_bytes(content)


def truncate(file: Path) -> None:
    file.write_bytes(file.read_bytes()[:-1])


DAMAGES: dict[str, tuple[Callable[[Path], object], str]] = {
    "manifest cut": (lambda index: truncate(index / "manifest.json"), "manifest.json is not JSON"),
    "manifest gone": (lambda index: (index / "manifest.json").unlink(), "did not come to its end"),
    "fields gone": (lambda index: edit(index, files=None), "no valid files"),
    "foreign generation": (lambda index: edit(index, generation="../elsewhere"), "no valid generation"),
    "data gone": (lambda index: shutil.rmtree(generation(index)), "is missing"),
    "file gone": (lambda index: largest(index, "*.store").unlink(), r"\.store is missing"),
    "file cut": (lambda index: truncate(largest(index, "*.term")), r"\.term has \d+ bytes instead of \d+"),
    "byte flipped": (lambda index: flip(largest(index, "*.idx")), "has other content"),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_index_is_refused_and_can_be_built_again(index: Path, notes: Path, damage: str) -> None:
    inflict, why = DAMAGES[damage]
    inflict(index)
    with pytest.raises(IndexRefused, match=why) as raised:
        open_index(index)
    assert "build it again: reground index" in str(raised.value)
    assert "\n" not in str(raised.value)
    report = build_index(notes, index)
    assert report.read == 2
    assert [p.id for p in asyncio.run(open_index(index).retrieve("cats", k=2))] == ["cats.md"]
    assert len(list(index.glob("data-*"))) == 1


def test_damage_that_checks_do_not_see_is_refused_by_the_engine(index: Path) -> None:
    meta = largest(index, "meta.json")
    meta.write_text("{}")
    manifest = json.loads((index / "manifest.json").read_text())
    del manifest["files"]["bm25/meta.json"]
    (index / "manifest.json").write_text(json.dumps(manifest))
    with pytest.raises(IndexRefused, match="BM25 part of the index is damaged") as raised:
        open_index(index)
    assert str(index) in str(raised.value)


def test_another_version_or_format_is_refused(index: Path, notes: Path) -> None:
    edit(index, version=1)
    with pytest.raises(IndexRefused, match="has format version 1, this reground reads 4; build it again"):
        open_index(index)
    edit(index, version=4, settings={"kind": "bm25", "colour": "red"})
    with pytest.raises(IndexRefused, match="settings that this reground does not know"):
        open_index(index)
    edit(index, format="something-else")
    with pytest.raises(IndexRefused, match="not an index of reground"):
        open_index(index)
    (index / "manifest.json").write_text("[]")
    with pytest.raises(IndexRefused, match="not an index of reground"):
        open_index(index)
    assert build_index(notes, index).read == 2


def test_a_folder_of_something_else_is_refused_and_left_alone(notes: Path, tmp_path: Path) -> None:
    with pytest.raises(IndexRefused, match="is not an index"):
        open_index(notes)
    with pytest.raises(IndexRefused, match="there is no index at"):
        open_index(tmp_path / "absent")
    with pytest.raises(IndexRefused, match="there is no index at"):
        open_index(notes / "cats.md")
    with pytest.raises(ConfigurationError, match="holds other files"):
        build_index(notes / "cats.md", notes)
    assert sorted(file.name for file in notes.iterdir()) == ["cats.md", "dogs.txt"]


def many(notes: Path, index: Path) -> None:
    lines = [{"id": str(i), "text": f"number {i} in a row of {i * i} owls"} for i in range(2000)]
    write(notes, {"many.jsonl": jsonl(lines)}, old=False)
    build_index(notes, index)


def blank(file: Path) -> None:
    """Blot out a file's first half, so that it can be opened and not be used."""
    content = file.read_bytes()
    file.write_bytes(b"\xff" * (len(content) // 2) + content[len(content) // 2 :])


async def test_damage_of_an_index_that_is_not_read_whole_fails_the_question(index: Path, notes: Path) -> None:
    many(notes, index)
    blank(largest(index, "*.store"))
    run = Run()
    with pytest.raises(IndexRefused, match="damaged"):
        await find(run, open_index(index, verify=False), "owls in a row", k=3)
    assert not [step for step in run.steps if isinstance(step, NoteStep)]


async def test_nothing_found_in_an_index_that_was_not_read_whole_is_a_reason_to_check_it(
    index: Path, notes: Path
) -> None:
    many(notes, index)
    assert await open_index(index, verify=False).retrieve("zebra", k=1) == []
    flip(largest(index, "ledger.sqlite"))
    retriever = open_index(index, verify=False)
    assert len(await retriever.retrieve("owls", k=1)) == 1
    with pytest.raises(IndexRefused, match="other content"):
        await retriever.retrieve("zebra", k=1)


def test_two_builds_at_once_are_refused_and_leave_each_other_alone(index: Path, notes: Path) -> None:
    write(notes, {"new.txt": "Owls hoot."})
    others = write(index / "data-0123abcd", {"bm25/half.store": "x", "lock": ""})
    handle = os.open(index / "lock", os.O_RDWR)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        with pytest.raises(IndexBusy, match="being built by another process"):
            build_index(notes, index)
        assert (others / "bm25" / "half.store").exists()
    finally:
        os.close(handle)
    assert build_index(notes, index).read == 1


class Stop(Exception):
    pass


def test_a_build_that_fails_leaves_the_old_index_and_nothing_else(index: Path, notes: Path) -> None:
    before = open_index(index).name
    write(notes, {"c.jsonl": jsonl([{"id": str(i), "text": f"text {i}"} for i in range(1000)])})

    def stop(progress: Progress) -> None:
        raise Stop

    with pytest.raises(Stop):
        build_index(notes, index, progress=stop)
    with pytest.raises(Stop):
        build_index(notes, index, IndexSettings(language="de"), progress=stop)
    assert open_index(index).name == before
    assert len(list(index.glob("data-*"))) == 1


def test_a_build_that_is_interrupted_is_gone_on_with(index: Path, notes: Path) -> None:
    before = open_index(index).name
    write(notes, {f"n{number}.txt": f"Number {number} is here." for number in range(9)})

    def stop(progress: Progress) -> None:
        if progress.file == "n5.txt" and progress.documents:
            raise Stop

    (notes / "n5.txt").write_text("word " * 200_000)  # large enough to be told of
    with pytest.raises(Stop):
        build_index(notes, index, progress=stop, save_every=0)
    assert open_index(index, verify=True).name == before
    (notes / "n5.txt").write_text("Number 5 is here.")
    (notes / "n1.txt").unlink()
    report = build_index(notes, index)
    assert (report.documents, report.read, report.removed) == (10, 4, 1)
    fresh = index.with_name("fresh")
    build_index(notes, fresh)
    assert open_index(index).name == open_index(fresh).name
    assert not (index / "unfinished.json").exists()
    assert len(list(index.glob("data-*"))) == 1


def test_an_interrupted_build_that_is_damaged_or_of_other_settings_is_not_gone_on_with(
    index: Path, notes: Path
) -> None:
    write(notes, {"n.txt": "Owls hoot.", "o.txt": "word " * 200_000})

    def stop(progress: Progress) -> None:
        if progress.file == "o.txt" and progress.documents:
            raise Stop

    for _ in range(2):
        with pytest.raises(Stop):
            build_index(notes, index, progress=stop, save_every=0)
        assert len(list(index.glob("data-*"))) == 2
    kept = json.loads((index / "unfinished.json").read_text())["generation"]
    damaged = next((index / kept / "bm25").glob("*.store"))
    damaged.unlink()  # it may be a link to the file of the index that is in use
    damaged.write_bytes(b"x")
    assert build_index(notes, index).read == 2
    with pytest.raises(Stop):
        build_index(notes, index, IndexSettings(language="de"), progress=stop, save_every=0)
    assert build_index(notes, index).read == 0
    assert build_index(notes, index, IndexSettings(language="de")).read == 1


KILLED = """
import os, signal, sys
from pathlib import Path
from reground.retrieval import storage
from reground.retrieval.index import build_index

source, out, moment = Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3]
everything_read = False

def die_if(now):
    if now:
        os.kill(os.getpid(), signal.SIGKILL)

def die_before(publish):
    def published(*args):
        die_if(moment == "publishing")
        publish(*args)
    return published

class Kept:  # looks for nothing
    fingerprint = "none"

    def overlap(self, text):
        die_if(moment == "reading" and "900" in text)

def progress(seen):
    global everything_read
    everything_read = seen.documents >= 1002
    die_if(moment == "finishing" and everything_read)

storage.Building.publish = die_before(storage.Building.publish)
build_index(source, out, progress=progress, decontaminate=Kept())
die_if(moment == "published")
"""


@pytest.mark.parametrize("moment", ["reading", "finishing", "publishing", "published"])
def test_a_kill_at_any_moment_leaves_a_whole_index(index: Path, notes: Path, moment: str) -> None:
    before = open_index(index).name
    write(notes, {"c.jsonl": jsonl([{"id": str(i), "text": f"text {i}"} for i in range(1000)])})
    done = subprocess.run([sys.executable, "-c", KILLED, str(notes), str(index), moment], check=False)
    assert done.returncode == -signal.SIGKILL
    retriever = open_index(index, verify=True)
    assert (retriever.name == before) == (moment != "published")
    assert [p.id for p in asyncio.run(retriever.retrieve("cats", k=1))] == ["cats.md"]
    del retriever
    report = build_index(notes, index)
    assert report.documents == 1002
    assert len(list(index.glob("data-*"))) == 1


def test_updates_share_what_does_not_change(index: Path, notes: Path) -> None:
    old = {file.stat().st_ino for file in generation(index).rglob("*.store")}
    holder = open_index(index)  # keeps the old generation
    write(notes, {"new.txt": "Owls hoot."})
    build_index(notes, index)
    assert old <= {file.stat().st_ino for file in generation(index).rglob("*.store")}
    assert holder.manifest.documents == 2


def test_an_index_can_be_moved_and_copied(index: Path, notes: Path, tmp_path: Path) -> None:
    name = open_index(index).name
    shutil.copytree(index, tmp_path / "copy")
    index.rename(tmp_path / "moved")
    assert open_index(tmp_path / "copy").name == open_index(tmp_path / "moved").name == name
    assert build_index(notes, tmp_path / "moved").read == 0


def test_whoever_may_read_an_index_may_read_all_of_it(index: Path) -> None:
    modes = {file.name: file.stat().st_mode for file in generation(index).rglob("*") if file.is_file()}
    assert len(set(modes.values())) == 1, modes
