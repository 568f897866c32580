"""A small valid file for every reader of benchmark questions."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

from reground.evaluation.tasks import folder_schemes, task_names

_QUESTION = {
    "id": "q1",
    "question": "Which is longer?",
    "golden_answers": ["the Danube"],
    "metadata": {"level": "easy"},
}
_GOLD = {**_QUESTION, "metadata": {"split": "dev", "gold_ids": ["q-1"], "subj_id": 3, "type": "x"}}
_TRAIN = {**_QUESTION, "id": "q2", "metadata": {"split": "train"}}
_PASSAGE = {"id": "q-1", "title": "Danube", "text": "The Danube is 2850 km long."}
_CHOICE = {"id": "c1", "question": "Which?", "options": ["(A) one", "(B) two"], "label": "B", "passage": None}
_FUNCTION = "def twice(x):\n    return 2 * x\n"
_CLASS = "class Pair:\n    def first(self):\n        return 1\n\n    def second(self):\n        return 2\n"
_TEST = (
    "import unittest\n\nclass PairTestFirst(unittest.TestCase):\n"
    "    def test_1(self):\n        self.assertEqual(Pair().first(), 1)\n"
)
_MINE = {"result": "ladder", "count": 3, "type": "craft", "ingredients": {"stick": 7}, "pattern": [["stick"] * 3] * 2}

FILES: dict[str, list[dict[str, Any]]] = {
    "hotpotqa/questions.jsonl": [_GOLD, _TRAIN],
    "hotpotqa/corpus.jsonl": [_PASSAGE],
    "2wikimultihopqa/questions.jsonl": [_GOLD],
    "2wikimultihopqa/train.jsonl": [_QUESTION],
    "2wikimultihopqa/corpus.jsonl": [_PASSAGE],
    "ambignq/dev_disambiguated.jsonl": [_QUESTION],
    "bamboogle/questions.jsonl": [_QUESTION],
    "bamtwoogle/questions.jsonl": [{**_QUESTION, "golden_answers": ["Detroit Red Wings (or Red Wings)"]}],
    "musique/questions.jsonl": [_GOLD],
    "musique/corpus.jsonl": [_PASSAGE],
    "nq_open/oracle_questions.jsonl": [_GOLD],
    "nq_open/oracle_corpus.jsonl": [_PASSAGE],
    "nq_open/dev.jsonl": [_QUESTION],
    "nq_open/test.jsonl": [_QUESTION],
    "nq_open/train.jsonl": [_QUESTION],
    "popqa/questions_with_passages.jsonl": [{**_GOLD, "id": f"q{i}", "question": f"Which, {i}?"} for i in range(12)],
    "popqa/questions_all.jsonl": [{**_QUESTION, "id": f"q{i}", "question": f"Which, {i}?"} for i in range(12)],
    "popqa/corpus.jsonl": [_PASSAGE],
    "strategyqa/dev.jsonl": [{**_QUESTION, "golden_answers": [True]}],
    "strategyqa/train.jsonl": [{**_QUESTION, "golden_answers": [False]}],
    "triviaqa/test.jsonl": [_QUESTION],
    "triviaqa/dev.jsonl": [_QUESTION],
    "triviaqa/train.jsonl": [_QUESTION],
    **{
        f"agieval/{name}.jsonl": [_CHOICE]
        for name in (
            *(f"gaokao-{s}" for s in ("biology", "chemistry", "chinese", "english", "geography", "history")),
            *("gaokao-mathqa", "gaokao-physics", "jec-qa-ca", "jec-qa-kd"),
        )
    },
    **{
        f"mmlu/{name}.jsonl": [
            {"id": f"{name}-{s}", "subject": s, "question": f"Which {name}?", "choices": ["1", "2"], "answer": "B"}
            for s in ("anatomy", "philosophy", "sociology", "astronomy")
        ]
        for name in ("test", "dev")
    },
    **{
        f"gsm8k/{name}.jsonl": [{"id": "g1", "question": "1 + 1?", "final": "2", "answer": "1 + 1 = 2 #### 2"}]
        for name in ("test", "train")
    },
    "gsm_hard/gsmhardv2.jsonl": [{"input": "1 + 1?", "code": "def solution():\n    return 2", "target": 2.0}],
    "humaneval/HumanEval.jsonl": [
        {
            "task_id": "HumanEval/0",
            "prompt": 'def twice(x):\n    """Double."""\n',
            "entry_point": "twice",
            "canonical_solution": "    return 2 * x\n",
            "test": "def check(candidate):\n    assert candidate(2) == 4\n",
        }
    ],
    "mbpp/mbpp.jsonl": [
        {
            "task_id": n,
            "text": f"Double {n}.",
            "code": _FUNCTION,
            "test_list": ["assert twice(2) == 4"],
            "test_setup_code": "",
        }
        for n in (11, 12, 811, 812)
    ],
    "mbpp/MbppPlus-OriginFmt.jsonl": [
        {
            "task_id": 2,
            "prompt": "Double.",
            "code": _FUNCTION,
            "test_imports": ["import math"],
            "test_list": ["assert twice(2) == 4"],
            "test": "assert twice(3) == 6",
        }
    ],
    "classeval/ClassEval_data.jsonl": [
        {
            "task_id": "ClassEval_0",
            "skeleton": "class Pair:\n    def first(self):\n        pass\n",
            "test": _TEST,
            "solution_code": _CLASS,
            "import_statement": ["import math"],
            "class_name": "Pair",
            "methods_info": [{"method_name": "first", "test_code": _TEST}, {"method_name": "second", "test_code": ""}],
        }
    ],
    "theoremqa/test.jsonl": [
        {
            "id": str(i),
            "question": "Which?",
            "answer": answer,
            "answer_type": kind,
            "has_picture": False,
            "field": "Math",
        }
        for i, (answer, kind) in enumerate(
            ((True, "bool"), (3, "integer"), (0.5, "float"), ([1, 2], "list of integer"), ("(a)", "option"))
        )
    ],
    "usaco/problems.jsonl": [
        {
            "id": "u1",
            "question": "Add.",
            "level": "bronze",
            "time_limit_s": 2,
            "memory_limit_mib": 256,
            "cases": [{"input": "1 1", "output": "2"}],
            "solution": "print(sum(map(int, input().split())))",
        }
    ],
    "scifact/queries.jsonl": [{"id": "1", "text": "Rivers flow."}],
    "scifact/qrels.jsonl": [{"query_id": "1", "doc_id": "d1", "score": 1, "split": "test"}],
    "scifact/corpus.jsonl": [{"_id": "d1", "title": "t", "text": "Rivers flow."}],
    "minecraft/recipes_1.16.5.jsonl": [
        _MINE,
        {
            "result": "stick",
            "count": 4,
            "type": "craft",
            "ingredients": {"oak_planks": 2},
            "needs_crafting_table": False,
        },
        {"result": "oak_planks", "count": 4, "type": "craft", "ingredients": {"oak_log": 1}},
        {"result": "crafting_table", "count": 1, "type": "craft", "ingredients": {"oak_planks": 4}},
    ],
    "minecraft/items_1.16.5.jsonl": [
        {"name": name, "displayName": name.title()}
        for name in ("ladder", "stick", "oak_planks", "oak_log", "crafting_table")
    ],
    "own/queries.jsonl": [{"_id": "1", "text": "Rivers flow."}, {"_id": "2", "text": "Seas do not."}],
    "own/corpus.jsonl": [{"_id": "d1", "title": "t", "text": "Rivers flow."}],
    "bright/examples.jsonl": [
        {"id": "1", "query": "Rivers?", "gold_ids": ["d1"], "excluded_ids": ["N/A"], "reasoning": "x"}
    ],
    "bright/documents.jsonl": [{"id": "d1", "content": "Rivers flow."}],
    "asked/questions.jsonl": [{"question": "Do rivers flow?"}],
    "answered/questions.jsonl": [{"question": "Do rivers flow?", "answers": ["yes"], "passages": ["d1"]}],
}

PLAIN = {
    "own/qrels/test.tsv": "query-id\tcorpus-id\tscore\n1\td1\t1\n",
    "own/qrels/train.tsv": "query-id\tcorpus-id\tscore\n2\td1\t1\n",
}
PACKED = {"humaneval/HumanEvalPlus-OriginFmt.jsonl.gz": "humaneval/HumanEval.jsonl"}


def write(root: Path, only: str = "") -> None:
    """All the valid files, or those of one folder."""
    for name, records in FILES.items():
        if name.startswith(only):
            _put(root / name, b"".join(json.dumps(record).encode() + b"\n" for record in records))
    for name, text in PLAIN.items():
        if name.startswith(only):
            _put(root / name, text.encode())
    for name, same in PACKED.items():
        if name.startswith(only):
            _put(root / name, gzip.compress((root / same).read_bytes()))


def _put(path: Path, content: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)


def names(root: Path) -> list[str]:
    """Every task, and the folders of one's own."""
    own = {"beir": root / "own", "beir_train": root / "own", "bright": root / "bright"}
    own["questions_train"] = root / "asked" / "questions.jsonl"
    own["questions"] = root / "answered" / "questions.jsonl"
    return [*task_names(), *(f"{scheme}:{own.get(scheme, root / 'own')}" for scheme in folder_schemes())]
