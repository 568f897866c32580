"""What oracles say over the real training splits: what they quote, name and answer stands in their prompts."""

from __future__ import annotations

import re
from functools import partial
from typing import Any, cast

import pytest

from reground.app.documents import corpus_retriever
from reground.core.answers import ABSTENTION, PHRASE
from reground.core.evidence import Pages, cited_markers, without_unknown
from reground.core.run import Run, solve
from reground.core.untrusted import fenced
from reground.evaluation.metrics.text import exact_match, normalise
from reground.evaluation.task import Example
from reground.evaluation.tasks import load_task
from reground.evaluation.tasks.qa import MULTI_HOP, Dataset
from reground.methods.baselines import RAG
from reground.methods.grounded import Grounded
from reground.methods.ircot import IRCoT
from reground.methods.rar import RaR
from reground.methods.search_agent import SearchAgent
from reground.methods.search_agent.actions import read_action
from reground.retrieval.rerank import rerank
from reground.text.excerpts import FUNCTION_WORDS
from reground.text.queries import clean_query
from reground.text.quotations import quotations
from reground.training.oracles import Oracle, demonstrations, gold_passages
from reground.training.rows import Demonstration
from reground.training.settings import READ, ReaderLessons
from tests.data import need_data

SPLITS = (
    "hotpotqa/questions",
    "2wikimultihopqa/train",
    "2wikimultihopqa/derived",
    "musique/train",
    "ircot_chains/train",
)
FORMS: dict[str, Any] = {
    "quote": partial(RAG, quote=True),
    "phrase": partial(Grounded, k=3, max_rounds=3),
    "agent": partial(SearchAgent, max_searches=5, samples=1, temperature=0, shots=0, checks=False),
    "revised": RaR,
    "reasoned": IRCoT,
}


def unknown(said: str, asked: str) -> set[str]:
    """The names and numbers of a reply that stand nowhere in its prompt."""
    own = {word.casefold() for word in re.findall(r"\w+", said) if not word[0].islower()}
    return own - FUNCTION_WORDS - set(re.findall(r"\w+", asked.casefold())) - {"ok", "no", "next", "change"}


def check(row: Demonstration, example: Example) -> None:
    kind, said, asked = str(row.extra["kind"]), row.messages[-1].content, row.messages[-2].content
    shown = [" ".join(text.split()) for _, text in fenced(asked)]
    if kind in ("quote", "phrase", "brief", "finish"):
        assert exact_match(PHRASE.extract(without_unknown(said, ())[0]), example.golden_answers)
        quoted = quotations(said)[0] if kind == "quote" else []
        assert bool(quoted) == (kind == "quote")
        assert all(any(quote in text for text in shown) for quote in quoted)
    elif kind in ("decide", "summarise", "linked_answer"):
        action = read_action(said)[0]
        assert not unknown(getattr(action, "query", ""), asked)
        links = re.findall(r"link_id=(\d+)", getattr(action, "answer", ""))
        assert all(f"link_id={link}," in asked for link in (*links, *getattr(action, "selected_link_ids", ())))
    else:
        assert not unknown(said, f"{asked} {example.golden_answers}")
        numbers = [*map(int, re.findall(r'<passage number="(\d+)"', asked)), *cited_markers(asked, most=99)]
        assert set(cited_markers(said, most=99)) <= set(numbers)
        assert kind not in ("names", "query") or clean_query(said, fallback="") == said
        assert kind != "abstain" or (said == ABSTENTION and ABSTENTION in asked)


@pytest.mark.slow
@pytest.mark.parametrize("split", SPLITS)
async def test_what_is_taught_stands_in_the_prompt_and_every_method_carries_the_answer(split: str) -> None:
    need_data("ircot_chains")
    task = Dataset(f"{split}.jsonl", "token F1", MULTI_HOP, corpus="corpus.jsonl").load(need_data(), f"{split}_train")
    pages = cast("Pages", await corpus_retriever(str(cast("Any", task).corpus)))
    links, examples = rerank(pages, "links"), {each.id: each for each in task.examples()[:55]}
    settings = ReaderLessons(methods=",".join(READ))
    rows = (await demonstrations(task, list(examples.values())[:40], links, pages, settings)).rows
    assert len(rows) > 200
    for row in rows:
        check(row, examples[row.question])
    if (need_data().parent / "hotpotqa").is_dir():
        measured = {normalise(each.question) for each in load_task("hotpotqa", need_data().parent).examples()}
        assert not measured & {normalise(each.question) for each in task.examples()}
    right: dict[str, list[float]] = {style: [] for style in FORMS}
    for example in examples.values():
        gold = await gold_passages(example, pages)
        for style, build in FORMS.items() if not isinstance(gold, str) else ():
            oracle = Oracle(example, cast("Any", gold), style, wrong="a wrong answer")
            method = build(model=oracle, retriever=links, form=task.form)
            solved = await solve(method, example.question, Run(), id=example.id, name=style)
            scores = await task.score(example, solved.trajectory, None)
            right[style] += [float(scores["exact match"].value or 0)] * (scores["gold recall"].value == 1)
    for style, found in right.items():
        assert sum(found) >= 0.95 * len(found) > 0, style
