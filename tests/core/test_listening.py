"""What who listens hears of a call while a model reads and writes, and that nothing else changes by it."""

import pytest

from reground.core.errors import TransientModelError
from reground.core.evidence import Passage
from reground.core.journal import MemoryJournal
from reground.core.language import Reply, Sampling, hearing
from reground.core.reasoning import so_far
from reground.core.run import Listener, Run
from reground.models.scripted import ScriptedModel
from reground.models.wrappers import Retry

PASSAGE = Passage(id="p", text="The river is long.")


class Speaking(ScriptedModel):
    """Tells that it has read, and its reply after each word; it breaks off where the script has an error."""

    async def generate(self, messages, sampling, /):
        hear = hearing.get() or (lambda news: None)
        hear((3, 7))
        hear(Reply(text="Perhaps"))
        replies = await super().generate(messages, sampling)
        words = replies[0].text.split()
        for count in range(1, len(words) + 1):
            hear(Reply(text=" ".join(words[:count])))
        return replies


def texts(events):
    return [event.text for event in events if event.type == "writing" and event.text != "Perhaps"]


async def test_an_answer_is_heard_as_it_is_written_and_a_replay_is_silent():
    async def asked(journal, observer):
        run = Run(journal=journal, observer=observer)
        model = Retry(
            Speaking(["Which?", TransientModelError("cut"), "It is [1].", "Yes.", *["one two"] * 3]), base=0.0
        )
        await run.ask(model, "q", name="query")
        run.answer_from = [PASSAGE]
        answer = await run.ask(model, "a", name="answer")
        await run.ask(model, "c", name="check")
        return answer, await run.generate(model, "s", name="samples", sampling=Sampling(n=3)), run.usage

    journal, heard, silent, steps = MemoryJournal(), [], [], []
    first = await asked(journal, Listener(heard.append))
    assert texts(heard) == ["Which?", "It", "It is", "It is [1].", "Yes."]
    assert [event.sources for event in heard if event.text] == [*[None] * 2, *[[PASSAGE]] * 4, *[None] * 2]
    assert [event.read for event in heard if event.type == "reading"] == [(3, 7)] * 4
    assert await asked(journal, Listener(silent.append)) == await asked(MemoryJournal(), steps.append) == first
    assert {event.type for event in silent} == {"end"}
    assert {event.type for event in steps} == {"begin", "end"}, "an observer alone is told of steps alone"


async def test_all_that_is_told_of_a_long_reply_is_linear_in_it():
    heard, text = [], " ".join(["word"] * 4000)
    await Run(observer=Listener(heard.append)).ask(Speaking([text]), "q", name="answer")
    assert 0 < sum(map(len, texts(heard))) < 300 * len(text)


@pytest.mark.parametrize(
    ("text", "thinks", "shown"),
    [
        *(("<think>Hm. Is it", False, ""), ("<thi", False, ""), ("<think>Hm.</think>\n\nIt is", False, "It is")),
        *(("Here is my tho", False, ""), ("Here it is", False, "Here it is"), ("[1] says so", False, "[1] says so")),
        *(("Okay, the user", True, ""), ("Okay.</think>It", True, "It")),
    ],
)
def test_no_thought_is_shown_as_text(text, thinks, shown):
    assert so_far(Reply(text=text), thinks=thinks).text == shown
