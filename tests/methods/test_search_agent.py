"""The Search Agent: every transition of figure 2, every limit, every fallback."""

from collections.abc import Callable, Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reground.core.answers import NUMBER, PHRASE, PLAN, PROGRAM, AnswerForm
from reground.core.budget import estimate_tokens
from reground.core.errors import ContextLengthExceeded
from reground.core.language import Message, Reply, Sampling, TokenLogprob
from reground.core.run import Run
from reground.core.trajectory import ChooseStep, GenerateStep
from reground.evaluation.tasks.mathematics import THEOREM_FORM
from reground.methods.search_agent import DECIDE, STEPS, Prompts, SearchAgent, View, cuts, show
from reground.methods.search_agent.actions import ResultItem, Search, SelectLink, literal
from reground.models.scripted import ScriptedModel
from reground.retrieval.scripted import ScriptedRetriever
from tests.methods.helpers import PASSAGES, effects, notes, queries

QUESTION = "How long is the river that flows through Vienna?"
SYSTEMS = {step.name: Prompts().system(step.name) for step in STEPS}
END = "  # [END]"


def search(query: str) -> str:
    return f"ACTION_SELECTED = ActionWrapper(thoughts='We need more.', action=Search(query={query!r})){END}"


STOP = f"ACTION_SELECTED = ActionWrapper(thoughts='We know it.', action=Terminate()){END}"
PASS = f"# It is fine.\nACTION_SELECTED = Check_Answer(passed=True){END}"
ANSWER = f"ACTION_SELECTED = Answer(thoughts='Now we can.', answer='The Danube is 2850 km long [link_id=1].'){END}"


def select(summary: str = "[link_id=1] says that the Danube is 2850 km long.", ids: Sequence[int] = (1,)) -> str:
    listed = list(ids)
    return (
        f"ACTION_SELECTED = LinkSelection(grounded_summarization={summary!r}, thoughts='Good.', "
        f"selected_link_ids={listed}){END}"
    )


def revise(answer: str) -> str:
    return f"# It is not fine.\nACTION_SELECTED = Revise_Answer(revised_answer={answer!r}){END}"


def sure(text: str, logprob: float = -0.1, *, finish: str = "stop", tokens: int = 2) -> Reply:
    """A reply of so many tokens, all of the same log-probability."""
    return Reply(text=text, finish_reason=finish, token_logprobs=(TokenLogprob(token="t", logprob=logprob),) * tokens)


Said = str | Reply | Exception
Say = Said | Callable[[str], str]


def job_of(messages: Sequence[Message]) -> str:
    """The step that a call belongs to, by its system message; `finish` has none."""
    return next((name for name, code in SYSTEMS.items() if messages[0].content == code), "finish")


def script(**jobs: Say | list[Said]) -> ScriptedModel:
    """A model that replies by the step asked for; a list is used up one by one, its last entry for ever.

    A function is asked with the last turn. Steps that are not named do what lets the agent go on. Plain strings come
    with log-probabilities.
    """
    usual: dict[str, Say | list[Said]] = {
        "decide": [search("Danube length"), STOP],
        "summarise": select(),
        "answer": ANSWER,
        "relevance": PASS,
        "grounding": PASS,
        "finish": "Answer: 2850 km",
    }
    said = usual | jobs
    used = dict.fromkeys(said, 0)

    def answer(messages: Sequence[Message], sampling: Sampling) -> Said:
        job = job_of(messages)
        given = said[job]
        if isinstance(given, list):
            position = min(used[job], len(given) - 1)
            used[job] += 1
            given = given[position]
        given = given(messages[-1].content) if callable(given) else given
        return sure(given) if isinstance(given, str) else given

    return ScriptedModel(answer)


def next_search(state: str) -> str:
    """A search for something new, whatever was searched before."""
    return search(f"query {state.count('Search(query=')}")


def agent(model: ScriptedModel | None = None, **wanted: Any) -> SearchAgent:
    retriever = wanted.pop("retriever", ScriptedRetriever(PASSAGES))
    samples = wanted.pop("samples", 1)
    return SearchAgent(model=model or script(), retriever=retriever, samples=samples, **wanted)


def names(run: Run) -> list[str]:
    return [name for _, name in effects(run)]


def calls(run: Run) -> list[str]:
    return [step.name for step in run.steps if isinstance(step, GenerateStep)]


def choices(run: Run, name: str) -> list[ChooseStep]:
    return [step for step in run.steps if isinstance(step, ChooseStep) and step.name == name]


def states(model: ScriptedModel, name: str) -> list[str]:
    """The last user turns of every call of that step."""
    return [messages[-1].content for messages, _ in model.calls if job_of(messages) == name]


async def test_the_whole_of_figure_two() -> None:
    model = script(
        decide=[search("river through Vienna"), search("Danube length"), STOP],
        summarise=[select("[link_id=1] says that it is the Danube."), select()],
    )
    run = Run()
    answer = await agent(model, retriever=ScriptedRetriever(PASSAGES[1:])).solve(QUESTION, run)
    turn = ["decide", "decide", "retrieve", "summarise", "summarise"]
    assert names(run) == [
        *turn,
        *turn,
        *["decide"] * 2,
        *["answer"] * 2,
        "answer before checks",
        *["relevance"] * 2,
        *["grounding"] * 2,
        "samples",
    ]
    assert queries(run) == ["river through Vienna", "Danube length"]
    assert answer.text == "The Danube is 2850 km long [1]."
    assert [citation.passage_id for citation in answer.citations] == ["danube"]
    assert [(thought.query, thought.citations) for thought in answer.steps] == [
        ("river through Vienna", (1,)),
        ("Danube length", (1,)),
    ]
    assert answer.steps[0].text == "[1] says that it is the Danube."
    assert run.best == answer
    assert notes(run, "answer before checks")[0].data == {"text": answer.text}
    assert notes(run, "samples")[0].data == {"drawn": 8, "discarded": 0, "repaired": 0}


async def test_each_step_sees_the_state_in_code() -> None:
    model = script(decide=[search("Danube length"), STOP])
    await agent(model, k=2).solve(QUESTION, Run())
    first, second = states(model, "decide")
    assert first == (
        f'ORIGINAL_QUESTION: str = "{QUESTION}"\nPAST_ACTIONS: List[Action] = [\n]\n'
        f'REMAINING_SEARCHES: int = 10\nORIGINAL_QUESTION: str = "{QUESTION}"'
    )
    assert "REMAINING_SEARCHES: int = 9" in second
    assert 'Search(query="Danube length",\nthoughts="We need more.",\n),' in second
    assert 'ResultItem(link_id=1, link_text="Danube",' in second
    assert 'grounded_summarization="[link_id=1] says that the Danube is 2850 km long."' in second
    (summarise,) = states(model, "summarise")
    assert "CURRENT_SEARCH_RESULTS = SearchResult(links=[\n  ResultItem(link_id=1" in summarise
    assert "ResultItem(link_id=2" in summarise
    assert "REMAINING_SEARCHES" not in summarise
    (answer,) = states(model, "answer")
    assert 'Terminate(thoughts="We know it."),' in answer
    assert "ResultItem(link_id=2" not in answer
    (check,) = states(model, "relevance")
    assert check.endswith('ANSWER: str = "The Danube is 2850 km long [link_id=1]."')


async def test_at_most_so_many_searches_and_then_no_decision() -> None:
    model = script(decide=next_search)
    run = Run()
    await agent(model, max_searches=3).solve(QUESTION, run)
    assert len(queries(run)) == 3
    assert calls(run) == ["decide", "summarise"] * 3 + ["answer", "relevance", "grounding"]
    assert [state.count("REMAINING_SEARCHES: int = ") for state in states(model, "decide")] == [1, 1, 1]
    assert "REMAINING_SEARCHES: int = 1" in states(model, "decide")[-1]
    assert 'Terminate(thoughts="No searches remain."),' in states(model, "answer")[0]


async def test_all_samples_of_a_step_are_one_call_and_the_least_perplexing_goes_on() -> None:
    model = script(
        decide=[
            sure(search("second"), -0.2, tokens=2),
            sure(search("best"), -0.15, tokens=40),
            sure(STOP, -0.9, tokens=1),
            sure("garbage", -0.01),
            *[sure(STOP)] * 4,
        ]
    )
    run = Run()
    await agent(model, samples=4).solve(QUESTION, run)
    assert queries(run) == ["best"]
    assert [sampling.n for _, sampling in model.calls] == [4] * 6 and {s.temperature for _, s in model.calls} == {0.5}
    choice = choices(run, "decide")[0]
    assert (choice.by, choice.chosen) == ("perplexity", 1)
    assert choice.why == "the lowest perplexity of 3 usable samples"
    assert [candidate.logprob for candidate in choice.candidates] == pytest.approx([-0.2, -0.15, -0.9, -0.01])
    assert [candidate.score for candidate in choice.candidates] == pytest.approx([-0.2, -0.15, -0.9, None])
    assert [bool(candidate.discarded) for candidate in choice.candidates] == [False, False, False, True]
    assert choice.candidates[1].data == {"action": "Search", "query": "best", "thoughts": "We need more."}
    assert choice.candidates[3].data == {}
    assert choice.candidates[3].text == "garbage"
    assert choice.context == states(model, "decide")[0]
    assert notes(run, "samples discarded")[0].data == {"step": "decide", "discarded": 1, "of": 4}
    assert notes(run, "samples")[0].data == {"drawn": 24, "discarded": 1, "repaired": 0}


async def test_without_log_probabilities_the_sample_goes_on_that_agrees_most() -> None:
    plain = [Reply(text=search(q)) for q in ("the Seine", "length of the Danube", "Danube river length")]
    model = script(decide=[*plain, Reply(text=STOP), *[Reply(text=STOP)] * 4])
    run = Run()
    await agent(model, samples=4, checks=False).solve(QUESTION, run)
    assert not notes(run, "answer before checks"), "without checks there is no answer before them"
    choice = choices(run, "decide")[0]
    assert choice.by == "agreement"
    assert choice.chosen == 1
    assert choice.candidates[choice.chosen].logprob is None
    assert [candidate.score for candidate in choice.candidates] == pytest.approx(
        [(2 / 6) / 3, (2 / 6 + 4 / 7) / 3, (4 / 7) / 3, 0]
    )
    (note,) = notes(run, "no log-probabilities")
    assert note.data["model"] == "scripted"
    assert [sampling.logprobs for _, sampling in model.calls][:2] == [True, False]
    assert choice.why == "most agreement of 4 usable samples, 4 without log-probabilities"


@pytest.mark.parametrize(
    ("job", "bad", "why"),
    [
        ("decide", "I think we should search.", "no action"),
        ("decide", "Search(query='')", "query is empty"),
        ("decide", ANSWER, "GivenAnswer is no action of this step"),
        ("decide", search("Danube length"), ""),
        ("summarise", select(ids=[1, 7]), "links that were not shown: [7]"),
        ("summarise", STOP, "Terminate is no action of this step"),
        ("summarise", "LinkSelection(grounded_summarization='', selected_link_ids=[])", "is empty"),
        ("answer", PASS, "CheckAnswer is no action of this step"),
        ("answer", "Answer(answer='The river", "no action in it"),
        ("relevance", "Check_Answer(passed=False)", "fails the answer and does not revise it"),
        ("grounding", "Check_Answer(passed='yes')", "neither True nor False"),
    ],
)
async def test_a_bad_sample_is_discarded_and_a_good_one_goes_on(job: str, bad: str, why: str) -> None:
    good = {"decide": [STOP], "summarise": [select()], "answer": [ANSWER], "relevance": [PASS], "grounding": [PASS]}
    first = [search("Danube length")] * 2 if job == "decide" else []
    model = script(**{job: [*first, sure(bad, -0.001), *[sure(text, -3.0) for text in good[job]]]})
    run = Run()
    answer = await agent(model, samples=2).solve(QUESTION, run)
    choice = choices(run, job)[-1] if job == "decide" else choices(run, job)[0]
    assert choice.chosen == 1
    assert why in (choice.candidates[0].discarded or "")
    assert choice.candidates[0].discarded
    assert answer.text == "The Danube is 2850 km long [1]."


async def test_a_step_without_a_usable_sample_is_taken_once_more() -> None:
    model = script(decide=["no", "nothing", search("Danube length"), STOP, STOP, STOP])
    run = Run()
    await agent(model, samples=2).solve(QUESTION, run)
    assert [choice.chosen for choice in choices(run, "decide")] == [None, 0, 0]
    assert choices(run, "decide")[0].why == "every sample was discarded"
    assert queries(run) == ["Danube length"]
    assert not notes(run, "fallback")


async def test_with_nothing_but_garbage_there_is_an_answer_from_what_was_found() -> None:
    model = ScriptedModel(lambda messages, sampling: sure("complete garbage"))
    run = Run()
    answer = await agent(model, k=2, samples=2).solve(QUESTION, run)
    assert queries(run) == [QUESTION]
    assert answer.text.startswith("[1] says: The Danube is 2850 km long")
    assert {citation.marker for citation in answer.citations} == {1, 2}
    assert [note.data["step"] for note in notes(run, "fallback")] == [
        "decide",
        "summarise",
        "decide",
        "answer",
        "relevance",
        "grounding",
    ]
    assert len(notes(run, "no usable sample")) == 6
    assert notes(run, "samples")[0].data == {"drawn": 24, "discarded": 24, "repaired": 0}


async def test_the_same_search_twice_is_no_search() -> None:
    model = script(decide=[search("Danube length"), search("DANUBE  length")])
    run = Run()
    await agent(model).solve(QUESTION, run)
    assert queries(run) == ["Danube length"]
    assert choices(run, "decide")[1].candidates[0].discarded == "This was searched before."
    assert notes(run, "fallback")[0].data["action"] == "the search ends"


async def test_links_that_do_not_exist_are_taken_out_and_noted() -> None:
    model = script(
        summarise=select("[link_id=1] and [link_id=8] say 2850 km. [link_id=2] is the Rhine."),
        answer=(
            "Answer(answer='2850 km [link_id=1][link_id=8], more than the Rhine [link_id=2], the Seine [link_id=3].')"
        ),
        relevance=revise("By [link_id=9] it is 2850 km [link_id=1], longer than the Rhine [link_id=2]."),
    )
    run = Run()
    answer = await agent(model, k=3).solve(QUESTION, run)
    assert answer.text == "By it is 2850 km [1], longer than the Rhine [2]."
    assert [citation.marker for citation in answer.citations] == [1, 2]
    assert [note.data["links"] for note in notes(run, "unknown links removed")] == [[8], [8, 3], [9]]
    assert "[link_id=8]" not in states(model, "answer")[0]
    assert "[link_id=8]" not in states(model, "relevance")[0]


@pytest.mark.parametrize(
    ("form", "reply", "said"),
    [
        (PHRASE, "2850 km [link_id=99]", "2850 km"),
        (PHRASE, "2850 km [link_id=1]", "2850 km"),
        (PHRASE, "the interval [0, 1]", "the interval [0, 1]"),
        (NUMBER, "[42]", "42"),
        (THEOREM_FORM, "Answer: [2, 3]", "[2, 3]"),
        (THEOREM_FORM, "Answer: [1, 2, 3]", "[1, 2, 3]"),
        (PLAN, "STEP 1: look [99]\nSTEP 2: go [link_id=42][link_id=1]", "STEP 1: look\nSTEP 2: go[1]"),
        (PROGRAM, "```python\nx = y[99]\n```", "x = y[99]"),
    ],
)
async def test_the_answer_in_its_form_names_no_unknown_link_either(form: AnswerForm, reply: str, said: str) -> None:
    answer = await agent(script(finish=reply), form=form).solve(QUESTION, Run())
    assert form.extract(answer.text) == said


async def test_relevance_first_then_grounding_each_may_revise() -> None:
    model = script(
        relevance=revise("It is 2850 km long [link_id=1]."), grounding=revise("The Danube has 2850 km [link_id=1].")
    )
    run = Run()
    answer = await agent(model).solve(QUESTION, run)
    assert states(model, "relevance")[0].endswith('"The Danube is 2850 km long [link_id=1]."')
    assert states(model, "grounding")[0].endswith('"It is 2850 km long [link_id=1]."')
    assert notes(run, "answer before checks")[0].data == {"text": "The Danube is 2850 km long [1]."}
    assert answer.text == "The Danube has 2850 km [1]."
    assert [note.data["by"] for note in notes(run, "answer revised")] == ["relevance", "grounding"]


async def test_other_forms_get_a_short_answer_behind_the_long_one() -> None:
    model = script()
    run = Run()
    answer = await agent(model, form=PHRASE).solve(QUESTION, run)
    assert calls(run) == ["decide", "summarise", "decide", "answer", "finish", "relevance", "grounding"]
    assert answer.text == "The Danube is 2850 km long [1].\n\nAnswer: 2850 km"
    assert PHRASE.extract(answer.text) == "2850 km"
    (finish,) = states(model, "finish")
    assert QUESTION in finish and "The Danube is 2850 km long [1]." in finish and finish.endswith(PHRASE.short)
    sampling = model.calls[4][1]
    assert (sampling.temperature, sampling.n, sampling.logprobs) == (0.0, 1, False)
    assert notes(run, "answer before checks")[0].data == {"text": answer.text}


async def test_a_revised_answer_is_put_into_the_form_again() -> None:
    model = script(relevance=revise("It is 2851 km [link_id=1]."), finish=["Answer: 2850 km", "Answer: 2851 km"])
    run = Run()
    answer = await agent(model, form=PHRASE).solve(QUESTION, run)
    assert calls(run)[-4:] == ["finish", "relevance", "grounding", "finish"]
    assert answer.text == "It is 2851 km [1].\n\nAnswer: 2851 km"
    assert PHRASE.extract(str(notes(run, "answer before checks")[0].data["text"])) == "2850 km"


@pytest.mark.parametrize(
    ("finish", "text"),
    [
        (["Answer: 2850 km", " "], "The Danube is 2850 km long [1].\n\nAnswer: 2850 km"),
        (["  "], "The Danube is 2850 km long [1]."),
    ],
)
async def test_a_reply_without_a_short_answer_leaves_the_answer_before(finish: list[Said], text: str) -> None:
    run = Run()
    answer = await agent(script(relevance=revise("It is 2851 km."), finish=finish), form=PHRASE).solve(QUESTION, run)
    assert answer.text == text
    assert run.best == answer
    assert notes(run, "no answer in the form")


def past(count: int, words: int = 40) -> tuple[Any, ...]:
    pairs: list[Any] = []
    for i in range(1, count + 1):
        link = ResultItem(i, f"Title {i}", f"snippet{i} " * words)
        pairs += [Search(f"query {i}", "t"), SelectLink((link,), f"summary {i}", "t")]
    return tuple(pairs)


def test_prompts_are_cut_in_order_old_snippets_exemplars_old_actions() -> None:
    view = View(QUESTION, past(3), remaining=7)
    order = list(cuts(view, shots=3, snippet=160))
    assert [(cut.shots, cut.short, cut.left_out, cut.snippet) for cut in order] == [
        (3, 0, 0, 160),
        (3, 1, 0, 160),
        (3, 2, 0, 160),
        (2, 2, 0, 160),
        (1, 2, 0, 160),
        (1, 2, 2, 160),
        (1, 2, 4, 160),
        (1, 2, 4, 80),
        (1, 2, 4, 40),
        (1, 2, 4, 20),
        (1, 2, 4, 12),
        (0, 2, 4, 12),
    ]
    assert [cut.weakened for cut in order] == [False] + [True] * 11
    sizes = [len(show(view, cut)) for cut in order]
    assert sizes == sorted(sizes, reverse=True)


@given(st.integers(0, 10), st.integers(0, 9), st.integers(1, 8000))
@settings(max_examples=60)
def test_a_prompt_keeps_to_its_limit_and_always_shows_the_question_and_the_latest_search(
    count: int, shots: int, limit: int
) -> None:
    view = View(QUESTION, past(count), remaining=10 - count)
    fitted = agent().fit(DECIDE, view, shots=shots, limit=limit)
    smallest = agent().fit(DECIDE, view, shots=shots, limit=0)
    assert fitted.size == estimate_tokens(tuple(fitted.messages))
    assert fitted.size <= max(limit, smallest.size)
    state = fitted.messages[-1].content
    assert state.count(literal(QUESTION)) == 2
    if count:
        assert f'query="query {count}"' in state
        assert f"summary {count}" in state
        assert f"snippet{count}" in state


async def test_a_model_with_a_smaller_context_than_thought_gets_shorter_prompts() -> None:
    inner = script()

    def small(messages: Sequence[Message], sampling: Sampling) -> Said:
        if estimate_tokens(tuple(messages)) > 1200:
            return ContextLengthExceeded("1200 tokens at most")
        return inner._one(messages, sampling)

    run = Run()
    answer = await agent(ScriptedModel(small)).solve(QUESTION, run)
    assert answer.text == "The Danube is 2850 km long [1]."
    assert 1 <= len(notes(run, "context full")) <= 4
