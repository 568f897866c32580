"""`reground demo`: a question from the model's memory and from the articles, side by side."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import typer
from rich.console import Console
from rich.rule import Rule
from rich.text import Text

from reground.app import catalogue
from reground.app.cli.ask import is_model_named, other_model, other_models_offered
from reground.app.cli.console import consoles, human_time, human_tokens, note, print_json
from reground.app.cli.display import head, plain, replayed, show_answer_text, show_read, show_steps, show_support
from reground.app.cli.flags import Json, Quiet, flattened
from reground.app.cli.progress import Progress
from reground.app.options import DEFAULT_READER, Ask, Demo
from reground.app.runs import Result
from reground.app.session import answer
from reground.core.answers import PHRASE
from reground.core.errors import ConfigurationError
from reground.demo import corpus_path, measured, questions_path
from reground.evaluation.metrics.text import cover_exact_match
from reground.evaluation.task import Example
from reground.evaluation.tasks.own import read_measured

MEMORY = "direct"
"""The method that stands beside the chosen one: it retrieves nothing."""
_QUESTION = "15"
"""The question asked by default. The default model has it right, as it has most."""
_RIGHT = "Right: the words of the expected answer stand in the short answer."
_SETTINGS: dict[str, dict[str, object]] = {"grounded": {"max_rounds": 1}}
"""What keeps the demonstration of a method short."""


@flattened()
def demo(context: typer.Context, options: Demo, as_json: Json = False, quiet: Quiet = False) -> None:
    """Answer a question from the model's memory and from 36 articles that come with reground, and show every step.

    The questions need two or three articles each. An answer is right when the words of the expected one stand in it.
    The same command resumes an interrupted run, and replays a finished one.

    Example:  reground demo 17   ·   reground demo --method rat
    """
    examples = read_measured(questions_path()).examples()
    quiet = quiet or as_json
    if options.listed:
        return _list(examples, as_json=as_json)
    methods = [*dict.fromkeys((MEMORY, catalogue.method(options.method).name))]
    is_named = is_model_named(context)
    with other_models_offered(is_named=is_named):
        _ask(options, methods, examples, quiet=quiet, as_json=as_json)
    if options.model == DEFAULT_READER and not quiet:
        better = (None if is_named else other_model()) or "a server of yours (reground models)"
        note(
            "This model has 1.5 billion parameters and is often wrong. "
            f"Try {better}, or where it is too slow --model gguf/qwen2.5-coder-0.5b."
        )
    return None


def _list(examples: Sequence[Example], *, as_json: bool) -> None:
    """Print the questions, each with its number and the expected answer."""
    if as_json:
        return print_json(
            [
                {"number": number, "id": each.id, "question": each.question, "expected": [*each.golden_answers]}
                for number, each in enumerate(examples, start=1)
            ],
            indent=2,
        )
    for number, each in enumerate(examples, start=1):
        expected = plain(f"  {' or '.join(each.golden_answers)}", "green")
        consoles()[0].print(Text.assemble((f"{number:2} ", "bold"), plain(each.question), expected))
    return None


def _number_of(question: str, examples: Sequence[Example]) -> int | None:
    """The number of a question that is given by its number or its words; None for one of the user's own."""
    for number, example in enumerate(examples, start=1):
        if question in (str(number), example.question):
            return number
    if question.isdecimal():
        raise ConfigurationError(f"the demo has the questions 1 to {len(examples)}: reground demo --list shows them")
    return None


def _ask(options: Demo, methods: Sequence[str], examples: Sequence[Example], *, quiet: bool, as_json: bool) -> None:
    """Ask each method a question. One of the demo's ends with a short answer, which is marked."""
    console, _ = consoles()
    question = (options.question or _QUESTION).strip()
    number, golds = _number_of(question, examples), None
    if number is not None:
        question, golds = examples[number - 1].question, examples[number - 1].golden_answers
    if not as_json:
        head(console, "Question" if number is None else f"Question {number} of the demo")
        console.print(plain(question, "bold"))
        console.print(plain(f"model {options.model}; 36 articles that come with reground", "dim"))
    results: dict[str, Result] = {}
    for method in methods:
        with Progress(visible=not quiet) as progress:
            ask = Ask(
                question,
                method=method,
                model=options.model,
                model_options=options.model_options,
                corpus=None if method == MEMORY else corpus_path(),
                form=None if golds is None else "phrase",
                settings=_SETTINGS.get(method, {}),
                fresh=options.fresh,
                observer=progress.observer(progress.on_event),
            )
            results[method] = asyncio.run(answer(ask, progress.opening))
        if not as_json:
            show_answer(console, method, results[method], golds)
    if as_json:
        expected = None if golds is None else [*golds]
        answers = [{**each.to_dict(), "right": _right(each, golds)} for each in results.values()]
        print_json({"question": question, "number": number, "expected": expected, "answers": answers}, indent=2)
        return
    console.print(Rule(style="dim"))
    costs = (
        f"{method}: {human_time(result.seconds)}, {human_tokens(result.usage.tokens)} tokens"
        + (" (replayed)" if replayed(result.trajectory) else "")
        for method, result in results.items()
    )
    lines = ["; ".join(costs)] if golds is None else ["; ".join(costs), _RIGHT]
    if (figure := measured(options.model, methods[-1])) is not None:
        counts = f"{figure['right']} of {figure['of']} right ({figure['date']})"
        lines.append(f"Measured: {methods[-1]} with {options.model}: {counts}.")
    for line in lines:
        console.print(Text(line, style="dim"))


def show_answer(console: Console, method: str, result: Result, golds: Sequence[str] | None) -> None:
    """Print a method's answer with its mark, its steps and its evidence."""
    reads = bool(result.shown)
    head(console, f"{method}: with the articles" if reads else f"{method}: from the model's memory", "cyan")
    if reads and result.steps:
        show_steps(console, result)
        head(console, "Answer")
    show_answer_text(console, result)
    if golds is not None:
        # a sign where the terminal can show it, and always a word: no colour carries the meaning
        sign, word, style = ("✓ ", "right", "green") if _right(result, golds) else ("✗ ", "wrong", "red")
        mark = Text(word if console.options.ascii_only else f"{sign}{word}", style=f"bold {style}")
        console.print(Text.assemble(mark, "; expected: ", plain(" or ".join(golds))))
    if reads:
        show_support(console, result)
        show_read(console, result)


def _right(result: Result, golds: Sequence[str] | None) -> bool | None:
    """Whether the short answer holds the words of an expected one: cover-EM, as `eval` computes it."""
    return None if golds is None else cover_exact_match(PHRASE.extract(result.text), golds) == 1.0
