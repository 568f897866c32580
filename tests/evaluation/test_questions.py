"""Questions by id, by number, by position, and the papers' subsets."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reground.core.errors import ConfigurationError, DataError
from reground.evaluation.questions import SHARE, SUBSETS, for_training, is_training, number_of, part, select
from reground.evaluation.runner import EvalSettings, choose, configuration
from reground.evaluation.task import Example
from reground.evaluation.tasks import load_task, load_training_task, task_names
from tests.data import need_data
from tests.evaluation.fakes import SumTask
from tests.evaluation.test_code import mbpp_record, write
from tests.evaluation.trajectories import write_jsonl

EXAMPLES = [Example(id=f"T/{number}", question=str(number)) for number in (2, 3, 4, 7, 11)]


def ids(wanted: str, task: str = "t") -> list[str]:
    return [example.id for example in select(task, EXAMPLES, wanted)]


@pytest.mark.parametrize(
    ("wanted", "found"),
    [
        ("T/7", ["T/7"]), ("T/7, T/2,T/7", ["T/2", "T/7"]), ("3-7", ["T/3", "T/4", "T/7"]), ("1:2", ["T/2", "T/3"]),
        ("5:5,T/2", ["T/2", "T/11"]), ("11-11,2-3", ["T/2", "T/3", "T/11"]),
    ],
)  # fmt: skip
def test_a_selection_is_ids_numbers_and_positions(wanted: str, found: list[str]) -> None:
    assert ids(wanted) == found


@pytest.mark.parametrize(
    ("wanted", "why"),
    [
        ("T/8", r"t has no question with the id 'T/8'; did you mean"),
        ("nowhere", r"no question with the id 'nowhere'; ids look like T/2"),
        ("20-30", r"--ids 20-30: t has no such questions; it has 5, and ids look like T/2"),
        ("7-3", r"t has no such questions"),
        ("1:6", r"--ids 1:6: t has no such questions; it has 5"),
        (" , ", r"names no question"),
    ],
)
def test_what_chooses_nothing_is_named(wanted: str, why: str) -> None:
    with pytest.raises(ConfigurationError, match=why):
        ids(wanted)


@pytest.mark.parametrize(
    ("identity", "number"),
    [("HumanEval/32", 32), ("gsm8k-test-0007", 7), ("ClassEval_12/f_2", 12), ("11", 11), ("5a8b57f25542", None)],
)
def test_the_number_of_an_id_stands_alone(identity: str, number: int | None) -> None:
    assert number_of(identity) == number


def test_a_run_takes_the_chosen_questions_and_keeps_their_ids() -> None:
    settings = EvalSettings(method="m", model="m", ids="q1,q3,q4", limit=2)
    drawn = {example.id for example in choose(SumTask(5), settings)}
    assert len(drawn) == 2 and drawn < {"q1", "q3", "q4"}
    assert configuration(SumTask(5), settings).ids == ("q1", "q3", "q4")
    assert configuration(SumTask(5), EvalSettings(method="m", model="m")).ids is None


@pytest.mark.parametrize(
    ("name", "file", "size", "first", "last"),
    [
        ("mbpp", "mbpp/mbpp.jsonl", 165, "11", "175"),
        ("mbpp_plus", "mbpp/MbppPlus-OriginFmt.jsonl", 164, "2", "311"),
        ("gsm8k", "gsm8k/test.jsonl", 200, "gsm8k-test-0000", "gsm8k-test-0199"),
        ("gsm_hard", "gsm_hard/gsmhardv2.jsonl", 200, "gsm-hard-0000", "gsm-hard-0199"),
    ],
)
def test_the_papers_subsets_on_the_real_data(name: str, file: str, size: int, first: str, last: str) -> None:
    examples = load_task(name, need_data(*file.split("/")).parent.parent).examples()
    found = select(name, examples, "paper")
    assert (len(found), found[0].id, found[-1].id) == (size, first, last)


def test_every_subset_belongs_to_a_task_and_is_documented() -> None:
    page = (Path(__file__).parents[2] / "docs" / "reference" / "tasks.md").read_text(encoding="utf-8")
    assert set(SUBSETS) <= set(task_names())
    for name, subsets in SUBSETS.items():
        for subset, spec in subsets.items():
            assert f"| `{name}` | `{subset}` | `{spec}` |" in page, json.dumps([name, subset, spec])


QUESTIONS = st.lists(
    st.builds(Example, id=st.uuids().map(str), question=st.text(min_size=1)), unique_by=lambda example: example.id
)


@given(QUESTIONS)
def test_every_question_is_in_exactly_one_part(examples: list[Example]) -> None:
    train, measured = part(examples, training=True), part(examples, training=False)
    assert not {example.id for example in train} & {example.id for example in measured}
    assert not {example.question for example in train} & {example.question for example in measured}
    assert sorted(e.id for e in (*train, *measured)) == sorted(e.id for e in examples)


@given(st.text(min_size=1), st.sampled_from([" {}", "{}  ", "\n{}\t"]))
def test_the_part_hangs_on_the_wording_alone(question: str, spaced: str) -> None:
    assert for_training(spaced.format(question)) == for_training(question)
    assert for_training(question.upper().casefold()) == for_training(question.upper())


def test_the_division_never_changes() -> None:
    """What was trained with one version is measured with the next: these are pinned."""
    asked = [f"Question {number}?" for number in range(1000)]
    chosen = [number for number, question in enumerate(asked) if for_training(question)]
    assert chosen[:8] == [4, 7, 8, 9, 15, 18, 24, 26]
    assert 0.8 / SHARE < len(chosen) / len(asked) < 1.2 / SHARE


@pytest.mark.parametrize(
    ("task", "instead"),
    [
        ("hotpotqa", "hotpotqa is for measuring: train on hotpotqa_train"),
        ("gsm8k_cot", "gsm8k_cot is for measuring: train on gsm8k_cot_train"),
        ("mbpp_plus", "mbpp_plus is for measuring: train on mbpp_train"),
        ("nq_open_test", "train on nq_open_train"),
        ("popqa_all", "train on popqa_all_train"),
        ("2wikimultihopqa", "2wikimultihopqa is for measuring: train on 2wikimultihopqa_train"),
        ("bamboogle", "bamboogle is for measuring and has no training split: train on one of 2wikimultihopqa_"),
        ("bamtwoogle", "has no training split"),
        ("musique", "musique is for measuring: train on musique_train"),
        ("beir:corpora_train", "beir:corpora_train is for measuring: train on beir_train:DIR"),
        ("bright:corpora_train", "has no training split"),
    ],
)
def test_a_measuring_task_is_refused_and_its_training_split_named(task: str, instead: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match=re.escape(instead)) as refusal:
        load_training_task(task, tmp_path)
    assert "\n" not in str(refusal.value)


def test_mbpps_training_split_has_nothing_of_the_plus_set_nor_a_repeated_wording(tmp_path: Path) -> None:
    texts = {11: "Double it.", 700: "Halve it.", 812: "Double it.", 813: "Negate it.", 974: "Halve it."}
    root = write(tmp_path, "mbpp/mbpp.jsonl", *(mbpp_record(number, text=text) for number, text in texts.items()))
    assert [example.id for example in load_task("mbpp_train", root).examples()] == ["813"]


@given(st.lists(st.sampled_from(["train", "test", "dev"]), min_size=1, max_size=12))
def test_a_folders_training_queries_are_judged_in_no_other_file(
    tmp_path_factory: pytest.TempPathFactory, files: list[str]
) -> None:
    """Query q0 is judged in the training file and in the first file drawn, q1 in the second alone, and so on."""
    root = tmp_path_factory.mktemp("beir")
    (root / "qrels").mkdir()
    judged: dict[str, list[str]] = {"train": ["q0", "own"], "test": ["t"], "dev": []}
    for number, file in enumerate(files):
        judged[file].append(f"q{number}")
    queries = sorted({query for found in judged.values() for query in found})
    write_jsonl(root / "queries.jsonl", [{"_id": query, "text": query} for query in queries])
    write_jsonl(root / "corpus.jsonl", [{"_id": "d", "text": "x"}])
    for file, found in judged.items():
        lines = "".join(f"{query}\td\t1\n" for query in dict.fromkeys(found))
        (root / "qrels" / f"{file}.tsv").write_text("query-id\tcorpus-id\tscore\n" + lines)
    trained = {example.id for example in load_training_task(f"beir_train:{root}", root).examples()}
    assert "own" in trained
    assert not trained & {*judged["test"], *judged["dev"]}
    assert not trained & {example.id for example in load_task(f"beir:{root}", root).examples()}


def pairs() -> Iterator[tuple[str, str]]:
    names = task_names()
    for training in filter(is_training, names):
        family = training.removesuffix("_train").split("_")[0]
        yield from ((training, name) for name in names if name.startswith(family) and not is_training(name))


@pytest.mark.parametrize(("training", "measured"), list(pairs()))
def test_the_real_splits_of_a_dataset_share_no_question(training: str, measured: str) -> None:
    root = need_data("hotpotqa").parent
    try:
        parts = [load_task(name, root).examples() for name in (training, measured)]
    except DataError as absent:
        pytest.skip(str(absent))
    wordings = [{" ".join(e.question.casefold().split()) for e in examples} for examples in parts]
    assert not wordings[0] & wordings[1]
    assert not {e.id for e in parts[0]} & {e.id for e in parts[1]}
