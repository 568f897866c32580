"""Multiple choice with one right option or several: MMLU by its four groups, AGIEval's gaokao subjects, JEC-QA.

Metrics: exact match of the set of chosen options (accuracy, where one option is right) and option F1.
Results are grouped by `metadata["group"]`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Annotated

from pydantic import Field, JsonValue

from reground.core.answers import CHOICE, AnswerForm, Demonstration
from reground.core.errors import DataError
from reground.core.programs import Sandbox
from reground.core.trajectory import Trajectory
from reground.evaluation.data import data_path, demonstrations, fields, read_values
from reground.evaluation.metrics.text import option_exact_match, option_f1
from reground.evaluation.task import NO_ANSWER, Example, Loaded, Score, Task

_SUBJECTS = {
    "STEM": """
        abstract_algebra astronomy college_biology college_chemistry college_computer_science
        college_mathematics college_physics computer_security conceptual_physics electrical_engineering
        elementary_mathematics high_school_biology high_school_chemistry high_school_computer_science
        high_school_mathematics high_school_physics high_school_statistics machine_learning
    """,
    "humanities": """
        formal_logic high_school_european_history high_school_us_history high_school_world_history
        international_law jurisprudence logical_fallacies moral_disputes moral_scenarios philosophy prehistory
        professional_law world_religions
    """,
    "social sciences": """
        econometrics high_school_geography high_school_government_and_politics high_school_macroeconomics
        high_school_microeconomics high_school_psychology human_sexuality professional_psychology
        public_relations security_studies sociology us_foreign_policy
    """,
    "other": """
        anatomy business_ethics clinical_knowledge college_medicine global_facts human_aging management
        marketing medical_genetics miscellaneous nutrition professional_accounting professional_medicine
        virology
    """,
}
"""The four groups of MMLU's 57 subjects, as its authors divide them (Hendrycks et al. 2021)."""
_GROUP_OF = {subject: group for group, subjects in _SUBJECTS.items() for subject in subjects.split()}

GAOKAO = ("gaokao-history", "gaokao-geography", "gaokao-biology", "gaokao-physics")
JEC_QA = ("jec-qa-kd", "jec-qa-ca")
_SEVERAL_RIGHT = frozenset({"gaokao-physics", "gaokao-mathqa", *JEC_QA})

_ONE = "（只有一个选项正确。）"
_SEVERAL = "（有一个或多个选项正确。）"


@dataclass(frozen=True)
class MultipleChoice(Loaded):
    """A loaded multiple-choice task.

    shots: MMLU's dev questions; for the Chinese sets, original questions.
    """

    form: AnswerForm = CHOICE
    metrics: tuple[str, ...] = ("exact match", "option F1")

    async def score(self, example: Example, trajectory: Trajectory, sandbox: Sandbox | None) -> Mapping[str, Score]:
        """Compare the chosen letters. A question without a right option in the data is unscored."""
        if trajectory.answer is None or not example.golden_answers:
            unscored = NO_ANSWER if example.golden_answers else Score(value=None, why="the data give no right option")
            return dict.fromkeys(self.metrics, unscored)
        options, right = self.form.extract(trajectory.answer.text), example.golden_answers[0]
        why = "" if options else "the answer names no option"
        return {
            "exact match": Score(value=option_exact_match(options, right), why=why),
            "option F1": Score(value=option_f1(options, right), why=why),
        }


def option_lines(options: Sequence[str]) -> str:
    """Options as lines that begin with their letters."""
    return "\n".join(f"{letter}. {option}" for letter, option in zip("ABCDEFGH", options, strict=False))


Options = Annotated[tuple[str, ...], Field(min_length=2, max_length=8)]


_MMLU_LINE = fields(id=str, subject=str, question=str, choices=Options, answer=Annotated[str, Field(pattern="^[A-H]$")])


def _mmlu_file(root: Path, file: str, groups: Sequence[str]) -> list[Example]:
    path = data_path(root, "mmlu", file)
    examples = []
    for line, item in read_values(path, _MMLU_LINE):
        group = _GROUP_OF.get(item.subject)
        if group is None:
            raise DataError(f"MMLU has no subject {item.subject!r}", path=path, line=line)
        if group in groups:
            question = f"{item.question}\n{option_lines(item.choices)}"
            about: dict[str, JsonValue] = {"group": group, "subject": item.subject}
            examples.append(Example(id=item.id, question=question, golden_answers=(item.answer,), metadata=about))
    return examples


def load_mmlu(root: Path, name: str, groups: Sequence[str]) -> Task:
    """MMLU's test questions of some groups. The demonstrations are five dev questions from five subjects.

    Dev questions that are also in the test set are not used.
    """
    loaded = _mmlu_file(root, "test.jsonl", groups)
    tested = {example.question for example in loaded}
    unseen = [example for example in _mmlu_file(root, "dev.jsonl", groups) if example.question not in tested]
    dev = {example.metadata["subject"]: example for example in unseen}
    spread = list(dev.values())[:: max(1, len(dev) // 5)][:5]
    shots = tuple(Demonstration(question=each.question, answer=each.golden_answers[0]) for each in spread)
    return MultipleChoice(name, "exact match", tuple(loaded), shots)


_OWN_LETTER = re.compile(r"^\s*[(（]?[A-H][)）.．、]\s*")


_AGIEVAL_LINE = fields(
    id=str, passage=(str | None, None), question=str, options=Options, label=str | tuple[str, ...] | None
)


def letters_of(label: str | Sequence[str] | None) -> str:
    """The right options of a label, which is one letter, several in a text, or a list; "" for none."""
    return "".join(sorted(set(re.findall("[A-H]", " ".join(label or "")))))


def load_agieval(root: Path, name: str, groups: Sequence[str]) -> Task:
    """The questions of some of AGIEval's files."""
    loaded = []
    for group in groups:
        hint = _SEVERAL if group in _SEVERAL_RIGHT else _ONE
        for _, item in read_values(data_path(root, "agieval", f"{group}.jsonl"), _AGIEVAL_LINE):
            right = letters_of(item.label)
            options = option_lines([_OWN_LETTER.sub("", option) for option in item.options])
            parts = [*([item.passage] if item.passage else []), item.question.strip(), options, hint]
            example = Example(
                id=item.id,
                question="\n".join(parts),
                golden_answers=(right,) if right else (),
                metadata={"group": group, "right_options": len(right)},
            )
            loaded.append(example)
    shots = (
        shot.model_copy(update={"question": f"{shot.question}\n{_SEVERAL if len(shot.answer) > 1 else _ONE}"})
        for shot in demonstrations("chinese_choice")
    )
    return MultipleChoice(name, "exact match", tuple(loaded), tuple(shots))


_MMLU = {"mmlu": tuple(_SUBJECTS), **{f"mmlu_{group.lower().replace(' ', '_')}": (group,) for group in _SUBJECTS}}
_FILES = (*GAOKAO, "gaokao-chemistry", "gaokao-chinese", "gaokao-english", "gaokao-mathqa", *JEC_QA)
_AGIEVAL = {
    "agieval": (*GAOKAO, *JEC_QA),
    "gaokao": GAOKAO,
    "jec_qa": JEC_QA,
    **{file.replace("-", "_"): (file,) for file in _FILES},
}

TASKS: dict[str, Callable[[Path], Task]] = {
    **{name: partial(load_mmlu, name=name, groups=groups) for name, groups in _MMLU.items()},
    **{name: partial(load_agieval, name=name, groups=groups) for name, groups in _AGIEVAL.items()},
}
