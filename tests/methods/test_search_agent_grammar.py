"""Replies that keep to a step's grammar, or to its JSON schema, can be read: whatever they say."""

from __future__ import annotations

import json
import re
from functools import cache

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reground.core.run import Run
from reground.methods.search_agent import DECIDE, STEPS, SearchAgent
from reground.methods.search_agent.actions import NAMES, LinkSelection, parse_action, read_action, reply
from reground.models.scripted import ScriptedModel
from reground.retrieval.scripted import ScriptedRetriever

LINKS = (2, 3, 17)
_PART = re.compile(r""""((?:\\.|[^"\\])*)"|(\[(?:\\.|[^\]\\])*\])|([a-z]+)|(\{[\d,]+\}|[()|?*+])|\s+""")


def regular(gbnf: str) -> str:
    """The grammar as a regular expression: none of its rules refers to itself."""
    rules = dict(line.split(" ::= ", 1) for line in gbnf.splitlines())

    def expression(name: str) -> str:
        return "(?:" + "".join(part(*found.groups()) for found in _PART.finditer(rules[name])) + ")"

    def part(literal: str | None, characters: str | None, name: str | None, sign: str | None) -> str:
        if literal is not None:
            return f"(?:{re.escape(json.loads(chr(34) + literal + chr(34)))})"
        return characters or (expression(name) if name else sign or "")

    return expression("root")


PRINTABLE = {
    r"\u00C0-\U0010FFFF": "",
    r'[^"\\#\x00-\x1F\x7F]': r"[ !$-\[\]-~]",
    r'[^ "\\#\x00-\x1F\x7F]': r"[!$-\[\]-~]",
    r"[^\n]": "[ -~]",
}
"""Classes of characters, and their printable ASCII: strategies take long over all of Unicode."""


each_step = pytest.mark.parametrize("number", range(len(STEPS)), ids=[step.name for step in STEPS])


@cache
def said(step_number: int) -> st.SearchStrategy[str]:
    pattern = regular(STEPS[step_number].grammar(LINKS).gbnf)
    for whole, printable in PRINTABLE.items():
        assert whole in pattern or whole == r"[^\n]"
        pattern = pattern.replace(whole, printable)
    return st.from_regex(pattern, fullmatch=True)


@each_step
def test_every_exemplar_keeps_to_the_grammar(number: int) -> None:
    step = STEPS[number]
    for each in step.exemplars:
        links = tuple(link.link_id for link in each.view.results or ())
        pattern = regular(step.grammar(links).gbnf)
        said = reply(each.action, each.comments)
        assert re.fullmatch(pattern, said)
        assert not re.fullmatch(pattern, said + " and more")
        assert not re.fullmatch(pattern, said.replace("ACTION_SELECTED = ", "ACTION: "))


@each_step
@given(data=st.data())
def test_whatever_the_grammar_allows_can_be_read(number: int, data: st.DataObject) -> None:
    text = data.draw(said(number))
    action, repaired = read_action(text, mend=False)
    assert isinstance(action, STEPS[number].kinds)
    assert not repaired
    if isinstance(action, LinkSelection):
        assert set(action.selected_link_ids) <= set(LINKS)


@each_step
@given(data=st.data())
def test_whatever_the_schema_allows_can_be_read(number: int, data: st.DataObject) -> None:
    step = STEPS[number]
    schema = json.loads(step.grammar(LINKS).json_schema)
    assert schema["required"] == list(schema["properties"])
    said = {name: data.draw(value(form)) for name, form in schema["properties"].items()}
    action = parse_action(json.dumps(said))
    assert NAMES[type(action)] == said["action"]


def value(form: dict[str, object]) -> st.SearchStrategy[object]:
    match form["type"]:
        case "boolean":
            return st.booleans()
        case "array":
            return st.lists(st.sampled_from(LINKS))
        case _ if "enum" in form:
            return st.sampled_from(form["enum"])
        case _:
            return st.text(min_size=1).map(lambda text: f"a{text}")


async def test_the_agent_asks_for_its_steps_grammars() -> None:
    said = [reply(step.exemplars[0].action, step.exemplars[0].comments) for step in STEPS]
    for setting in ("off", "welcome", "needed"):
        model = ScriptedModel([*said] * 9)
        agent = SearchAgent(
            model=model, retriever=ScriptedRetriever({}), samples=1, temperature=0.0, grammar=setting, checks=False
        )
        await agent.solve("Why?", Run())
        asked = model.calls[0][1].grammar
        assert asked == (None if setting == "off" else DECIDE.grammar(()))
