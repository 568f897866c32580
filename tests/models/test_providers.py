"""What servers refuse, as providers say it: each request is mended by what is named, and only by that."""

import json
import re
from pathlib import Path

import pytest
from aiohttp import web

from reground.app.runs import model_settings
from reground.core.errors import (
    AuthenticationError,
    ConfigurationError,
    ContextLengthExceeded,
    ModelError,
    TransientModelError,
)
from reground.core.language import Message, Reply, Sampling, hearing
from reground.models._openai_protocol import STREAMED, Joining
from reground.models.openai import OpenAIModel
from reground.models.options import ModelOptions
from reground.testing.openai_server import MockOpenAI
from tests.servers import Recorded, RecordedServer

TURNS = [("system", "Be brief."), ("user", "one"), ("user", "two")]
ASK = [Message(role=role, content=content) for role, content in TURNS]
RICH = Sampling(n=3, temperature=0.7, top_p=0.9, max_tokens=20_000, stop=("END", "\n"), seed=1)
SENT = {"n": 3, "temperature": 0.7, "top_p": 0.9, "max_tokens": 20_000, "stop": ["END", "\n"], "seed": 1}


class Picky(MockOpenAI):
    """Refuses what `judge` finds wrong in a request: a message, a whole error with its status, or None."""

    judge = staticmethod(lambda body: None)
    unasked = False

    async def _chat(self, request):
        body = await request.json()
        self.received.append(body)
        self.queries.append(request.query_string)
        if (said := self.judge(body)) is not None:
            status, error = said if isinstance(said, tuple) else (400, {"error": {"message": said}})
            return web.json_response(error, status=status)
        whole = self.completion(body)
        if not (body.get("stream") or self.unasked):
            return web.json_response(whole)
        chunks = [{"choices": [{"index": 0, "delta": {"role": "assistant", "content": None}}]}]
        for choice in whole["choices"]:
            text = choice["message"]["content"]
            for piece in (text[:2], text[2:]):
                chunks.append({"choices": [{"index": choice["index"], "delta": {"content": piece}}]})
            chunks.append({"choices": [{"index": choice["index"], "delta": {}, "finish_reason": "stop"}]})
        chunks.append({"choices": [], "usage": whole["usage"]})
        lines = [f"data: {json.dumps(chunk, ensure_ascii=False)}\r\n\r\n" for chunk in chunks]
        return web.Response(text=": ping\n\n" + "".join(lines) + "data: [DONE]\n\n", content_type="text/event-stream")


async def asked(judge, sampling=RICH, messages=ASK, **attributes):
    """The replies of two calls, and the requests that the server got."""
    async with Picky() as server:
        server.judge = judge
        vars(server).update(attributes)
        model = OpenAIModel("mock", ModelOptions(base_url=f"{server.url}/?api-version=1"))
        try:
            first, second = await model.generate(messages, sampling), await model.generate(messages, sampling)
        finally:
            await model.aclose()
    assert set(server.queries) == {"api-version=1"}
    return first, second, server.received


def recorded(name):
    return json.loads((Path(__file__).parents[1] / "recorded" / name).read_text(encoding="utf-8"))


def text_of(body):
    return body if isinstance(body, str) else json.dumps(body)


REFUSALS = recorded("refusals.json")
IS_TAKEN = {
    "only": lambda value, one: value == one,
    "most": lambda value, most: value <= most,
    "items": lambda value, most: len(value) <= most,
    "no": lambda value, refused: refused not in value,
}


def refuses(refusal):
    """A judge: this error for a request with the parameter, unless it is as the server takes it."""

    def judge(body):
        value, takes = body.get(refusal["parameter"]), refusal.get("takes", {})
        is_well = value is None or any(IS_TAKEN[how](value, limit) for how, limit in takes.items())
        return None if is_well else (refusal.get("status", 400), refusal["body"])

    return judge


@pytest.mark.parametrize("refusal", REFUSALS, ids=lambda each: each["provider"])
async def test_a_parameter_is_sent_as_the_server_takes_it_and_the_others_as_before(refusal):
    judge = refuses(refusal)
    first, second, requests = await asked(judge)
    assert len(first) == len(second) == 3
    assert sum(judge(body) is not None for body in requests) <= 2, "it is remembered"
    last = {name: value for name, value in requests[-1].items() if name not in ("model", "messages")}
    expected = {**SENT, **refusal["sent"]}
    if "seed" in last:  # where replies are asked for one by one, each has its own
        last["seed"] = 1
    assert last == {name: value for name, value in expected.items() if value is not None}


async def test_fields_of_the_users_own_go_with_each_request_unless_they_are_refused(tmp_path):
    extra = {"enable_thinking": False, "top_k": 90, "temperature": 0.4}
    async with Picky() as server:
        options = ModelOptions(base_url=server.url, extra_body=extra)
        model = OpenAIModel("mock", options)
        await model.generate(ASK, RICH)
        assert server.received[-1].items() >= extra.items()
        server.judge = lambda body: "top_k must be at most 64" if body.get("top_k", 0) > 64 else None
        await model.generate(ASK, RICH)
        assert server.received[-1]["top_k"] == 64
        server.judge = lambda body: (
            "Unrecognized request argument: enable_thinking" if "enable_thinking" in body else None
        )
        await model.generate(ASK, RICH)
        assert "enable_thinking" not in server.received[-1]
        await model.aclose()
    same = ModelOptions(base_url=server.url, extra_body=json.dumps(dict(reversed(extra.items()))))
    assert OpenAIModel("mock", same).identity == model.identity
    assert OpenAIModel("mock", ModelOptions(base_url=server.url)).identity != model.identity
    assert model_settings(same) == model_settings(options) != model_settings(ModelOptions(base_url=server.url))


@pytest.mark.parametrize("given", ["{", "[1]", '"x"', "3", '{"messages": []}', '{"stream": true}', {"x": object()}])
def test_extra_fields_that_are_no_object_or_change_the_call_are_refused(given):
    with pytest.raises(ConfigurationError, match="extra_body"):
        ModelOptions(extra_body=given)


def roles(body):
    return [turn["role"] for turn in body["messages"]]


@pytest.mark.parametrize(
    ("said", "wrong", "left"),
    [
        ("Invalid role: system. Allowed: user, assistant", lambda had: "system" in had, ["user", "user"]),
        ("Developer instruction is not enabled for models/mock", lambda had: "system" in had, ["user", "user"]),
        (
            (500, {"error": {"code": 500, "message": "Jinja Exception: System role not supported"}}),
            lambda had: "system" in had,
            ["user", "user"],
        ),
        (
            (400, {"error": {"message": "Input should be 'user' or 'assistant'", "param": "messages[0].role"}}),
            lambda had: "system" in had,
            ["user", "user"],
        ),
        (
            "Conversation roles must alternate user/assistant/user/assistant/...",
            lambda had: had != ["user"],
            ["user"],
        ),
        *(
            (said, lambda had: had[-2:] == ["user", "user"], ["system", "user"])
            for said in (
                "After the optional system message, conversation roles must alternate user/assistant",
                "deepseek-reasoner does not support successive user or assistant messages (messages[1] and [2])",
            )
        ),
    ],
)
async def test_messages_are_told_in_the_turns_that_the_template_has(said, wrong, left):
    *_, requests = await asked(lambda body: said if wrong(roles(body)) else None)
    assert roles(requests[-1]) == left
    assert "".join("\n\n".join(turn["content"] for turn in requests[-1]["messages"]).split("\n\n")) == "Be brief.onetwo"


@pytest.mark.parametrize(
    "said",
    [
        "parameter.enable_thinking must be set to false for non-streaming calls",
        "This model only support stream mode, please enable the stream parameter to access the model.",
        "该模型仅支持流式调用",
        (400, {"error": {"message": "Bad value", "param": "stream"}}),
    ],
)
async def test_a_server_that_wants_streams_gets_requests_for_them(said):
    first, second, requests = await asked(lambda body: None if body.get("stream") else said)
    assert [reply.text for reply in (*first, *second)] == ["two"] * 6
    assert [bool(body.get("stream")) for body in requests] == [False, True, True]
    assert (first[0].usage.prompt, first[0].usage.completion) == (4, 3)


@pytest.mark.parametrize("refused", [(), ("stream",), ("stream_options",), ("stream", "stream_options")])
async def test_who_listens_gets_the_same_reply_and_hears_it_from_a_server_that_streams(refused):
    heard: list[Reply] = []
    judge = lambda body: next((f"{name} is not supported" for name in refused if name in body), None)  # noqa: E731
    whole, _, (plain, _) = await asked(lambda body: None, Sampling())
    hearing.set(heard.append)  # in this test alone
    first, second, requests = await asked(judge, Sampling())
    assert first == second == whole
    assert requests[-1] == plain | {name: value for name, value in STREAMED.items() if name not in refused}
    assert {reply.text for reply in heard} == ({"", "tw", "two"} if "stream" not in refused else set())


def test_a_stream_is_heard_however_its_bytes_arrive():
    deltas = [{"content": "Zürich "}, {"reasoning_content": "Hm."}, {"content": "liegt."}]
    events = [{"prompt_progress": {"total": 9, "cache": 4, "processed": 6}, "choices": []}]
    events += [{"choices": [{"index": 0, "delta": delta}]} for delta in deltas]
    body = b"".join(b": ping\r\n\r\ndata: %s\r\n\r\n" % json.dumps(event).encode() for event in events)
    for size in (1, 7, len(body)):
        heard = []
        joining = Joining(heard.append)
        for at in range(0, len(body), size):
            joining.follow(body[at : at + size])
        joining.follow(b"data: {]\n")  # the whole reply will show that it is none
        assert (heard[0], heard[-1].text, heard[-1].reasoning) == ((6, 9), "Zürich liegt.", "Hm.")


def events(*chunks, end="\n\n", last="data: [DONE]"):
    return "".join(f"data: {json.dumps(chunk)}{end}" for chunk in chunks) + last


def delta(content, finish=None):
    return {"choices": [{"index": 0, "delta": {"content": content}, "finish_reason": finish}]}


def message(content, **more):
    return json.dumps({"choices": [{"index": 0, "message": {"content": content}, **more}], "usage": None})


@pytest.mark.parametrize("reply", recorded("replies.json"), ids=lambda each: each["as"])
async def test_a_reply_is_read_in_whatever_form_it_comes(reply):
    async with RecordedServer([Recorded(200, text_of(reply["body"]))]) as server:
        model = OpenAIModel("mock", ModelOptions(base_url=server.url))
        (read,) = await model.generate(ASK, Sampling(logprobs="logprobs" in reply["body"]))
        await model.aclose()
    expected = ("Seven.", reply.get("finish", "stop"), reply.get("thought"), 1)
    assert (read.text, read.finish_reason, read.reasoning, read.usage.completion) == expected


async def test_a_stream_that_ends_early_is_no_reply():
    for body in (events(delta("Sev"), last=""), events(delta("Sev"), last='data: {"choices": [\n')):
        async with RecordedServer([Recorded(200, body)]) as server:
            model = OpenAIModel("mock", ModelOptions(base_url=server.url))
            with pytest.raises(TransientModelError, match="malformed"):
                await model.generate(ASK, Sampling())
            await model.aclose()


@pytest.mark.parametrize(
    ("status", "said"),
    [
        (400, "<!DOCTYPE html><HTML><title>n</title><p>unknown field <code>seed</code></p></HTML>"),
        (501, '{"error": {"message": "seed: not implemented"}}'),
        (200, '{"error": {"code": "400", "message": "seed is not supported"}}'),
        (200, '{"error": {"code": "x", "type": "invalid_request_error", "message": "seed is not supported"}}'),
        (422, '[{"loc": ["body", "seed"], "msg": "Extra inputs are not permitted"}]'),
        (200, '{"error_code": 336003, "error_msg": "seed is unknown"}'),
        (200, '{"result": null, "success": false, "errors": [{"code": 5, "message": "seed is odd"}], "messages": []}'),
    ],
)
async def test_a_refusal_names_a_parameter_in_whatever_form_it_comes(status, said):
    async with RecordedServer([Recorded(status, said), Recorded(200, message("Seven."))]) as server:
        model = OpenAIModel("mock", ModelOptions(base_url=server.url))
        assert (await model.generate(ASK, RICH.model_copy(update={"n": 1})))[0].text == "Seven."
        await model.aclose()
    first, second = (each.body for each in server.asked)
    assert first == {**second, "seed": 1}


async def test_a_stream_that_nobody_asked_for_is_read():
    first, *_ = await asked(lambda body: None, unasked=True, script=lambda body: "é\u2028two")
    assert [reply.text for reply in first] == ["é\u2028two"] * 3


async def test_several_replies_that_are_refused_at_temperature_0_alone_are_asked_for_above_it():
    async with Picky() as server:
        server.judge = lambda body: (
            "n must be 1 in greedy sampling" if "n" in body and not body["temperature"] else None
        )
        model = OpenAIModel("mock", ModelOptions(base_url=server.url))
        for temperature in (0, 0.7, 0):
            assert len(await model.generate(ASK, Sampling(n=3, temperature=temperature))) == 3
        await model.aclose()
    assert [body.get("n", 1) for body in server.received] == [3, 1, 1, 1, 3, 1, 1, 1]


ERRORS = recorded("errors.json")
KINDS = {
    "context": ContextLengthExceeded,
    "passing": TransientModelError,
    "key": AuthenticationError,
    "refused": ModelError,
    "foreign": ModelError,
}


@pytest.mark.parametrize("error", ERRORS, ids=lambda each: each["provider"])
async def test_an_error_is_of_its_kind_and_told_in_one_line_of_words(error):
    async with RecordedServer([Recorded(error["status"], text_of(error["body"]))]) as server:
        model = OpenAIModel("mock", ModelOptions(base_url=server.url))
        with pytest.raises(ModelError, match="/v1" if error["is"] == "foreign" else None) as told:
            await model.generate(ASK, RICH)
        await model.aclose()
    assert type(told.value) is KINDS[error["is"]]
    assert not re.search(r"\n|\{[\"']", str(told.value))
    assert sum(each.method == "POST" for each in server.asked) <= 2


async def test_a_field_that_the_server_wants_can_be_given():
    with pytest.raises(ModelError, match="--extra-body"):
        await asked(lambda body: "enable_thinking must be false for this model")


async def test_what_did_not_help_is_not_remembered_and_a_server_that_refuses_all_is_left():
    seen = []
    refusals = iter(["temperature 7", "top_p 6", "stop", "n", "seed", "odd"])

    def judge(body):
        seen.append(body)
        return next(refusals, None)

    async with Picky() as server:
        server.judge = judge
        model = OpenAIModel("mock", ModelOptions(base_url=server.url))
        with pytest.raises(ModelError, match="odd"):
            await model.generate(ASK, RICH)
        await model.generate(ASK, RICH)
        server.judge = lambda body: f"temperature {len(seen)}, top_p, max_tokens {body.get('max_tokens', 9) - 1}"
        with pytest.raises(ModelError):
            await model.generate(ASK, RICH)
        await model.aclose()
    assert {name: seen[-1][name] for name in SENT} == SENT
    assert len(server.received) < 25
