from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from reground.core.evidence import Passage
from reground.core.language import Message, Reply, Sampling, Usage
from reground.core.trajectory import GenerateStep, NoteStep, RetrieveStep, Trajectory
from reground.evaluation.results import Stage, add_stages, stages_of


def call(name: str, elapsed: float, prompt: int = 10, completion: int = 2) -> GenerateStep:
    reply = Reply(text="x", usage=Usage(calls=1, prompt=prompt, completion=completion))
    message = Message(role="user", content="x")
    return GenerateStep(
        span="",
        ordinal=0,
        name=name,
        elapsed=elapsed,
        model="m",
        messages=(message,),
        sampling=Sampling(),
        replies=(reply,),
    )


def search(elapsed: float) -> RetrieveStep:
    passages = (Passage(id="a", text="a"),)
    return RetrieveStep(
        span="", ordinal=0, name="retrieve", elapsed=elapsed, retriever="r", query="q", k=1, passages=passages
    )


def trajectory(*steps: GenerateStep | RetrieveStep | NoteStep) -> Trajectory:
    return Trajectory(id="q", question="q", method="m", steps=steps)


def test_the_time_between_two_ends_counts_for_the_later_step() -> None:
    note = NoteStep(span="", ordinal=1, name="span", elapsed=2.5)
    found = stages_of(trajectory(call("draft", 2.0), note, search(2.5), call("revise", 4.0), search(4.5)))
    assert found == {
        "draft": Stage(calls=1, prompt=10, completion=2, seconds=2.0),
        "retrieve": Stage(calls=2, seconds=1.0),
        "revise": Stage(calls=1, prompt=10, completion=2, seconds=1.5),
    }


@given(st.lists(st.tuples(st.sampled_from("abc"), st.floats(0, 1e6)), max_size=20))
def test_stages_add_up_to_the_time_of_the_last_end(ends: list[tuple[str, float]]) -> None:
    found = stages_of(trajectory(*(call(name, elapsed) for name, elapsed in ends)))
    assert abs(sum(stage.seconds for stage in found.values()) - max((e for _, e in ends), default=0.0)) < 1e-3
    assert sum(stage.calls for stage in found.values()) == len(ends)


def test_questions_are_summed_by_name() -> None:
    one = stages_of(trajectory(call("draft", 1.0)))
    two = stages_of(trajectory(call("draft", 2.0), search(2.5)))
    assert add_stages([one, two]) == {
        "draft": Stage(calls=2, prompt=20, completion=4, seconds=3.0),
        "retrieve": Stage(calls=1, seconds=0.5),
    }
