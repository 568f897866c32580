"""Checks of support with a model: what they read, what they cost, and what a second run asks again."""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pytest

import reground
from reground.app.runs import Result
from reground.app.support import Check, embedding_scores, judge_scores
from reground.core.budget import Budget
from reground.core.errors import ConfigurationError
from reground.core.language import Message, Reply, Sampling, TokenLogprob
from reground.core.run import Run
from reground.core.trajectory import GenerateStep, Pair, ScoreStep
from reground.models.scripted import ScriptedModel
from reground.retrieval.judges import Judge
from reground.support.check import checked
from tests.support.test_check import FOUND, answered

SAID = "The Danube is 2850 km long [1]. It carries gold dust from distant mountains [2]."
QUESTION = "How long is the Danube?"


def judging(*, logprobs: bool = True, yes: str = "2850 km") -> ScriptedModel:
    """A model that answers, and says yes to a passage that holds `yes` beside a sentence that does."""

    def said(messages: Sequence[Message], sampling: Sampling) -> Reply | str:
        prompt = messages[-1].content
        if "Does the passage support" not in prompt:
            return SAID
        passage, _, sentence = prompt.partition("</passage>")
        word = "Yes" if yes in passage and yes in sentence else "No"
        return Reply(text=word, token_logprobs=(TokenLogprob(token=word, logprob=-0.1),) if logprobs else None)

    return ScriptedModel(said)


@pytest.fixture
def docs(tmp_path: Path) -> Path:
    folder = tmp_path / "docs"
    folder.mkdir()
    for each in FOUND:
        (folder / each.id).write_text(f"# {each.title}\n\n{each.text}\n")
    return folder


def ask(docs: Path, model: ScriptedModel, **more: Any) -> Result:
    return reground.ask(QUESTION, method="rag", model=model, corpus=docs, home=docs.parent / "home", **more)


def test_the_answering_model_is_asked_through_the_run_and_a_second_run_asks_what_is_new(docs: Path) -> None:
    ask(docs, judging())
    model = judging()
    result = ask(docs, model, support="model")
    assert [each.supported for each in result.sentences] == [True, False]
    assert [quote.quote for quote in result.sentences[0].supports] == ["It is 2850 km long."]
    verdicts = [step for step in result.trajectory.steps if isinstance(step, GenerateStep) and "judge" in step.name]
    assert len(verdicts) == len(model.calls) == 4, "two sentences for each claim; the answer is replayed"
    assert result.usage.calls == 5, "paid from the same budget"
    assert all('<passage number="1"' in prompt for prompt in model.prompts), "the passage is fenced"
    again = ask(docs, fresh := judging(), support="model")
    assert again.sentences == result.sentences and again.usage == result.usage
    ask(docs, fresh, support="model", support_threshold=0.99)
    assert not fresh.calls, "verdicts are read again, not asked for again"


def test_when_the_budget_ends_the_answer_stands_unchecked(docs: Path) -> None:
    model = judging()
    result = ask(docs, model, support="model", budget=Budget(calls=3))
    assert result.text == SAID and result.answered
    assert result.sentences == () and result.faithfulness is None
    assert result.unchecked == "the budget of 3 calls is used up"
    assert json.loads(json.dumps(result.to_dict()))["unchecked"] == result.unchecked
    assert result.usage.calls <= 3
    assert ask(docs, judging(), budget=Budget(calls=3)).unchecked is None, "words cost nothing"


def test_a_model_without_log_probabilities_is_refused_and_the_answer_kept(docs: Path) -> None:
    with pytest.raises(ConfigurationError, match=r"(?s)asks for log-probabilities.*--support words"):
        ask(docs, judging(logprobs=False), support="model")
    result = ask(docs, model := judging())
    assert result.text == SAID and not model.calls


class Flat:
    """An embedder of two dimensions: how often a text says 2850, and how often it says gold."""

    name, limit, weights = "flat", None, None
    calls = 0

    async def embed(self, texts: Sequence[str], *, query: bool = False) -> Any:
        import numpy as np

        self.calls += 1
        rows = np.array([[each.count("2850") + 0.01, each.count("gold") + 0.02] for each in texts], dtype=np.float32)
        return rows / np.linalg.norm(rows, axis=1, keepdims=True)

    async def aclose(self) -> None:
        """Nothing is open."""


async def test_an_embedder_compares_all_claims_in_one_call_and_the_journal_keeps_it() -> None:
    pytest.importorskip("numpy")
    answer, run = await answered(SAID)
    check = Check("flat", partial(embedding_scores, flat := Flat()), 0.9, 0.1)
    said = await checked(answer, QUESTION, run.steps, run, check=check)
    assert [each.supported for each in said.sentences] == [True, False]
    assert flat.calls == 2, "once for the claims and once for the sentences"
    (step,) = (step for step in run.steps if isinstance(step, ScoreStep))
    assert step.span == "/support.0"


async def test_a_reranker_reads_the_claim_as_its_query() -> None:
    seen: list[Pair] = []

    async def score(pairs: Sequence[Pair]) -> list[float]:
        seen.extend(pairs)
        return [3.0 if "2850" in pair.context and "2850" in pair.candidate else -3.0 for pair in pairs]

    answer, run = await answered(SAID)
    check = Check("critic", partial(judge_scores, Judge("critic", score, frame="Question:\n")), 0.0)
    said = await checked(answer, QUESTION, run.steps, run, check=check)
    assert [each.supported for each in said.sentences] == [True, False]
    assert said.sentences[0].score == pytest.approx(0.9526, abs=1e-3)
    assert seen[0].context == "Question:\nThe Danube is 2850 km long." and seen[0].candidate.startswith("Danube\n")


def test_a_claim_that_an_answer_repeats_is_judged_once(docs: Path) -> None:
    def said(messages: Sequence[Message], sampling: Sampling) -> Reply | str:
        no = Reply(text="No", token_logprobs=(TokenLogprob(token="No", logprob=-0.1),))
        return no if "Does the passage" in messages[-1].content else "The Danube is 2850 km long.\n" * 20

    model = ScriptedModel(said)
    result = ask(docs, model, support="model")
    assert [each.supported for each in result.sentences] == [False] * 20
    assert len(model.calls) == 3


async def test_a_model_decides_only_among_the_sentences_that_words_found_near() -> None:
    answer, run = await answered(SAID)

    class Yes:
        name, asked = "yes", 0

        async def score(self, pairs: Sequence[Pair], run: Run, /) -> Sequence[float]:
            self.asked += len(pairs)
            return [1.0] * len(pairs)

    await checked(answer, QUESTION, run.steps, run, check=(check := Yes()), candidates=1)
    assert check.asked == 2


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ({"support": "wrods"}, "did you mean words"),
        ({"support": "embedding"}, "embedding:NAME"),
        ({"support": "embedding:nobody"}, "no embedder"),
        ({"support": "words:x"}, "takes nothing after it"),
        ({"support": "critic:/nowhere"}, "no trained critic"),
        ({"support": "model", "support_threshold": 7.0}, "at most 1"),
        ({"support_threshold": 0.5}, "for checks with a model"),
    ],
)
def test_what_cannot_be_opened_is_refused_before_anything_is_paid(
    docs: Path, options: dict[str, Any], why: str
) -> None:
    model = judging()
    with pytest.raises(ConfigurationError, match=why):
        ask(docs, model, **options)
    assert not model.calls


async def test_a_model_of_entailment_gives_its_log_odds(tmp_path: Path) -> None:
    pytest.importorskip("sentence_transformers")
    import torch
    from sentence_transformers import CrossEncoder

    from reground.retrieval.judges import cross_encoder
    from tests.training.tiny_encoder import small_encoder

    model = CrossEncoder(str(small_encoder(tmp_path / "base")), num_labels=3)
    pair = Pair(context="wool is soft", candidate="sheep\nwool is very soft")
    for name, labels in (("nli", ("contradiction", "Entailment", "neutral")), ("other", ("a", "b", "c"))):
        model.config.id2label = dict(enumerate(labels))
        model.save_pretrained(str(tmp_path / name))
    (found,) = await cross_encoder(str(tmp_path / "nli"), entailment=True).judged([pair])
    logits = torch.tensor(model.predict([(pair.candidate, pair.context)], show_progress_bar=False)[0])
    wanted = torch.softmax(logits, 0)[1]
    assert torch.sigmoid(torch.tensor(found)) == pytest.approx(float(wanted), abs=0.01)
    for name, entailment, why in (("nli", False, "several numbers"), ("other", True, "no label entailment")):
        with pytest.raises(ConfigurationError, match=why):
            await cross_encoder(str(tmp_path / name), entailment=entailment).judged([pair])
