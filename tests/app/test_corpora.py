"""Corpora named by their path: indexed once, shared by processes that come at the same time."""

from __future__ import annotations

import asyncio
import fcntl
import os
import subprocess
import sys
from functools import partial
from io import BytesIO, TextIOWrapper
from pathlib import Path

import pytest

import reground
from reground.app.cli import run
from reground.app.documents import cached_index_path, corpus_retriever
from reground.core.errors import ConfigurationError, DataError, IndexRefused
from reground.models.scripted import ScriptedModel
from reground.retrieval.index import build_index
from reground.retrieval.settings import Progress, preset
from reground.retrieval.storage import holds_index
from tests.servers import serving
from tests.web.little_web import LittleWeb, page

FINDS = """
import asyncio, sys
from reground.app.documents import corpus_retriever

async def find():
    retriever = await corpus_retriever(sys.argv[1])
    print([passage.id for passage in await retriever.retrieve("owls", k=1)])

asyncio.run(find())
"""


def corpus_of(folder: Path) -> Path:
    folder.mkdir()
    for i in range(200):
        (folder / f"{i}.txt").write_text("Owls hoot." if i == 7 else f"Text number {i}.")
    return folder


async def test_a_corpus_that_another_process_indexes_is_waited_for(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setenv("REGROUND_HOME", str(tmp_path / "home"))
    corpus = corpus_of(tmp_path / "notes")
    out = cached_index_path(corpus, preset("bm25").settings)
    out.mkdir(parents=True)
    handle = os.open(out / "lock", os.O_RDWR | os.O_CREAT)
    fcntl.flock(handle, fcntl.LOCK_EX)
    waits = asyncio.Event()

    def watch(progress: Progress) -> None:
        if progress.waiting:
            waits.set()

    opening = asyncio.create_task(corpus_retriever(corpus, watch))
    await asyncio.wait_for(waits.wait(), 60)
    assert not opening.done()
    os.close(handle)
    retriever = await asyncio.wait_for(opening, 60)
    assert [passage.id for passage in await retriever.retrieve("owls", k=1)] == ["7.txt"]


def test_processes_that_index_the_same_corpus_at_once_all_find(tmp_path: Path) -> None:
    corpus = corpus_of(tmp_path / "notes")
    environment = os.environ | {"REGROUND_HOME": str(tmp_path / "home")}
    command = [sys.executable, "-c", FINDS, str(corpus)]
    running = [
        subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        for _ in range(4)
    ]
    for process in running:
        out, error = process.communicate(timeout=120)
        assert (process.returncode, out.strip()) == (0, "['7.txt']"), error


async def test_documents_beside_another_programs_manifest_are_asked(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setenv("REGROUND_HOME", str(tmp_path / "home"))
    corpus = corpus_of(tmp_path / "notes")
    for content in ('{"name": "An extension", "manifest_version": 3}', "no JSON", "[]"):
        (corpus / "manifest.json").write_text(content)
        assert not holds_index(corpus)
    retriever = await corpus_retriever(corpus)
    assert [passage.id for passage in await retriever.retrieve("owls", k=1)] == ["7.txt"]


async def test_an_index_that_is_damaged_is_refused_and_not_read_as_documents(tmp_path: Path) -> None:
    index = tmp_path / "index"
    build_index(corpus_of(tmp_path / "notes"), index)
    assert holds_index(index)
    (index / "notes.txt").write_text("Somebody put this here.")
    assert holds_index(index)
    (index / "notes.txt").unlink()
    (index / "manifest.json").write_text("cut of")
    with pytest.raises(IndexRefused, match=r"is damaged: its manifest\.json is not JSON"):
        await corpus_retriever(index)


def test_a_folder_whose_name_is_no_unicode_has_a_place_for_its_index(tmp_path: Path) -> None:
    places = []
    for name in (b"vertr\xe4ge", b"vertr\xe5ge"):
        corpus = corpus_of(tmp_path / os.fsdecode(name))
        places.append(cached_index_path(corpus, preset("bm25").settings))
        assert build_index(corpus, places[-1]).documents > 0
        assert build_index(corpus, places[-1]).read == 0
    assert len({str(place.name).encode() for place in places}) == 2, "the writers of an index take only Unicode"


def test_a_question_goes_to_the_documents_that_its_filter_chooses(docs: Path, capsys) -> None:
    (docs / "old.md").write_text("---\ntag: old\n---\n# Po\n\nThe Po flows through Turin.")
    model = ScriptedModel(lambda messages, sampling: "a river [1].")
    asked = partial(reground.ask, "Which river flows through a city?", corpus=docs, method="rag", model=model)
    every, new = asked(), asked(where="NOT tag:old")
    assert {each.passage_id for each in every.shown} == {"danube.md", "seine.md", "old.md"}
    assert {each.passage_id for each in new.shown} == {"danube.md", "seine.md"}
    assert every.trajectory_path != new.trajectory_path  # another run
    (docs / "seine.md").touch()
    assert asked(where="NOT tag:old").usage == new.usage and len(model.prompts) == 2
    assert [each.passage_id for each in asked(include=["s*.md"]).shown] == ["seine.md"]
    assert reground.check("The Po flows through Turin.", corpus=docs, where="path:s*").share == 0
    listed = reground.ask("What flows?", corpus=[docs, "The Elbe."], method="rag", model=model, where="tag:old")
    assert [each.passage_id for each in listed.shown] == ["docs/old.md"]
    for options, said in (({"where": "tag:"}, "a condition"), ({"corpus": "index", "include": ["*.md"]}, "path:GLOB")):
        build_index(docs, Path("index"))
        with pytest.raises(ConfigurationError, match=said):
            asked(**options)
    with pytest.raises(ConfigurationError, match="give --corpus"):
        reground.ask("Why?", method="direct", model=model, where="tag:old")
    assert run(["retrieve", "river", "-c", "docs", "--where", "tag:old", "--exclude", "old.md"]) == 2
    assert "'tag'" in capsys.readouterr().err


def test_text_from_standard_input_and_a_page_are_documents(home: Path, monkeypatch, capsys) -> None:
    monkeypatch.setattr(sys, "stdin", TextIOWrapper(BytesIO("Die Spree fließt durch Berlin.".encode())))
    assert run(["retrieve", "Spree", "--corpus", "-"]) == 0
    assert "standard input" in capsys.readouterr().out
    with serving(LittleWeb({"/elbe": page("Elbe", "The Elbe flows through Dresden. " * 9)})) as web:
        model = ScriptedModel(lambda messages, sampling: "The Elbe [1].")
        asked = partial(reground.ask, "What flows?", corpus=f"{web.origin}/elbe", method="rag", model=model)
        assert asked(web_network=[web.network]).quotes[0].url == f"{web.origin}/elbe"
        with pytest.raises(DataError, match="cannot be read"):
            asked()
