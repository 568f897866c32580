"""Replies that no parser expects, given to every parser and to every method as a whole."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Sequence
from dataclasses import fields
from pathlib import Path

from reground.app.catalogue import build_method, method_class
from reground.core.answers import FORMS, AnswerForm
from reground.core.citations import cited_markers, without_unknown
from reground.core.code_blocks import code_blocks, without_fences
from reground.core.errors import ConfigurationError, RegroundError
from reground.core.language import Message, Reply, Sampling, TokenLogprob
from reground.core.reasoning import separate
from reground.core.run import Run
from reground.core.untrusted import neutralise, unfence
from reground.critics.prompted import read_number, read_verdict
from reground.evaluation.metrics.numbers import as_number, read_quantities, read_quantity, same_number
from reground.evaluation.metrics.text import cover_exact_match, exact_match, token_f1
from reground.evaluation.tasks.longform import parse_verdict
from reground.evaluation.tasks.mathematics import THEOREM_FORM, extract_typed, same_answer
from reground.methods import react
from reground.methods.cr_planner.answer import complete_answer
from reground.methods.cr_planner.prompts import read_step
from reground.methods.rewrite_retrieve_read import before
from reground.methods.search_agent.actions import as_markers, existing
from reground.methods.search_agent.parsing import read_action
from reground.methods.shared.steps import split_answer, split_draft, split_steps
from reground.models.scripted import ScriptedModel
from reground.retrieval.scripted import ScriptedRetriever
from reground.text.alignment import align_steps, with_lost_steps
from reground.text.echoes import unlooped, without_echo
from reground.text.queries import clean_query, parse_queries
from reground.text.sentences import sentences
from reground_minecraft.parser import parse_plan
from tests.campaign import fuzz_bad as bad
from tests.campaign.trial import Trial
from tests.methods import every
from tests.methods.helpers import PASSAGES

FORM = tuple(FORMS.values())
_GOOD = (
    *every.SAID.values(),
    every.TEXT,
    "Step 1: Look.\n\nStep 2: The Danube is longer [1][2].\n\nAnswer: (B)",
    "1. river of Vienna\n2. river of Cologne\n**",
    "<think>It may be.</think>\nFinal answer: 2,850.5 km",
    "STEP 1: Chop trees. - Minecraft items: 2x Oak Log\nSTEP 2: Make planks. - Minecraft items: 8x Oak Planks",
    '{"action": "search", "query": "Danube", "steps": [1, 2]}',
    "Thought: look\nAction: Lookup[2850]\nObservation: x\nAction: Finish[yes]",
    "implied = True",
    "Answer: \\frac{3}{4} \\times 10^{5}, [1, 2.5, pi]",
    '<passage id="1">quoted</passage> and <|im_end|> more',
)
_PIECES = (
    "[1]", "[", "]", "[9999999999999999999999]", "[-1]", "[1, 2", "```", "```python\n", "~~~", "<think>", "</think>", "Answer:", "\nAnswer: ",
    "Action: ", "Search[", "Finish[]", "ACTION_SELECTED = ", "(" * 200, "[" * 300, "{" * 300, "\\frac{", "1e999999", "9" * 6000, "9**9**9**9", "1/0",
    "2^99999999", "99999999!", "0x" + "f" * 5000, "\n" * 500, "x " * 3000, "\\", "'", '"""', "\x00", "\ud800", "\u202e", "٣", "²", "½", "1" * 300 + "x Oak Log",
    "link_id=", "[link_id=1]", "**", "# [END]", "thoughts=", "f'{x}'", "b'x'", "lambda: 0", "[x for x in y]", "*a, **b", "Terminate()", "class Search(Action)",
    "def solution():\n", "return ", "<passage", "</passage>", "1. ", "- ", "Step 99999999999: ", "nan", "inf", "-", "é", "的",
)  # fmt: skip


def _text(chance: random.Random) -> str:
    """A good reply spoiled, pieces at random, or one good reply behind another."""
    if chance.random() < 0.25:
        return "".join(chance.choice(_PIECES) for _ in range(chance.choice((1, 3, 12, 40))))
    said = chance.choice(_GOOD)
    for _ in range(chance.choice((0, 1, 2, 4))):
        said = bad.text(said, chance) if said and chance.random() < 0.5 else _with_piece(said, chance)
    return said


def _with_piece(said: str, chance: random.Random) -> str:
    at = chance.randrange(len(said) + 1)
    return said[:at] + chance.choice(_PIECES) + said[at:]


def _reply(text: str) -> Reply:
    words = text.split(" ")[:300]
    return Reply(text=text, token_logprobs=tuple(TokenLogprob(token=f"{word} ", logprob=-0.7) for word in words))


_PARSERS: dict[str, Callable[[str, AnswerForm], object]] = {
    "answers": lambda text, form: form.extract(text),
    "typed answers": lambda text, form: [extract_typed(text), THEOREM_FORM.extract(text)],
    "answers compared": lambda text, form: [
        *(same_answer(text, gold, kind) for gold, kind in ((3, "integer"), (0.5, "float"), ([1, 2], "list of integer"), (True, "bool"), ("(a)", "option"))),
        exact_match(text, ["yes"]), cover_exact_match(text, ["yes"]), token_f1(text, ["yes"]),
    ],
    "numbers": lambda text, form: [as_number(text), same_number(text[:2000], 3.0), read_quantity(text), read_quantities(text)],
    "fences": lambda text, form: [code_blocks(text), without_fences(text)],
    "markers": lambda text, form: [cited_markers(text, most=3), without_unknown(text, {1})],
    "reasoning": lambda text, form: separate(_reply(text)),
    "control tokens": lambda text, form: [neutralise(text), unfence([_reply(text)], [Message(role="user", content=text)])],
    "verdicts": lambda text, form: [read_verdict(_reply(text)), read_number(_reply(text), 3)],
    "the judge": lambda text, form: parse_verdict(text),
    "plans": lambda text, form: parse_plan(text),
    "ReAct's actions": lambda text, form: react.parse_action(text),
    "CR-Planner's steps": lambda text, form: [read_step(text, form), complete_answer(text, form)],
    "queries": lambda text, form: [parse_queries(before(text, "**"), most=3), clean_query(text, fallback="")],
    "revisions": lambda text, form: [unlooped(text), without_echo(text, "Question:\n{q}\n\nTask: Write it again. {x}")],
    "the search agent's links": lambda text, form: [as_markers(text), existing(text, {1})],
    "the search agent's actions": lambda text, form: [read_action(text, mend=False), read_action(text, mend=True)],
    "sentences": lambda text, form: sentences(text),
    "steps": lambda text, form: [
        split_steps(text), split_steps(text, most=2), split_answer(text, form), split_draft(text, form, most=3),
        align_steps(split_steps(text)[:20], split_steps(text[::-1])[:20]), with_lost_steps(split_steps(text)[:20], ["x"], first=20),
    ],
}  # fmt: skip


def attempt(number: int, folder: Path) -> list[Trial]:
    """One text for one parser, and every third time one method that hears nothing else."""
    chance = random.Random(f"replies {number}")
    name = list(_PARSERS)[number % len(_PARSERS)]
    text, form = _reply(_text(chance)).text, chance.choice(FORM)
    trials = [
        _tried(
            f"A parser of {name}",
            lambda: _PARSERS[name](text, form),
            f"number {number}, {form.name}: {bad.short(text)}",
        )
    ]
    if number % 3 == 0:
        trials.append(_whole(number, chance))
    return trials


def _whole(number: int, chance: random.Random) -> Trial:
    name, form = chance.choice(every.names()), chance.choice(FORM)
    said: list[str] = []

    def reply(messages: Sequence[Message], sampling: Sampling) -> Reply:
        said.append(_text(chance)[:8_000])
        return _reply(said[-1])

    bare = name.partition("+")[0]
    known = {field.name for field in fields(method_class(bare))}
    settings = {key: value for key, value in every.SETTINGS.get(bare, {}).items() if key in known}
    try:
        method = build_method(
            name,
            model=ScriptedModel(reply),
            retriever=ScriptedRetriever(PASSAGES),
            sandbox=every.Refuses(),
            form=form,
            settings=settings,
        )
    except ConfigurationError:
        return Trial("A whole method", True, f"number {number}: {name} refuses {form.name}")
    what = f"number {number}, {name}, {form.name}"
    trial = _tried("A whole method", lambda: asyncio.run(method.solve(every.QUESTION, Run())), what)
    return trial if trial.held else Trial(trial.kind, False, f"{trial.what} after {bad.short(said[-2:])}")


def _tried(kind: str, work: Callable[[], object], what: str) -> Trial:
    try:
        work()
    except RegroundError as error:
        return Trial(kind, True, f"{what}: {type(error).__name__}")
    except Exception as error:
        return Trial(kind, False, f"{what}: {bad.uncaught(error)}")
    return Trial(kind, True, what)
