"""Open-domain questions with short answers: HotpotQA, 2WikiMultihopQA, MuSiQue, Bamboogle, NQ and their kin.

Metrics: exact match, cover-EM and token F1 of the answer phrase, best over all aliases; hit (whether a prompt showed a
retrieved text with a gold answer) and gold recall (the share of the gold passages that was retrieved). Methods are
ranked by the metric of each benchmark's own papers.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Annotated

from pydantic import BeforeValidator, Field, JsonValue

from reground.core.answers import PHRASE, AnswerForm, Demonstration, abstains
from reground.core.errors import DataError
from reground.core.files import cache_dir
from reground.core.programs import Sandbox
from reground.core.trajectory import RetrieveStep, Trajectory
from reground.downloads import PullError, download
from reground.evaluation.data import WHERE, data_path, demonstrations, fields, is_hub, read_values
from reground.evaluation.metrics.text import cover_exact_match, exact_match, gold_recall, hit, normalise, token_f1
from reground.evaluation.questions import part
from reground.evaluation.task import NO_ANSWER, Example, Loaded, Score, Task
from reground.evaluation.tasks.retrieval import document_id, retrieve_steps, retrieved_passages, shown_texts

Gold = Annotated[
    str, BeforeValidator(lambda gold: {True: "yes", False: "no"}[gold] if isinstance(gold, bool) else gold)
]


_QUESTION = fields(
    id=str,
    question=str,
    golden_answers=Annotated[tuple[Gold, ...], Field(min_length=1)],
    metadata=(dict[str, JsonValue] | None, None),
)
"""A question in the common form. Golden answers may be true and false, for yes and no."""


def read_questions(path: Path, split: str | None = None) -> list[Example]:
    """Questions in the common form, of one split if given.

    Raises DataError naming the line of a question without a golden answer or with a field of the wrong type.
    """
    examples = []
    for _, item in read_values(path, _QUESTION):
        about = item.metadata or {}
        if split is None or about.get("split") == split:
            golds = item.golden_answers
            examples.append(Example(id=item.id, question=item.question, golden_answers=golds, metadata=about))
    if not examples:
        raise DataError(f"has no questions of the split {split}" if split else "has no questions", path=path)
    return examples


_BRACKETED = re.compile(r"^(?P<name>.*\S)\s*\((?:or\s++(?=[^()]))?+(?P<other>[^()]+)\)$")


def split_alternatives(examples: list[Example]) -> list[Example]:
    """Make BamTwoogle's alternatives in brackets aliases, as in "Detroit Red Wings (or Red Wings)"."""
    changed = []
    for example in examples:
        golds: list[str] = []
        for gold in example.golden_answers:
            parts = _BRACKETED.match(gold)
            golds += [gold, parts["name"], parts["other"]] if parts else [gold]
        changed.append(example.model_copy(update={"golden_answers": tuple(golds)}))
    return changed


def of_the_subject(examples: list[Example]) -> list[Example]:
    """Leave PopQA's questions the subject's passage alone, because the object's cannot be found without the answer."""
    return [
        example.model_copy(update={"metadata": {**example.metadata, "gold_ids": ids[:1]}})
        if isinstance(ids := example.metadata.get("gold_ids"), list)
        else example
        for example in examples
    ]


def merge_wordings(examples: list[Example]) -> list[Example]:
    """Merge PopQA's questions about namesakes, which have the same words and may mean either."""
    merged: dict[str, Example] = {}
    for example in examples:
        first = merged.get(example.question)
        if first is None:
            merged[example.question] = example
            continue
        golds = dict.fromkeys((*first.golden_answers, *example.golden_answers))
        update = {"golden_answers": tuple(golds), "metadata": {**first.metadata, "ambiguous": True}}
        merged[example.question] = first.model_copy(update=update)
    return list(merged.values())


FLASHRAG = "RUC-NLPIR/FlashRAG_datasets"


def hub_file(file: str) -> Path:
    """The local copy of a file of FlashRAG's collection, downloaded on first use. Raises DataError if it cannot be."""
    path = cache_dir() / "data" / FLASHRAG / file
    try:
        download(f"datasets/{FLASHRAG}", file, path, begins=b"{")
    except PullError as error:
        raise DataError(f"{error}; {WHERE}, or try again later") from error
    return path


YES_NO_FORM = replace(
    PHRASE,
    instruction="End with a last line that is either 'Answer: yes' or 'Answer: no'.",
    bare="Answer yes or no, and nothing else.",
)
NO_RETRIEVAL = Score(value=None, why="nothing was retrieved")
ABSTAINED = "abstained"
_MATCHES = {"exact match": exact_match, "cover-EM": cover_exact_match, "token F1": token_f1}


def gold_ids(example: Example) -> tuple[str, ...] | str:
    """The reliable gold passages of an example, by id, or the reason why there are none."""
    if example.metadata.get("gold_titles_from") == "derived_incomplete":
        return "the gold passages of this question are known only in part"
    ids = example.metadata.get("gold_ids")
    if not isinstance(ids, list) or not ids:
        return "the gold passages of this question are not known"
    return tuple(str(each) for each in ids)


@dataclass(frozen=True)
class QuestionAnswering(Loaded):
    """A loaded question-answering task. shots: original questions.

    prefixed: whether the ids of the gold passages' corpus begin alike, with the d of d-7.
    """

    form: AnswerForm = PHRASE
    prefixed: bool = True
    metrics: tuple[str, ...] = (*_MATCHES, "hit", "gold recall", ABSTAINED)

    async def score(self, example: Example, trajectory: Trajectory, sandbox: Sandbox | None) -> Mapping[str, Score]:
        """Score the answer phrase and the retrievals."""
        golds, matches = example.golden_answers, dict.fromkeys(_MATCHES, NO_ANSWER)
        if trajectory.answer is not None:
            phrase = self.form.extract(trajectory.answer.text)
            matches = {name: Score(value=match(phrase, golds)) for name, match in _MATCHES.items()}
        steps = retrieve_steps(trajectory)
        value = hit(golds, shown_texts(trajectory)) if steps else None
        why = "" if value is not None else "the answer is no phrase that a passage could hold"
        return {
            **matches,
            "hit": Score(value=value, why=why) if steps else NO_RETRIEVAL,
            "gold recall": self.recall(example, steps),
            ABSTAINED: _abstained(trajectory),
        }

    def recall(self, example: Example, steps: Sequence[RetrieveStep]) -> Score:
        """The share of the gold passages that was retrieved."""
        gold = gold_ids(example)
        if isinstance(gold, str):
            return Score(value=None, why=gold)
        if not steps:
            return NO_RETRIEVAL
        passages, begin = retrieved_passages(steps), gold[0].rpartition("-")[0] if self.prefixed else ""
        if passages and not any(passage.id.startswith(begin) for passage in passages):
            return Score(value=None, why="another corpus was searched than the one that the gold passages are from")
        return Score(value=gold_recall(gold, [document_id(passage.id, gold) for passage in passages]))


@dataclass(frozen=True)
class YesNo(Loaded):
    """A task whose answers are yes or no."""

    form: AnswerForm = YES_NO_FORM

    async def score(self, example: Example, trajectory: Trajectory, sandbox: Sandbox | None) -> Mapping[str, Score]:
        """Accuracy; an answer that is neither yes nor no is wrong."""
        if trajectory.answer is None:
            return {"accuracy": NO_ANSWER}
        answer = yes_or_no(self.form.extract(trajectory.answer.text))
        if answer is None:
            return {"accuracy": Score(value=0.0, why="the answer is neither yes nor no")}
        return {"accuracy": Score(value=float(answer == yes_or_no(example.golden_answers[0])))}


@dataclass(frozen=True)
class Unanswerable(QuestionAnswering):
    """A task whose gold passages are taken away, so that the right answer is that the passages do not say.

    Only questions whose gold passages are known are taken. A method that knows the answer by heart is wrong too: it
    answers what its documents do not say.
    """

    metrics: tuple[str, ...] = (ABSTAINED,)

    def examples(self) -> Sequence[Example]:
        """The questions whose gold passages are known."""
        return [example for example in self.loaded if not isinstance(gold_ids(example), str)]

    def hidden(self, example: Example) -> frozenset[str]:
        """The gold passages."""
        return frozenset(gold_ids(example))

    async def score(self, example: Example, trajectory: Trajectory, sandbox: Sandbox | None) -> Mapping[str, Score]:
        """Whether the method said that the passages do not hold the answer."""
        return {ABSTAINED: _abstained(trajectory)}


def _abstained(trajectory: Trajectory) -> Score:
    return NO_ANSWER if trajectory.answer is None else Score(value=float(abstains(trajectory.answer.text)))


def yes_or_no(phrase: str) -> str | None:
    """The one of yes and no that a phrase begins with; true and false count as them."""
    first, *_ = normalise(phrase).split() or [""]
    return {"yes": "yes", "true": "yes", "no": "no", "false": "no"}.get(first)


MULTI_HOP = demonstrations("multi_hop")
SINGLE_HOP = demonstrations("single_hop")
YES_NO = demonstrations("yes_no")


@dataclass(frozen=True)
class Dataset:
    """Where a task's questions are, and their special cases.

    file: below the data root. split: the metadata's, where a file holds several. corpus: a file beside it. hub: the
    file in FlashRAG's collection; None where it holds none or another split. repair: what is to be changed in the
    questions. training: the part of the questions that the hash of `questions` makes; None where they are not divided.
    """

    file: str
    primary: str
    shots: tuple[Demonstration, ...]
    split: str | None = None
    corpus: str | None = None
    hub: str | None = None
    repair: Callable[[list[Example]], list[Example]] = list
    training: bool | None = None
    task: type[QuestionAnswering | YesNo] = QuestionAnswering

    def load(self, root: Path, name: str) -> Task:
        """The task of this name from the data root, which may be the hub."""
        folder, _, file = self.file.partition("/")
        if is_hub(root) and self.hub is not None:
            examples, corpus = read_questions(hub_file(self.hub)), None
        else:
            examples = read_questions(data_path(root, folder, file), self.split)
            corpus = data_path(root, folder, self.corpus) if self.corpus else None
        examples = self.repair(examples)
        if self.training is not None:
            examples = part(examples, training=self.training)
        return self.task(name, self.primary, tuple(examples), self.shots, corpus)


_multi_hop = partial(Dataset, primary="token F1", shots=MULTI_HOP, corpus="corpus.jsonl")
_single_hop = partial(Dataset, primary="exact match", shots=SINGLE_HOP)
_hotpotqa = partial(_multi_hop, "hotpotqa/questions.jsonl")
_popqa = partial(_single_hop, primary="cover-EM", training=False)
_strategyqa = partial(Dataset, primary="accuracy", shots=YES_NO, task=YesNo)
"""The authors' split of the public questions; the hub has these undivided, dev and train together."""

DATASETS = {
    "2wikimultihopqa": _multi_hop("2wikimultihopqa/questions.jsonl", hub="2wikimultihopqa/dev.jsonl"),
    "2wikimultihopqa_train": _multi_hop("2wikimultihopqa/train.jsonl", hub="2wikimultihopqa/train.jsonl"),
    "ambignq": _single_hop("ambignq/dev_disambiguated.jsonl"),
    "bamboogle": _multi_hop("bamboogle/questions.jsonl", primary="cover-EM", corpus=None, hub="bamboogle/test.jsonl"),
    "bamtwoogle": _multi_hop("bamtwoogle/questions.jsonl", primary="cover-EM", corpus=None, repair=split_alternatives),
    "hotpotqa": _hotpotqa(split="dev", hub="hotpotqa/dev.jsonl"),
    "hotpotqa_train": _hotpotqa(split="train", hub="hotpotqa/train.jsonl"),
    "hotpotqa_short_train": _multi_hop("hotpotqa_short/train.jsonl"),
    "ircot_chains_train": _multi_hop("ircot_chains/train.jsonl"),
    "musique": _multi_hop("musique/questions.jsonl", hub="musique/dev.jsonl"),
    "musique_train": _multi_hop("musique/train.jsonl", hub="musique/train.jsonl"),
    "nq_open": _single_hop("nq_open/oracle_questions.jsonl", corpus="oracle_corpus.jsonl", hub="nq/test.jsonl"),
    "nq_open_dev": _single_hop("nq_open/dev.jsonl", hub="nq/dev.jsonl"),
    "nq_open_test": _single_hop("nq_open/test.jsonl", hub="nq/test.jsonl"),
    "nq_open_train": _single_hop("nq_open/train.jsonl", hub="nq/train.jsonl"),
    "popqa": _popqa("popqa/questions_with_passages.jsonl", corpus="corpus.jsonl", repair=of_the_subject),
    "popqa_all": _popqa("popqa/questions_all.jsonl", hub="popqa/test.jsonl", repair=merge_wordings),
    "strategyqa": _strategyqa("strategyqa/dev.jsonl"),
    "strategyqa_facts_train": _strategyqa("strategyqa_facts/train.jsonl", corpus="corpus.jsonl"),
    "strategyqa_train": _strategyqa("strategyqa/train.jsonl"),
    "triviaqa": _single_hop("triviaqa/test.jsonl", hub="triviaqa/test.jsonl"),
    "triviaqa_dev": _single_hop("triviaqa/dev.jsonl", hub="triviaqa/dev.jsonl"),
    "triviaqa_train": _single_hop("triviaqa/train.jsonl", hub="triviaqa/train.jsonl"),
}
# Parts of questions, and questions made of what a set knows, to train readers on.
DATASETS |= {
    f"{name}_{kind}_train": _multi_hop(f"{name}/{file}.jsonl")
    for name, kind, file in (
        ("musique", "single", "single_hop"),
        ("2wikimultihopqa", "single", "single_hop"),
        ("2wikimultihopqa", "derived", "derived"),
        ("2wikimultihopqa", "mined", "mined"),
    )
}
DATASETS |= {f"{name}_train": replace(DATASETS[name], training=True) for name in ("popqa", "popqa_all")}
# The hub's files do not name the gold passages.
DATASETS |= {
    f"{name}_unanswerable": replace(DATASETS[name], task=Unanswerable, primary=ABSTAINED, hub=None)
    for name in ("2wikimultihopqa", "hotpotqa", "popqa")
}

TASKS: dict[str, Callable[[Path], Task]] = {
    name: partial(dataset.load, name=name) for name, dataset in DATASETS.items()
}
