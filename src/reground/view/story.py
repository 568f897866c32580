"""One question as a page tells it: the trajectory with what was marked, changed and spent."""

from __future__ import annotations

from typing import Any

from reground.core.answers import Answer, Thought
from reground.core.trajectory import GenerateStep, RetrieveStep, Step, Trajectory
from reground.evaluation.results import stages_of, timed
from reground.text.alignment import changes
from reground.view.marking import marked
from reground.view.revisions import text_before


def story(trajectory: Trajectory) -> dict[str, Any]:
    """A trajectory as JSON values, with more than its own fields.

    stages: cost by the name of the step. Each step that costs time has its `seconds`; a reply that revises a text has
    `changes`, as `text.changes` gives them; a passage has `parts`, as `marking.marked` gives them, instead of a text;
    a thought with a draft has `changes`. Tokens' probabilities are left out but for their mean, `logprob`.
    """
    seconds = {id(step): taken for step, taken in timed(trajectory.steps)}
    quotes = _quotes(trajectory.answer)
    earlier: list[str] = []
    steps = []
    for step in trajectory.steps:
        told = _step(step, quotes, earlier)
        if id(step) in seconds:
            told["seconds"] = seconds[id(step)]
        steps.append(told)
        if isinstance(step, GenerateStep):
            earlier += [reply.text for reply in step.replies]
    return {
        **trajectory.model_dump(mode="json", exclude={"steps", "answer"}),
        "answer": None if trajectory.answer is None else _answer(trajectory.answer),
        "steps": steps,
        "stages": [{"name": name, **stage.model_dump()} for name, stage in stages_of(trajectory).items()],
    }


def _quotes(answer: Answer | None) -> dict[str, list[str]]:
    """What supports the answer, by the passage that it is from."""
    found: dict[str, list[str]] = {}
    for sentence in answer.sentences if answer is not None else ():
        for support in sentence.supports:
            found.setdefault(support.passage_id, []).append(support.quote)
    return found


def _step(step: Step, quotes: dict[str, list[str]], earlier: list[str]) -> dict[str, Any]:
    if isinstance(step, GenerateStep):
        return _call(step, earlier)
    told = step.model_dump(mode="json")
    if isinstance(step, RetrieveStep):
        for shown, passage in zip(told["passages"], step.passages, strict=True):
            del shown["text"]
            shown["parts"] = marked(passage.text, step.query, quotes.get(passage.id, ()))
    return told


def _call(step: GenerateStep, earlier: list[str]) -> dict[str, Any]:
    told = step.model_dump(mode="json", exclude={"replies": {"__all__": {"token_logprobs"}}})
    for shown, reply in zip(told["replies"], step.replies, strict=True):
        shown["logprob"] = reply.mean_logprob
        before = text_before(step.messages, reply.text, earlier)
        if before is not None:
            shown["changes"] = list(changes(before, reply.text.strip()))
    return told


def _answer(answer: Answer) -> dict[str, Any]:
    told = answer.model_dump(mode="json", exclude={"steps", "sentences"})
    told["steps"] = [_thought(thought) for thought in answer.steps]
    told["sentences"] = [{**each.model_dump(mode="json"), "supported": each.supported} for each in answer.sentences]
    return told


def _thought(thought: Thought) -> dict[str, Any]:
    told = thought.model_dump(mode="json")
    if thought.draft is not None and thought.draft.strip() != thought.text.strip():
        told["changes"] = list(changes(thought.draft.strip(), thought.text.strip()))
    return told
