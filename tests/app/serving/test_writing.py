"""The form of the last writing: JSON of a schema, and what a server or a request says of how an answer is written."""

from __future__ import annotations

import json
from functools import partial
from typing import Literal

import openai
import pytest
from pydantic import BaseModel, Field

import reground
from reground.core.errors import ConfigurationError, DataError
from reground.core.language import Grammar
from reground.models._openai_protocol import grammar_parameter
from tests.app.serving.served import ANSWER, Slow, served

ASKED = [{"role": "user", "content": "Which river?"}]
GOOD = '{"river": "Vltava", "lengths": [431], "kind": "river", "more": null}'


class River(BaseModel):
    river: str
    lengths: list[int] = Field(max_length=3)
    kind: Literal["river", "lake"]
    more: River | None = None


class Flat(River):
    more: None = None


@pytest.fixture
def server(tmp_path):
    """Its model writes what stands in `writes` when it is asked for JSON, one after the other."""
    writes: list[str] = []
    heard: list[str] = []

    def write(messages, sampling):
        heard.append(messages[-1].content)
        return writes.pop(0) if sampling.grammar else ANSWER

    with served(tmp_path, Slow(write), methods=["rag"], system_messages=True) as running:
        yield running, writes, heard


@pytest.mark.parametrize("tries", [[GOOD], [GOOD.replace("[431]", '["long"]'), f"```json\n{GOOD}\n```"]])
def test_an_answer_is_put_into_json_and_keeps_its_evidence(server, tries):
    running, writes, _ = server
    for parse in ("chat", "responses"):
        writes[:] = tries
        if parse == "chat":
            reply = running.client.chat.completions.parse(model="", messages=ASKED, response_format=Flat)
            found = reply.choices[0].message.parsed
        else:
            reply = running.client.responses.parse(model="", input="And which?", text_format=Flat)
            found = reply.output_parsed
        assert found == Flat(river="Vltava", lengths=[431], kind="river")
        told = reply.model_extra["reground"]
        assert [each["verdict"] for each in told["sentences"]] == ["supported", "not found"]
        assert told["sentences"][0]["evidence"][0]["quote"] == "The Vltava flows through Prague."
        assert writes == []
    writes[:] = tries
    stream = running.client.chat.completions.create(
        model="", messages=ASKED, seed=1, stream=True, response_format={"type": "json_object"}
    )
    whole = "".join(chunk.choices[0].delta.content or "" for chunk in stream)
    assert json.loads(whole)["river"] == "Vltava"


@pytest.mark.parametrize("wrong", ["", "no JSON", "[]", GOOD.replace("river", "sea"), GOOD[:-1], '{"river": NaN}'])
def test_json_that_stays_wrong_is_an_error(server, wrong):
    running, writes, _ = server
    writes[:] = [wrong, wrong]
    with pytest.raises(openai.BadRequestError, match="into JSON of this schema"):
        running.client.chat.completions.parse(model="", messages=ASKED, response_format=Flat)


def test_a_schema_that_allows_nothing_is_the_fault_of_its_request(server):
    running, writes, _ = server
    writes[:] = ["7", "3"]
    form = {"type": "json_schema", "name": "x", "schema": {"type": "integer", "minimum": 9, "maximum": 1}}
    with pytest.raises(openai.BadRequestError):
        running.client.responses.create(model="", input="Which river?", text={"format": form})


@pytest.mark.parametrize(("limit", "text"), [({"max_tokens": 3}, ""), ({"extra_body": {"budget": {"calls": 2}}}, "{")])
def test_json_that_a_limit_of_the_request_cut_is_given_as_far_as_it_was_written(server, limit, text):
    running, writes, _ = server
    writes[:] = ["{"]
    asked = partial(running.client.chat.completions.create, model="", messages=ASKED, **limit)
    reply = asked(response_format={"type": "json_object"})
    assert (reply.choices[0].message.content, reply.choices[0].finish_reason) == (text, "length")
    *_, last = asked(response_format={"type": "json_object"}, stream=True)
    assert last.choices[0].finish_reason == "length"


SELF = {"$ref": "#/$defs/A", "$defs": {"A": {"anyOf": [{"$ref": "#/$defs/A"}, {"$ref": "#/$defs/A"}]}}}
REFUSED = [
    *(SELF, River.model_json_schema(), {"$ref": "elsewhere"}, {"type": "string", "pattern": "(a*)*"}, {"allOf": []}),
    *(
        {"type": "array", "items": {}, "maxItems": 10**9},
        {"type": "object", "properties": 5},
        {"not": {}},
        {"$defs": 1},
    ),
    {"type": "object", "properties": {str(n): {"type": "string"} for n in range(2000)}},
]


@pytest.mark.parametrize("schema", REFUSED)
def test_a_schema_that_is_not_understood_is_refused_before_anything_is_asked(server, schema):
    running, _, heard = server
    form = {"type": "json_schema", "json_schema": {"name": "x", "schema": schema}}
    with pytest.raises(openai.BadRequestError):
        running.client.chat.completions.create(model="", messages=ASKED, response_format=form)
    assert heard == []


@pytest.mark.parametrize("name", ["grammar", "structured_outputs", ""])
def test_every_server_is_told_a_schema_as_a_schema(name):
    told = grammar_parameter(name, Grammar(gbnf="", json_schema='{"type":"object"}'))
    assert told["response_format"]["json_schema"]["schema"] == {"type": "object"}


def test_system_messages_say_how_an_answer_is_written(server):
    running, _, heard = server
    for system in ([], [{"role": "system", "content": "Answer in German."}]):
        running.client.chat.completions.create(model="", messages=[*system, *ASKED])
    plain, german = heard
    assert "Answer in German." in german.partition("</passage>")[2]
    assert "German" not in plain and "instructions" not in plain
    with pytest.raises(openai.BadRequestError):
        running.client.chat.completions.create(model="", messages=[{"role": "system", "content": "x" * 9000}, *ASKED])


def test_instructions_are_a_text_or_a_file_and_part_of_a_run(tmp_path):
    model = Slow(lambda messages, sampling: "Prague.")
    path = tmp_path / "style.md"
    path.write_text("Answer in one word.\n")

    def ask(instructions):
        how = {"model": model, "method": "direct", "home": tmp_path, "instructions": instructions}
        return reground.ask("Which?", **how).trajectory_path

    assert ask(str(path)) == ask("Answer in one word.") != ask(None)
    assert ["one word" in messages[-1].content for messages, _ in model.calls] == [True, False], "replayed in between"
    ask("Write at length: " + "long " * 100)
    with pytest.raises(DataError):
        ask("missing.md")
    with pytest.raises(ConfigurationError):
        ask("long " * 9000)
