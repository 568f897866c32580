"""Few-shot: worked examples before the question, answers only, no reasoning. Brown et al. 2020; scaled by examples."""

from __future__ import annotations

from dataclasses import dataclass

from reground.core.answers import Answer, Demonstration
from reground.methods import few_shot_cot


@dataclass(frozen=True, kw_only=True)
class Prompts(few_shot_cot.Prompts):
    """`answer`, for the examples and the question alike: places {question} and {form}."""

    answer: str = "{question}\n\n{form}"


@dataclass(frozen=True, kw_only=True)
class FewShot(few_shot_cot.FewShotChainOfThought):
    """Few-shot chain of thought without the thoughts.

    The settings are the same. Neither the examples nor the prompt contain reasoning.
    """

    prompts: few_shot_cot.Prompts = Prompts()

    def _shown(self, example: Demonstration) -> str:
        return few_shot_cot.shown(example.model_copy(update={"reasoning": ""}), self.form)

    def _answer(self, response: str) -> Answer:
        return Answer(text=response)


METHOD = FewShot
