"""What is measured beside right and wrong: whether what was read supports the answer, and abstaining."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from reground.core.answers import ABSTENTION, PHRASE
from reground.core.evidence import Passage
from reground.evaluation.results import read_run
from reground.evaluation.runner import FAITHFULNESS, EvalSettings, evaluate
from reground.evaluation.task import hidden_documents
from reground.evaluation.tasks import load_task
from reground.methods.baselines import RAG, Direct
from reground.models.scripted import ScriptedModel
from reground.retrieval.scripted import ScriptedRetriever

FOUND = [
    Passage(id="hotpot-1", title="Danube", text="The Danube is 2850 km long."),
    Passage(id="hotpot-2", title="Seine", text="The Seine is 775 km long."),
]


@pytest.fixture
def data(tmp_path: Path) -> Path:
    folder = tmp_path / "data" / "hotpotqa"
    folder.mkdir(parents=True)
    about = {"split": "dev", "gold_ids": ["hotpot-1"]}
    lines = [
        {"id": "a", "question": "How long is the Danube?", "golden_answers": ["2850 km"], "metadata": about},
        {"id": "b", "question": "How long is the Rhine?", "golden_answers": ["1230 km"], "metadata": {"split": "dev"}},
    ]
    (folder / "questions.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    corpus = [each.model_dump(include={"id", "title", "text"}) for each in FOUND]
    (folder / "corpus.jsonl").write_text("".join(json.dumps(line) + "\n" for line in corpus))
    return folder.parent


async def scores(data: Path, task: str, reply: str, out: Path, *, searching: bool = True) -> dict[str, float | None]:
    model = ScriptedModel(lambda messages, sampling: reply)
    method = RAG(model=model, retriever=ScriptedRetriever(FOUND), form=PHRASE) if searching else Direct(model=model)
    await evaluate(load_task(task, data), method, EvalSettings("rag", "scripted", ids="a"), out)
    (record,) = read_run(out).records().values()
    return {name: score.value for name, score in record.scores.items()}


@pytest.mark.parametrize(
    ("reply", "faithful", "right"),
    [("Answer: 2850 km", 1.0, 1.0), ("Answer: 3000 km", 0.0, 0.0), (ABSTENTION, None, 0.0)],
)
async def test_faithfulness_stands_beside_the_tasks_own_metrics(
    reply: str, faithful: float | None, right: float, data: Path, tmp_path: Path
) -> None:
    found = await scores(data, "hotpotqa", reply, tmp_path / "out")
    assert (found[FAITHFULNESS], found["exact match"]) == (faithful, right)
    assert found["abstained"] == float(reply == ABSTENTION)


async def test_a_method_that_reads_nothing_is_neither_faithful_nor_not(data: Path, tmp_path: Path) -> None:
    found = await scores(data, "hotpotqa", "Answer: 2850 km", tmp_path / "out", searching=False)
    assert FAITHFULNESS not in found


async def test_where_the_gold_passages_are_taken_away_it_is_right_to_abstain(data: Path, tmp_path: Path) -> None:
    task = load_task("hotpotqa_unanswerable", data)
    (example,) = task.examples()
    assert example.id == "a", "the gold passages of the other are unknown"
    assert hidden_documents(task, example) == {"hotpot-1"}
    assert task.primary == "abstained"
    assert (await scores(data, task.name, ABSTENTION, tmp_path / "one"))["abstained"] == 1.0
    assert (await scores(data, task.name, "Answer: 2850 km", tmp_path / "two"))["abstained"] == 0.0
