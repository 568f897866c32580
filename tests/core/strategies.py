"""Hypothesis strategies for the core's values."""

from hypothesis import strategies as st

from reground.core.answers import Answer, Citation, Thought
from reground.core.evidence import Passage
from reground.core.language import Message, Reply, Sampling, TokenLogprob, Usage
from reground.core.programs import Execution, Limits, Program, Verdict
from reground.core.trajectory import (
    Candidate,
    ChooseStep,
    ExecuteStep,
    Failure,
    GenerateStep,
    NoteStep,
    RetrieveStep,
    Trajectory,
)

text = st.text(st.characters(codec="utf-8"), max_size=30)
count = st.integers(0, 10**6)
seconds = st.floats(0, 1e6, allow_nan=False)
finite = st.floats(allow_nan=False, allow_infinity=False)
json = st.recursive(
    st.none() | st.booleans() | st.integers(-(10**6), 10**6) | finite | text,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(text, inner, max_size=3),
    max_leaves=6,
)
usages = st.builds(
    Usage, calls=count, prompt=count, cached=count, completion=count, usd=st.none() | st.floats(0, 1e3, allow_nan=False)
)
messages = st.builds(Message, role=st.sampled_from(["system", "user", "assistant"]), content=text)
samplings = st.builds(
    Sampling,
    n=st.integers(1, 5),
    temperature=st.floats(0, 2),
    top_p=st.floats(0.01, 1),
    max_tokens=st.integers(1, 4096),
    stop=st.lists(text, max_size=2).map(tuple),
    seed=st.none() | count,
    logprobs=st.booleans(),
)
replies = st.builds(
    Reply,
    text=text,
    finish_reason=st.sampled_from(["stop", "length"]),
    token_logprobs=st.none()
    | st.lists(st.builds(TokenLogprob, token=text, logprob=st.floats(-100, 0)), max_size=3).map(tuple),
    usage=usages,
)
passages = st.builds(Passage, id=text, text=text, title=text, url=st.none() | text, score=finite)
programs = st.builds(
    Program,
    source=text,
    stdin=text,
    expected_stdout=st.none() | text,
    tests=st.none() | text,
    exports=st.lists(text, max_size=2).map(tuple),
    returns=st.none() | text,
    limits=st.builds(Limits, seconds=st.floats(0.1, 100)),
)
executions = st.builds(
    Execution, verdict=st.sampled_from(Verdict), stdout=text, stderr=text, detail=text, value=json, seconds=seconds
)
citations = st.builds(Citation, marker=count, passage_id=text, title=text, url=st.none() | text, quote=text)
answers = st.builds(
    Answer,
    text=text,
    citations=st.lists(citations, max_size=2).map(tuple),
    shown=st.lists(citations, max_size=2).map(tuple),
    steps=st.lists(
        st.builds(Thought, text=text, draft=st.none() | text, citations=st.lists(count, max_size=2).map(tuple)),
        max_size=2,
    ).map(tuple),
)
candidates = st.builds(
    Candidate, text=text, logprob=st.none() | finite, score=st.none() | finite, discarded=st.none() | text
)
_place = {"span": text, "ordinal": count, "name": text, "elapsed": seconds, "replayed": st.booleans()}
steps = st.one_of(
    st.builds(
        GenerateStep,
        **_place,
        model=text,
        messages=st.lists(messages, max_size=3).map(tuple),
        sampling=samplings,
        replies=st.lists(replies, max_size=3).map(tuple),
    ),
    st.builds(RetrieveStep, **_place, retriever=text, query=text, k=count, passages=st.lists(passages).map(tuple)),
    st.builds(ExecuteStep, **_place, sandbox=text, program=programs, execution=executions),
    st.builds(
        ChooseStep,
        **_place,
        by=text,
        context=text,
        candidates=st.lists(candidates, max_size=3).map(tuple),
        chosen=st.none() | count,
        why=text,
    ),
    st.builds(NoteStep, **_place, data=st.dictionaries(text, json, max_size=3)),
)
trajectories = st.builds(
    Trajectory,
    id=text,
    question=text,
    method=text,
    steps=st.lists(steps, max_size=4).map(tuple),
    answer=st.none() | answers,
    failure=st.none() | st.builds(Failure, type=text, message=text),
    stopped=st.none() | st.sampled_from(["tokens", "calls"]),
    usage=usages,
    seconds=seconds,
    metadata=st.dictionaries(text, json, max_size=3),
)
