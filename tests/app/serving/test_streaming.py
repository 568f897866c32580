"""Answers that are sent while they are written: what was sent is the answer, or a line says that it was changed."""

import asyncio
import random
import threading
from pathlib import Path

import pytest

from reground.app.runs import Result
from reground.app.serving.responses import Output
from reground.core.answers import TEXT
from reground.core.evidence import Passage
from reground.core.language import Reply, Usage, hearing
from reground.core.run import Event, Run
from reground.core.trajectory import Trajectory
from reground.methods.shared.evidence import Evidence
from tests.app.serving.served import Slow, served

ASKED = [{"role": "user", "content": "Which river flows through Prague?"}]
LONG = "Vienna lies on the Danube [2]. The Vltava flows through Prague [1], and `x[1]` is code. No [9] more."


class Halting(Slow):
    """Writes the first half of its reply, and the rest when the gate is open."""

    async def generate(self, messages, sampling, /):
        if (hear := hearing.get()) is not None:
            hear(Reply(text=LONG[: len(LONG) // 2]))
            await asyncio.to_thread(self.gate.wait, 10)
        return await super().generate(messages, sampling)


def of_chat(client, model="rag/m@docs"):
    for chunk in client.chat.completions.create(model=model, messages=ASKED, stream=True):
        yield chunk.choices[0].delta.content or ""


def of_responses(client):
    kinds = []
    for event in client.responses.create(model="rag/m@docs", input=ASKED[0]["content"], stream=True):
        kinds.append(event.type.split(".")[1].split("_")[0])
        yield event.delta if event.type == "response.output_text.delta" else ""
    assert "reasoning" not in kinds[kinds.index("content") :], "no step comes behind the begin of the answer"


@pytest.mark.parametrize("said", [LONG, "Nobody knows."])
@pytest.mark.parametrize("form", [of_chat, of_responses])
def test_an_answer_is_sent_before_it_is_whole_and_adds_up_to_it(tmp_path, form, said):
    model = Halting(lambda messages, sampling: said)
    model.gate = threading.Event()
    with served(tmp_path, model) as server, server.client as client:
        texts = form(client)
        first = next(filter(None, texts))
        model.gate.set()
        whole = first + "".join(texts)
        text = client.chat.completions.create(model="rag/m@docs", messages=ASKED).choices[0].message.content
        assert "".join(form(client)) == text
        assert len([*filter(None, of_chat(client, "rat/m@docs"))]) == 1, "the last revision becomes the answer"
    assert first.startswith("Vienna lies on the Danube [1]. The Vltava")
    if said == LONG:
        assert whole == text
        assert "`x[1]` is code. No more." in whole
    else:
        assert whole.startswith(f"{first}\n\n---\n\n*This was changed")
        assert whole.endswith(text)


PIECES = (
    *(" it flows", " [1]", "[2]", " [3][4]", " [1], [2]", " [1] and [3]", " (see [7])", " [9]", ".", " `x[3]`", "\n\n"),
    *("[2]: ", " a[1]", "[5](http://x)", " [0, 1]", " and", "[1, 5]", "  ", "```\nx[1] = 2\n```\n", " <b>", "`", "["),
    *("]", " (", ")", "is [1, 2]", "\n", "</passage>"),
)
PASSAGES = [Passage(id=f"{name}.md#{n}", text="x", title=name, url=f"{name}.md") for n, name in enumerate("aabcc")]


def test_what_was_sent_begins_the_answer_wherever_markers_stand():
    """And [2] is the second source that the annotations name."""
    draw = random.Random(5)
    for _ in range(1000):
        text, sent, heard, evidence = "".join(draw.choices(PIECES, k=draw.randint(1, 14))), Output(), "", Evidence()
        for end in range(1, len(text) + 1):
            heard += sent.more(Event("writing", "", "answer", Usage(), text=text[:end], sources=PASSAGES))
        evidence.add(PASSAGES)
        answer = evidence.answer(text, Run(), TEXT)
        story = Trajectory(id="a", question="q", method="rag", usage=Usage(), answer=answer)
        whole = sent.whole(Result(answer.text, answer.citations, (), (), (), Usage(), 1.0, None, story, Path("t")))
        assert whole.text.startswith(heard), text
        assert "---" not in whole.text, text
        urls = list(dict.fromkeys(each["url"] for each in whole.annotations))
        assert urls[: len(sent.sources)] == sent.sources or not heard, text
