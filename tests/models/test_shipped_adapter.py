"""The adapter that comes with reground: found by its name, known by its content, and able to read."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from reground.app.identity import model_settings
from reground.core.answers import PHRASE, abstains
from reground.core.errors import ConfigurationError
from reground.core.evidence import Passage
from reground.core.run import Run
from reground.methods.grounded import Grounded
from reground.models.gguf import create
from reground.models.options import SHIPPED, ModelOptions, local_identity
from reground.retrieval.scripted import ScriptedRetriever
from tests.models import small_model

READER = ModelOptions(slots=1, context=1024, threads=1, adapter=Path("smollm2-reader"))
PASSAGES = [
    Passage(id="1", title="Orla Lighthouse", text="The Orla Lighthouse was designed by Mara Lind. It is 40 m high."),
    Passage(id="2", title="Mara Lind", text="Mara Lind was an engineer. She was born in Bergen in 1871."),
    Passage(id="3", title="Bergen", text="Bergen is a city in Norway. It was founded in 1070 by Olav Kyrre."),
]


async def answer(question: str, options: ModelOptions, passages: list[Passage] = PASSAGES) -> str:
    model = create(str(small_model()), options)
    method = Grounded(
        model=model, retriever=ScriptedRetriever(passages), form=PHRASE, k=3, max_rounds=0, brief=True,
        abstain=True, passage_tokens=300, max_tokens=64,
    )  # fmt: skip
    try:
        return (await method.solve(question, Run())).text
    finally:
        await model.aclose()


@pytest.mark.parametrize(
    ("question", "right"),
    [("How high is the Orla Lighthouse?", "40 m"), ("In which country is Bergen?", "Norway")],
)
async def test_it_reads_the_answer_from_a_passage(question: str, right: str) -> None:
    assert PHRASE.extract(await answer(question, READER)) == right


async def test_it_says_that_passages_do_not_hold_the_answer() -> None:
    bees = [Passage(id="b", title="Bees", text="Bees dance to tell where flowers are.")]
    assert abstains(await answer("Who designed the Orla Lighthouse?", READER, bees))


def test_a_name_means_the_shipped_file_unless_there_is_one_of_that_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert READER.adapter_file == SHIPPED["smollm2-reader"]
    (tmp_path / "smollm2-reader").write_bytes(b"another")
    assert READER.adapter_file == Path("smollm2-reader")
    assert ModelOptions().adapter_file is None


def test_an_unknown_name_is_told_which_there_are() -> None:
    with pytest.raises(ConfigurationError, match="there is no adapter file smollm3: gguf/ takes smollm2-reader, or"):
        create("smollm2", ModelOptions(adapter=Path("smollm3")))


def test_a_run_is_known_by_the_name_and_the_content_and_not_by_the_place() -> None:
    settings = model_settings(READER)
    assert settings["adapter"] == "smollm2-reader"
    assert re.fullmatch(r"[0-9a-f]{8,}", settings["adapter_files"])
    assert settings["adapter_files"] in local_identity("gguf/smollm2", READER)


@pytest.mark.parametrize("name", SHIPPED)
def test_it_is_small_and_has_a_card(name: str) -> None:
    file = SHIPPED[name]
    assert 1e6 < file.stat().st_size <= 20e6
    card = file.with_suffix(".md").read_text(encoding="utf-8")
    for part in ("## Data", "## Licence", "## Training", "## Figures", "## Limits"):
        assert part in card
