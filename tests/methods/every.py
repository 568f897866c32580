"""Every method with fakes that let each of its calls happen, so that all prompts can be read."""

from collections.abc import Sequence
from dataclasses import fields

from reground.app.catalogue import build_method, method, methods
from reground.core.answers import AnswerForm
from reground.core.errors import ConfigurationError
from reground.core.language import Message, Reply, Sampling, TokenLogprob
from reground.core.programs import Execution, Program, Verdict
from reground.core.run import Method, Run
from reground.core.trajectory import GenerateStep
from reground.models.scripted import ScriptedModel
from reground.retrieval.scripted import ScriptedRetriever
from tests.methods.helpers import PASSAGES

QUESTION = "Which is longer, the river of Vienna or that of Cologne?"
TEXT = (
    "Vienna lies on the Danube.\n\nThe Danube is 2850 km long [1].\n\n```python\ndef solution():\n"
    "    return 285{digit}\n```\n\nAnswer: {letter}"
)
SAID = {
    "Write this one step": "Vienna lies on the Danube [1].",
    "Write only the step": "Vienna lies on the Danube [1].",
    "Write only the query": "length of the Danube",
    "Write only the names": "Danube; Rhine",
    "Find the errors in the": "The length is wrong [1].",
    "write only OK": "The length is wrong.",
    "write only the next sentence": "The Danube flows through Vienna.",
    "one thought and one action": "Thought: I must look.\nAction: Search[Danube {count}]",
    "assert statement": "```python\nassert solution() == 2850\n```",
    "Do not write the program": "The program returns the wrong number.",
    "simple questions that must be answered first": "Which river flows through Vienna?\nHow long is #1?",
    "Answer with one word only": "yes",
    "Answer with its number only": "1",
    "Write the next step of the reasoning": "The Danube flows through Vienna.",
    "next step of the reasoning": "The Danube flows through Vienna.",
    "class Search(Action)": "ACTION_SELECTED = ActionWrapper(thoughts='Look.', action={action})  # [END]",
    "class LinkSelection": (
        "ACTION_SELECTED = LinkSelection(grounded_summarization='[link_id=1] says 2850 km.', thoughts='Good.', "
        "selected_link_ids=[1])  # [END]"
    ),
    "class Check_Answer": "# Fine.\nACTION_SELECTED = Check_Answer(passed=True)  # [END]",
    "class Answer": "ACTION_SELECTED = Answer(thoughts='Known.', answer='It is 2850 km long [link_id=1].')  # [END]",
}
"""What a call says by a mark of its job; what no mark fits, a method's new call too, gets the text."""
SETTINGS: dict[str, dict[str, object]] = {
    "rar": {"max_rounds": 1},
    "self_refine": {"rounds": 1},
    "self_consistency": {"n": 2},
    "react": {"max_steps": 2},
    "ircot": {"max_steps": 2},
    "flare": {"max_sentences": 2},
    "chain_of_knowledge": {"n": 2, "consistent": 1.0, "max_steps": 2},
    "reflexion": {"rounds": 1},
    "cr_planner": {"max_steps": 6, "candidates": 2},
    "search_agent": {"max_searches": 1, "samples": 1},
}
"""Short runs; a method that is not here runs with its defaults."""


class Refuses:
    """A sandbox in which every program fails its tests."""

    name = "refuses"

    async def execute(self, program: Program, /) -> Execution:
        return Execution(verdict=Verdict.WRONG_ANSWER, detail="assert solution() == 2850")


def model() -> ScriptedModel:
    """A model that knows its job from the prompt; its first token is unsure, for methods that look for doubt."""
    count = 0

    def reply(messages: Sequence[Message], sampling: Sampling) -> Reply:
        nonlocal count
        count += 1
        prompt = "\n".join(message.content for message in messages if message.role == "system") + messages[-1].content
        said = next((said for mark, said in SAID.items() if mark in prompt), TEXT)
        action = "Search(query='Danube')" if "2850 km." not in messages[-1].content else "Terminate()"
        said = (
            said.replace("{letter}", "AB"[count % 2])
            .replace("{digit}", str(count % 2))
            .replace("{count}", str(count))
            .replace("{action}", action)
        )
        words = said.split(" ")
        return Reply(
            text=said,
            token_logprobs=tuple(TokenLogprob(token=f"{w} ", logprob=-0.1 if i else -0.5) for i, w in enumerate(words)),
        )

    return ScriptedModel(reply)


def names() -> list[str]:
    """Every method of the package and every preset of one."""
    own = [name for name, entry in methods().items() if entry.module.startswith("reground.")]
    return [
        name if preset == "paper" else f"{name}+{preset}" for name in own for preset in sorted(method(name).presets)
    ]


def build(name: str, form: AnswerForm) -> Method | None:
    """The method for the form; None where it refuses it."""
    known = {field.name for field in fields(method(name).cls)}
    settings = {key: value for key, value in SETTINGS.get(name.partition("+")[0], {}).items() if key in known}
    try:
        return build_method(
            name, model=model(), retriever=ScriptedRetriever(PASSAGES), sandbox=Refuses(), form=form, settings=settings
        )
    except ConfigurationError:
        return None


async def asked(method: Method) -> list[tuple[str, str, tuple[Message, ...]]]:
    """Span, name and messages of every call in the order in which they ended."""
    run = Run()
    await method.solve(QUESTION, run)
    return [(step.span, step.name, step.messages) for step in run.steps if isinstance(step, GenerateStep)]
