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
_PASSAGE = {"id": "q-1", "title": "Danube", "text": "The Danube is 2850 km long."}
_CHOICE = {"id": "c1", "question": "Which?", "options": ["(A) one", "(B) two"], "label": "B", "passage": None}
_EXAMS = ("biology", "chemistry", "chinese", "english", "geography", "history", "mathqa", "physics")
_SUM = {"id": "g1", "question": "1 + 1?", "final": "2", "answer": "1 + 1 = 2 #### 2"}
_TWICE = {"code": "def twice(x):\n    return 2 * x\n", "test_list": ["assert twice(2) == 4"]}
_CLASS = "class Pair:\n    def first(self):\n        return 1\n\n    def second(self):\n        return 2\n"
_TEST = (
    "import unittest\n\nclass PairTestFirst(unittest.TestCase):\n"
    "    def test_1(self):\n        self.assertEqual(Pair().first(), 1)\n"
)
_FUNCTION = {
    "task_id": "HumanEval/0",
    "prompt": 'def twice(x):\n    """Double."""\n',
    "entry_point": "twice",
    "canonical_solution": "    return 2 * x\n",
    "test": "def check(candidate):\n    assert candidate(2) == 4\n",
}
_CLASSES = {
    "task_id": "ClassEval_0",
    "skeleton": "class Pair:\n    def first(self):\n        pass\n",
    "test": _TEST,
    "solution_code": _CLASS,
    "import_statement": ["import math"],
    "class_name": "Pair",
    "methods_info": [{"method_name": "first", "test_code": _TEST}, {"method_name": "second", "test_code": ""}],
}
_THEOREM = {"question": "Which?", "has_picture": False, "field": "Math"}
_TYPED = ((True, "bool"), (3, "integer"), (0.5, "float"), ([1, 2], "list of integer"), ("(a)", "option"))
_ADD = "print(sum(map(int, input().split())))"
_LADDER = {"result": "ladder", "count": 3, "type": "craft", "ingredients": {"stick": 7}, "pattern": [["stick"] * 3] * 2}
_STICK = {
    "result": "stick",
    "count": 4,
    "type": "craft",
    "ingredients": {"oak_planks": 2},
    "needs_crafting_table": False,
}
_PLANKS = {"result": "oak_planks", "count": 4, "type": "craft", "ingredients": {"oak_log": 1}}
_TABLE = {"result": "crafting_table", "count": 1, "type": "craft", "ingredients": {"oak_planks": 4}}

FILES: dict[str, list[dict[str, Any]]] = {
    "hotpotqa/questions.jsonl": [_GOLD, {**_QUESTION, "id": "q2", "metadata": {"split": "train"}}],
    **{f"{name}/questions.jsonl": [_GOLD] for name in ("2wikimultihopqa", "musique")},
    **{f"{name}/corpus.jsonl": [_PASSAGE] for name in ("hotpotqa", "2wikimultihopqa", "musique", "popqa")},
    **{f"{name}/corpus.jsonl": [_PASSAGE] for name in ("hotpotqa_short", "ircot_chains", "strategyqa_facts")},
    **{f"2wikimultihopqa/{name}.jsonl": [_QUESTION] for name in ("train", "single_hop", "derived", "mined")},
    **{f"musique/{name}.jsonl": [_QUESTION] for name in ("train", "single_hop")},
    **{f"{name}/train.jsonl": [_QUESTION] for name in ("hotpotqa_short", "ircot_chains")},
    "strategyqa_facts/train.jsonl": [{**_QUESTION, "golden_answers": [False]}],
    "ambignq/dev_disambiguated.jsonl": [_QUESTION],
    "bamboogle/questions.jsonl": [_QUESTION],
    "bamtwoogle/questions.jsonl": [{**_QUESTION, "golden_answers": ["Detroit Red Wings (or Red Wings)"]}],
    "nq_open/oracle_questions.jsonl": [_GOLD],
    "nq_open/oracle_corpus.jsonl": [_PASSAGE],
    **{f"{name}/{part}.jsonl": [_QUESTION] for name in ("nq_open", "triviaqa") for part in ("dev", "test", "train")},
    "popqa/questions_with_passages.jsonl": [{**_GOLD, "id": f"q{i}", "question": f"Which, {i}?"} for i in range(12)],
    "popqa/questions_all.jsonl": [{**_QUESTION, "id": f"q{i}", "question": f"Which, {i}?"} for i in range(12)],
    "strategyqa/dev.jsonl": [{**_QUESTION, "golden_answers": [True]}],
    "strategyqa/train.jsonl": [{**_QUESTION, "golden_answers": [False]}],
    **{f"agieval/{name}.jsonl": [_CHOICE] for name in ("jec-qa-ca", "jec-qa-kd", *map("gaokao-{}".format, _EXAMS))},
    **{
        f"mmlu/{name}.jsonl": [
            {"id": f"{name}-{s}", "subject": s, "question": f"Which {name}?", "choices": ["1", "2"], "answer": "B"}
            for s in ("anatomy", "philosophy", "sociology", "astronomy")
        ]
        for name in ("test", "dev")
    },
    **{f"gsm8k/{name}.jsonl": [_SUM] for name in ("test", "train")},
    "gsm_hard/gsmhardv2.jsonl": [{"input": "1 + 1?", "code": "def solution():\n    return 2", "target": 2.0}],
    "humaneval/HumanEval.jsonl": [_FUNCTION],
    "mbpp/mbpp.jsonl": [{"task_id": n, "text": f"Double {n}.", **_TWICE, "test_setup_code": ""} for n in (11, 12, 811)],
    "mbpp/MbppPlus-OriginFmt.jsonl": [
        {"task_id": 2, "prompt": "Double.", **_TWICE, "test_imports": ["import math"], "test": "assert twice(3) == 6"}
    ],
    "classeval/ClassEval_data.jsonl": [_CLASSES],
    "theoremqa/test.jsonl": [
        {"id": str(i), "answer": answer, "answer_type": kind, **_THEOREM} for i, (answer, kind) in enumerate(_TYPED)
    ],
    "usaco/problems.jsonl": [
        {"id": "u1", "question": "Add.", "level": "bronze", "time_limit_s": 2, "memory_limit_mib": 256}
        | {"cases": [{"input": "1 1", "output": "2"}], "solution": _ADD}
    ],
    "scifact/queries.jsonl": [{"id": "1", "text": "Rivers flow."}],
    "scifact/qrels.jsonl": [{"query_id": "1", "doc_id": "d1", "score": 1, "split": "test"}],
    **{f"{name}/corpus.jsonl": [{"_id": "d1", "title": "t", "text": "Rivers flow."}] for name in ("scifact", "own")},
    "minecraft/recipes_1.16.5.jsonl": [_LADDER, _STICK, _PLANKS, _TABLE],
    "minecraft/items_1.16.5.jsonl": [
        {"name": name, "displayName": name.title()}
        for name in ("ladder", "stick", "oak_planks", "oak_log", "crafting_table")
    ],
    "own/queries.jsonl": [{"_id": "1", "text": "Rivers flow."}, {"_id": "2", "text": "Seas do not."}],
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
    contents = {name: b"".join(json.dumps(each).encode() + b"\n" for each in lines) for name, lines in FILES.items()}
    contents |= {name: text.encode() for name, text in PLAIN.items()}
    contents |= {name: gzip.compress(contents[same]) for name, same in PACKED.items()}
    for name, content in contents.items():
        if name.startswith(only):
            (root / name).parent.mkdir(parents=True, exist_ok=True)
            (root / name).write_bytes(content)


def names(root: Path) -> list[str]:
    """Every task, and the folders of one's own."""
    own = {"beir": root / "own", "beir_train": root / "own", "bright": root / "bright"}
    own["questions_train"] = root / "asked" / "questions.jsonl"
    own["questions"] = root / "answered" / "questions.jsonl"
    return [*task_names(), *(f"{scheme}:{own.get(scheme, root / 'own')}" for scheme in folder_schemes())]
