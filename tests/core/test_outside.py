"""What models, retrievers, sandboxes and exceptions hand over can always be stored, read back and replayed."""

import json
import math
import sqlite3

import pytest

from reground.core.answers import Answer
from reground.core.budget import Budget
from reground.core.evidence import Passage
from reground.core.journal import SqliteJournal, checksum
from reground.core.language import Reply, Sampling, TokenLogprob
from reground.core.programs import Execution, Program, Verdict
from reground.core.run import Run, solve
from reground.core.trajectory import NoteStep, append_trajectory, read_trajectories
from reground.models.scripted import ScriptedModel
from tests.core.fakes import Box, Library

HALF = "half a pair \ud83d and on"
VALUE = {HALF: json.loads("[" * 300 + "]" * 300), "nan": math.nan, "large": 10**5000}
BROKEN = Execution(verdict=Verdict.PASSED, stdout=HALF, stderr=HALF, detail=HALF, value=VALUE)


def world():
    """A library and a sandbox that hand over what cannot be stored."""
    score = {"id": HALF, "text": HALF, "title": HALF, "score": math.nan}
    return Library(Passage(**score), Passage(id="2", text="t", score=math.inf)), Box(BROKEN)


class Method:
    """One call, one search, one program; its answer is what the model said, and its JSON read."""

    def __init__(self, model, library, box, *, logprobs=False):
        self.model, self.library, self.box, self.logprobs = model, library, box, logprobs

    async def solve(self, question, run):
        (reply,) = await run.generate(self.model, question, name="draft", sampling=Sampling(logprobs=self.logprobs))
        passages = await run.retrieve(self.library, reply.text, k=2)
        execution = await run.execute(self.box, Program(source=reply.text))
        text = f"{reply.text} {passages[0].text} {execution.stdout} {json.loads(chr(34) + chr(92) + 'ud800' + chr(34))}"
        return Answer(text=text)


async def solved(tmp_path, method):
    journal = SqliteJournal(tmp_path / "j.db")
    try:
        found = await solve(method, f"why {HALF}", Run(journal=journal, budget=Budget()), id="1", name="m")
    finally:
        journal.close()
    append_trajectory(tmp_path / "t.jsonl", found.trajectory)
    return found


@pytest.mark.parametrize("logprob", [-1.0, math.nan, -math.inf, math.inf])
async def test_what_cannot_be_stored_is_mended_and_replayed(tmp_path, logprob):
    tokens = (TokenLogprob(token=HALF, logprob=logprob), TokenLogprob(token="b", logprob=-0.5))
    model = ScriptedModel([Reply(text=HALF, token_logprobs=tokens)])
    library, box = world()
    for _ in range(2):
        assert (await solved(tmp_path, Method(model, library, box, logprobs=True))).error is None
    assert (len(model.calls), len(library.queries), len(box.programs)) == (1, 1, 1)
    stories = list(read_trajectories(tmp_path / "t.jsonl"))
    bare = [[step.model_copy(update={"replayed": 0, "elapsed": 0}) for step in story.steps] for story in stories]
    assert bare[0] == bare[1]
    reply = stories[0].steps[0].replies[0]
    assert reply.text == HALF.replace("\ud83d", "\ufffd")
    assert reply.token_logprobs[0].logprob == (logprob if math.isfinite(logprob) else -9999.0)
    assert stories[0].answer.text.endswith("\ufffd")


@pytest.mark.parametrize("result", ["{", '[{"text": 1}]', "[[" * 500, '[{"text":"a","token_logprobs":[null]}]', "[]"])
async def test_a_record_that_cannot_be_read_is_named_and_asked_again(tmp_path, result):
    library, box = world()
    model = ScriptedModel(["a", "a"])
    method = Method(model, library, box)
    await solved(tmp_path, method)
    db = sqlite3.connect(tmp_path / "j.db")
    row = list(db.execute("SELECT run, question, span, ordinal, fingerprint, result, elapsed FROM effects").fetchone())
    row[5] = result
    db.execute("UPDATE effects SET result=?, sum=? WHERE rowid=1", (result, checksum(*row)))
    db.commit()
    db.close()
    again = await solved(tmp_path, method)
    (note,) = [step for step in again.trajectory.steps if isinstance(step, NoteStep)]
    assert note.name == "record set aside"
    assert f"{tmp_path / 'j.db'}, row 1: " in note.data["why"]
    healed = await solved(tmp_path, method)
    assert not any(isinstance(step, NoteStep) for step in healed.trajectory.steps)
    assert (again.error, healed.error) == (None, None)
    assert (len(model.calls), len(library.queries), len(box.programs)) == (2, 1, 1)
