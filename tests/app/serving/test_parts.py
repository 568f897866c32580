"""Where citations stand, what spans hold, and how steps are worded."""

from pathlib import Path

import pytest
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from reground.app.runs import Result
from reground.app.serving.engine import Telling, words_of
from reground.app.serving.responses import with_sources
from reground.app.serving.telemetry import Trace
from reground.app.session import Offer
from reground.core.answers import Citation, Sentence
from reground.core.evidence import Passage
from reground.core.language import Message, Reply, Sampling, Usage
from reground.core.run import Event
from reground.core.trajectory import GenerateStep, NoteStep, RetrieveStep, Trajectory

PRAGUE = Citation(marker=1, passage_id="a b.md#2", title="Prague", url="a b.md")
VIENNA = Citation(marker=2, passage_id="v", url="https://example.org/v?x=1")


def result(text, *, sentences=(), citations=()):
    story = Trajectory(id="ask-1", question="q", method="rag", usage=Usage(calls=2, prompt=30, completion=5))
    return Result(text, citations, citations, sentences, (), story.usage, 1.0, None, story, Path("t.jsonl"))


def claims(found):
    said = with_sources(found)
    assert not said.sentences or "".join(each["text"] for each in said.sentences) == said.text
    return [(said.text[each["start_index"] : each["end_index"]], each["url"]) for each in said.annotations]


def test_a_checked_sentence_has_the_sources_that_support_it():
    sentences = (
        Sentence(text="  Ünïcode 🙂 here [1]. ", score=0.9, supports=(PRAGUE, VIENNA, PRAGUE)),
        Sentence(text="Nobody says this [2].\n", score=0.1),
        Sentence(text="So.", score=None),
    )
    found = result("".join(each.text for each in sentences), sentences=sentences, citations=(PRAGUE, VIENNA))
    claim = "Ünïcode 🙂 here [1]."
    assert claims(found) == [(claim, "a%20b.md"), (claim, "https://example.org/v?x=1")]


def test_without_a_check_the_markers_say_which_sentence_is_meant():
    found = result("One is so [1]. Two is [2], and [1]. Three.", citations=(PRAGUE, VIENNA))
    assert claims(found) == [
        ("One is so [1].", "a%20b.md"),
        ("Two is [2], and [1].", "https://example.org/v?x=1"),
        ("Two is [2], and [1].", "a%20b.md"),
    ]
    assert claims(result("")) == []


def passage(marker, url):
    return Citation(marker=marker, passage_id=f"{url}#{marker}", title=url, url=url)


def test_a_marker_is_the_number_of_its_source_among_the_annotations():
    """Open WebUI shows [2] as the second source that it was told of; a method numbers the passages that it read."""
    river, again, city = passage(3, "river"), passage(5, "river"), passage(14, "city")
    text = "It flows [3][5]. In `x[3]` it is old [14, 5]. See [14] and [3]."
    said = with_sources(result(text, citations=(river, again, city)))
    assert said.text == "It flows [1]. In `x[3]` it is old [2, 1]. See [2] and [1]."
    found = [(said.text[each["start_index"] : each["end_index"]], each["url"]) for each in said.annotations]
    assert found[0] == ("It flows [1].", "river")
    assert {each[0] for each in found[1:]} == {"In `x[3]` it is old [2, 1].", "See [2] and [1]."}


def test_a_source_that_supports_nothing_has_no_number_of_another():
    sentences = (
        Sentence(text="It flows [1]. ", score=0.9, supports=(passage(2, "river"),)),
        Sentence(text="It is old [1].", score=0.1),
    )
    text = "".join(each.text for each in sentences)
    said = with_sources(result(text, sentences=sentences, citations=(passage(1, "city"),)))
    assert said.text == "It flows [2]. It is old [2]."
    assert [each["url"] for each in said.annotations] == ["river"]


@pytest.mark.parametrize(
    "url", ["javascript:alert(1)", "data:text/html,x", "file:///etc/passwd", "http://[", "JAVASCRIPT:x"]
)
def test_no_other_scheme_gets_through(url):
    found = result("So [1].", citations=(Citation(marker=1, passage_id="p", url=url),))
    assert ":" not in claims(found)[0][1]


def generated(text, *, replayed=False):
    reply = Reply(text=text, usage=Usage(calls=1, prompt=7, completion=3))
    ask = (Message(role="user", content="secret question"),)
    return GenerateStep(
        span="",
        ordinal=0,
        name="draft",
        model="openai/gpt",
        messages=ask,
        sampling=Sampling(),
        replies=(reply,),
        replayed=replayed,
    )


def searched():
    passages = tuple(Passage(id=f"{n}", text="secret text", title=f"T{n // 2}") for n in range(14))
    return RetrieveStep(
        span="", ordinal=1, name="retrieve", retriever="bm25:1", query="secret query", k=14, passages=passages
    )


def test_steps_are_told_in_a_paragraph_each():
    assert words_of(Event("begin", "", "draft", Usage())) == "draft ...\n\n"
    assert words_of(Event("end", "", "draft", Usage(), generated(" So. "))) == "draft: So.\n\n"
    assert words_of(Event("end", "", "retrieve", Usage(), searched())) == (
        "retrieve: secret query\nfound: T0; T1; T2; T3; T4 and 2 more\n\n"
    )
    note = NoteStep(span="", ordinal=1, name="span", data={"index": 1})
    assert words_of(Event("end", "", "span", Usage(), note)) == ""


def test_a_step_is_told_as_it_is_written_until_another_is_told():
    def told(type, name, text="", step=None):
        return telling.more(Event(type, "", name, Usage(), step, text=text))

    telling = Telling()
    assert [told("begin", "draft"), told("writing", "draft", "So "), told("writing", "query", "secret")] == [
        *("draft ...\n\n", "draft: So", "")
    ]
    assert told("writing", "draft", "So.") + told("end", "draft", step=generated("So. ")) == ".\n\n"
    assert [told("begin", "query"), told("writing", "query", "A quer"), told("writing", "query", "Another")] == [
        *("query ...\n\n", "query: A quer", "")
    ]
    assert told("end", "retrieve", step=searched()).startswith("\n\nretrieve: secret query\nfound: T0;")
    assert told("writing", "query", "Another one") + told("end", "query", step=generated("One.")) == "query: One.\n\n"


def test_spans_have_the_names_of_the_conventions_and_no_text():
    exporter, provider = InMemorySpanExporter(), TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    traced = Trace(Offer("rag/gpt@docs", "rag", "openai/gpt", "docs"), {}, provider)
    for step in (generated("secret answer"), searched()):
        traced.see(Event("begin", "", step.name, Usage()))
        traced.see(Event("end", "", step.name, Usage(), step))
    traced.see(Event("end", "", "draft", Usage(), generated("x", replayed=True)))
    traced.see(Event("begin", "", "unfinished", Usage()))
    traced.result(result("secret answer"))
    traced.end(ValueError("secret message"))
    spans = {span.name: span for span in exporter.get_finished_spans()}
    assert set(spans) == {"chat gpt", "retrieval bm25:1", "unfinished", "invoke_agent rag"}
    root, call = spans["invoke_agent rag"], spans["chat gpt"]
    assert call.parent.span_id == root.context.span_id
    assert dict(call.attributes) == {
        "gen_ai.operation.name": "chat",
        "gen_ai.provider.name": "openai",
        "gen_ai.request.model": "gpt",
        "gen_ai.response.finish_reasons": ("stop",),
        "gen_ai.usage.input_tokens": 7,
        "gen_ai.usage.output_tokens": 3,
    }
    assert root.attributes["gen_ai.usage.input_tokens"] == 30
    assert root.attributes["error.type"] == "ValueError"
    assert "secret" not in "".join(span.to_json() for span in spans.values())
