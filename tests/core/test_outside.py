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
from reground.core.method import solve
from reground.core.programs import Execution, Program, Verdict
from reground.core.run import Run
from reground.core.trajectory import NoteStep, append_trajectory, read_trajectories
from reground.models.scripted import ScriptedModel

HALF = "half a pair \ud83d and on"


class Method:
    """One call, one search, one program; its answer is what the model said, and its JSON read."""

    def __init__(self, model, retriever, sandbox, *, logprobs=False):
        self.model, self.library, self.box, self.logprobs = model, retriever, sandbox, logprobs

    async def solve(self, question, run):
        (reply,) = await run.generate(self.model, question, name="draft", sampling=Sampling(logprobs=self.logprobs))
        passages = await run.retrieve(self.library, reply.text, k=2)
        execution = await run.execute(self.box, Program(source=reply.text))
        text = f"{reply.text} {passages[0].text} {execution.stdout} {json.loads(chr(34) + chr(92) + 'ud800' + chr(34))}"
        return Answer(text=text)


class Library:
    name = "library"

    async def retrieve(self, query, *, k):
        query.encode()
        return [Passage(id=HALF, text=HALF, title=HALF, score=math.nan), Passage(id="2", text="t", score=math.inf)]


class Box:
    name = "box"

    async def execute(self, program):
        program.source.encode()
        deep = json.loads("[" * 300 + "]" * 300)
        value = {HALF: deep, "nan": math.nan, "large": 10**5000}
        return Execution(verdict=Verdict.PASSED, stdout=HALF, stderr=HALF, detail=HALF, value=value)


class Nobody:
    """Asked only where a replay is not one."""

    name = "library"

    async def retrieve(self, query, *, k):
        raise AssertionError("retrieved again")


class NoBox:
    name = "box"

    async def execute(self, program):
        raise AssertionError("executed again")


def replied(logprob=-1.0):
    tokens = (TokenLogprob(token=HALF, logprob=logprob), TokenLogprob(token="b", logprob=-0.5))
    return Reply(text=HALF, token_logprobs=tokens)


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
    first = await solved(tmp_path, Method(ScriptedModel([replied(logprob)]), Library(), Box(), logprobs=True))
    again = await solved(tmp_path, Method(ScriptedModel([]), Nobody(), NoBox(), logprobs=True))
    assert first.error is None
    assert again.error is None
    stories = list(read_trajectories(tmp_path / "t.jsonl"))
    bare = [[step.model_copy(update={"replayed": 0, "elapsed": 0}) for step in story.steps] for story in stories]
    assert bare[0] == bare[1]
    reply = stories[0].steps[0].replies[0]
    assert reply.text == HALF.replace("\ud83d", "\ufffd")
    assert reply.token_logprobs[0].logprob == (logprob if math.isfinite(logprob) else -9999.0)
    assert stories[0].answer.text.endswith("\ufffd")


@pytest.mark.parametrize("result", ["{", '[{"text": 1}]', "[[" * 500, '[{"text":"a","token_logprobs":[null]}]'])
async def test_a_record_that_cannot_be_read_is_named_and_asked_again(tmp_path, result):
    await solved(tmp_path, Method(ScriptedModel([Reply(text="a")]), Library(), Box()))
    db = sqlite3.connect(tmp_path / "j.db")
    row = list(db.execute("SELECT run, question, span, ordinal, fingerprint, result, elapsed FROM effects").fetchone())
    row[5] = result
    db.execute("UPDATE effects SET result=?, sum=? WHERE rowid=1", (result, checksum(*row)))
    db.commit()
    db.close()
    model = ScriptedModel([Reply(text="a")])
    again = await solved(tmp_path, Method(model, Nobody(), NoBox()))
    assert again.error is None
    assert len(model.calls) == 1
    (note,) = [step for step in again.trajectory.steps if isinstance(step, NoteStep)]
    assert note.name == "record set aside"
    assert f"{tmp_path / 'j.db'}, row 1: " in note.data["why"]
    healed = await solved(tmp_path, Method(ScriptedModel([]), Nobody(), NoBox()))
    assert healed.error is None
    assert not any(isinstance(step, NoteStep) for step in healed.trajectory.steps)
