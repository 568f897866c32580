"""The official client, against a real server."""

import threading

import openai
import pytest

from reground.core.errors import AuthenticationError, ModelError
from reground.core.language import Reply
from tests.app.serving.served import ANSWER, Slow, served

ASKED = [{"role": "user", "content": "Which river flows through Prague?"}]


@pytest.fixture
def model():
    return Slow(lambda messages, sampling: ANSWER)


@pytest.fixture
def client(tmp_path, model):
    with served(tmp_path, model) as server, server.client as client:
        yield client


def test_models_are_listed_and_named_with_slashes(client):
    assert [each.id for each in client.models.list()] == ["direct/m@docs", "rag/m@docs", "rat/m@docs"]
    assert client.models.retrieve("rag/m@docs").id == "rag/m@docs"
    with pytest.raises(openai.NotFoundError) as refused:
        client.models.retrieve("rag/n@docs")
    assert refused.value.code == "model_not_found"


def test_a_chat_completion_has_its_answer_its_sources_its_steps_and_its_cost(client, model):
    found = client.chat.completions.create(model="rag/m@docs", messages=ASKED, seed=3, user="me", metadata={"a": "b"})
    message = found.choices[0].message
    assert message.content == ANSWER
    assert found.choices[0].finish_reason == "stop"
    (cited,) = message.annotations or []
    claim = cited.url_citation
    assert message.content[claim.start_index : claim.end_index] == "The Vltava flows through Prague [1]."
    assert (claim.url, claim.title) == ("prague.md", "Prague")
    assert "found: Prague; Vienna" in message.reasoning_content
    assert message.reasoning_content == message.reasoning
    assert message.tool_calls is None
    prompts = sum(len(m.content.split()) for messages, _ in model.calls for m in messages)
    assert (found.usage.prompt_tokens, found.usage.completion_tokens) == (prompts, len(model.calls) * 11)
    assert found.usage.total_tokens == found.usage.prompt_tokens + found.usage.completion_tokens
    assert found.reground["calls"] == len(model.calls)
    assert found.reground["faithfulness"] is not None
    assert found.reground["question"] == ASKED[0]["content"]


def test_an_answer_that_the_documents_do_not_give_says_so_in_its_text(tmp_path):
    invented = "Cheese grows on Jupiter every winter."
    with served(tmp_path, Slow(lambda messages, sampling: invented)) as server, server.client as client:
        whole = client.chat.completions.create(model="rag/m@docs", messages=ASKED).choices[0].message.content
        chunks = list(client.chat.completions.create(model="rag/m@docs", messages=ASKED, stream=True))
        other = client.responses.create(model="rag/m@docs", input=ASKED[0]["content"]).output_text
    assert all(chunk.usage is None and chunk.choices for chunk in chunks), "usage comes only when asked for"
    assert whole == "".join(chunk.choices[0].delta.content or "" for chunk in chunks) == other
    assert whole.startswith(invented)
    assert whole.splitlines()[-1].startswith("*Your documents do not say this: ")


def test_a_stream_of_chunks_adds_up_to_the_whole(client):
    whole = client.chat.completions.create(model="rat/m@docs", messages=ASKED)
    chunks = list(
        client.chat.completions.create(
            model="rat/m@docs", messages=ASKED, seed=1, stream=True, stream_options={"include_usage": True}
        )
    )
    deltas = [chunk.choices[0].delta for chunk in chunks if chunk.choices]
    assert deltas[0].role == "assistant"
    assert "".join(delta.content or "" for delta in deltas) == whole.choices[0].message.content
    cited = [each for delta in deltas for each in getattr(delta, "annotations", [])]
    assert cited == [each.model_dump() for each in whole.choices[0].message.annotations or []]
    assert len([delta for delta in deltas if hasattr(delta, "reasoning_content")]) >= 4
    assert [chunk.choices[0].finish_reason for chunk in chunks if chunk.choices][-1] == "stop"
    assert all(chunk.usage is None for chunk in chunks[:-1])
    assert chunks[-1].choices == []
    assert chunks[-1].usage == whole.usage
    assert len({chunk.id for chunk in chunks}) == 1


def test_a_response_has_reasoning_and_a_message(client):
    found = client.responses.create(
        model="rag/m@docs", input="Which river flows through Prague?", instructions="Be kind."
    )
    assert found.output_text == ANSWER
    assert found.status == "completed"
    thought, message = found.output
    assert "found: Prague" in thought.summary[0].text
    (cited,) = message.content[0].annotations
    assert ANSWER[cited.start_index : cited.end_index] == "The Vltava flows through Prague [1]."
    assert found.usage.total_tokens == found.usage.input_tokens + found.usage.output_tokens > 0
    assert found.store is False
    of_another_server = {"type": "reasoning", "content": [{"type": "reasoning_text", "text": "Hm."}]}
    turns = [each.model_dump() for each in found.output]
    turns += [of_another_server, {"role": "user", "content": "And then?"}]
    assert client.responses.create(model="rag/m@docs", input=turns).output_text == ANSWER


def test_a_response_streams_its_typed_events(client):
    with client.responses.stream(model="rag/m@docs", input="Which river flows through Prague?") as stream:
        events = list(stream)
        final = stream.get_final_response()
    assert [*dict.fromkeys(event.type.removeprefix("response.") for event in events)] == [
        *("created", "in_progress", "output_item.added", "reasoning_summary_part.added"),
        *("reasoning_summary_text.delta", "reasoning_summary_text.done", "reasoning_summary_part.done"),
        *("output_item.done", "content_part.added", "output_text.delta", "output_text.annotation.added"),
        *("output_text.done", "content_part.done", "completed"),
    ]
    assert [event.sequence_number for event in events] == list(range(len(events)))
    assert final.output_text == ANSWER
    deltas = "".join(event.delta for event in events if event.type == "response.reasoning_summary_text.delta")
    assert final.output[0].summary[0].text == deltas


def test_the_first_step_arrives_before_the_last_call_begins(tmp_path, model):
    model.gate = threading.Event()
    with served(tmp_path, model, methods=["rat"]) as server:
        begun = []
        for chunk in server.client.chat.completions.create(model="", messages=ASKED, stream=True):
            if hasattr(chunk.choices[0].delta, "reasoning_content"):
                begun.append(model.begun)
                model.gate.set()
        assert begun[0] == 0 or begun[0] == 1
        assert model.begun >= 3


def test_a_failure_in_the_middle_of_a_stream_is_its_last_event(tmp_path):
    failures = [ANSWER, ModelError("http://10.0.0.1/ refused sk-abcdefgh at /home/me")]
    with served(tmp_path, Slow(failures * 2), methods=["rat"]) as server:
        with pytest.raises(openai.APIError, match="the model gave no usable reply") as failed:
            list(server.client.chat.completions.create(model="", messages=ASKED, stream=True))
        assert failed.value.code == "model_failed"
        events = list(server.client.responses.create(model="", input="river?", stream=True))
        assert [event.type for event in events][-2:] == ["error", "response.failed"]
        assert events[-1].response.error.message == "the model gave no usable reply"


def test_a_failure_before_the_reply_has_a_status(tmp_path):
    model = Slow([AuthenticationError("bad key sk-abcdefgh"), ModelError("/home/me")])
    with served(tmp_path, model, methods=["direct"]) as server:
        for why in ("the model's server refused the key of this server", "the model gave no usable reply"):
            with pytest.raises(openai.InternalServerError) as failed:
                server.client.chat.completions.create(model="", messages=ASKED)
            assert failed.value.status_code == 502
            assert failed.value.body["message"] == why


def test_few_tokens_cut_the_answer_and_say_so(tmp_path):
    model = Slow(lambda m, s: Reply(text=" ".join(["word"] * min(50, s.max_tokens)), finish_reason="length"))
    with served(tmp_path, model, methods=["direct"]) as server:
        found = server.client.chat.completions.create(model="", messages=ASKED, max_completion_tokens=7)
        assert found.usage.completion_tokens == 7
        assert found.choices[0].finish_reason == "length"
        response = server.client.responses.create(model="", input="river?", max_output_tokens=5)
        assert (response.status, response.incomplete_details.reason) == ("incomplete", "max_output_tokens")
        more = server.client.chat.completions.create(model="", messages=ASKED)
        assert more.usage.completion_tokens == 50, "an answer that another budget cut was replayed"
    for reply in (found, response, more):
        assert (tmp_path / reply.reground["run"] / "trajectory.jsonl").is_file()


def test_a_budget_of_the_request_holds(client, model):
    found = client.chat.completions.create(model="rat/m@docs", messages=ASKED, extra_body={"budget": {"calls": 1}})
    assert len(model.calls) == 1
    assert found.reground["stopped"] == "calls"
    assert found.choices[0].finish_reason == "length"
    for budget, code in (({"usd": 1}, "unknown_price"), ({"tokens": 3}, "budget_exceeded")):
        with pytest.raises(openai.BadRequestError) as refused:
            client.chat.completions.create(model="rag/m@docs", messages=ASKED, extra_body={"budget": budget})
        assert refused.value.code == code
