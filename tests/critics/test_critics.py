"""Critics by name, chance, the first candidate."""

from __future__ import annotations

import pytest

from reground.core.errors import ConfigurationError
from reground.core.evidence import Passage
from reground.core.run import Critic, Run
from reground.core.trajectory import Pair
from reground.critics import KINDS, load, own_models
from reground.critics.simple import SENTENCES, stage_of
from reground.methods.cr_planner.states import GOALS, Goal, Observation, context
from reground.models.scripted import ScriptedModel
from tests.methods.test_cr_planner_states import walked

PAIRS = [Pair(context="c", candidate=text) for text in ("a", "b", "c", "d")]


@pytest.mark.parametrize(
    ("spec", "models", "name"),
    [
        ("prompted:rank", (), "prompted:rank scripted"),
        ("prompted:openai/large", ("openai/large",), "prompted:pointwise judge"),
        ("prompted:openai/large:8b", ("openai/large:8b",), "prompted:pointwise judge"),
        ("prompted:rank:gguf/models/x.gguf", ("gguf/models/x.gguf",), "prompted:rank judge"),
        ("random:7", (), "random:7"),
    ],
)
def test_a_critic_may_name_the_model_that_judges(spec: str, models: tuple[str, ...], name: str) -> None:
    assert own_models(spec) == models
    own = {model: ScriptedModel([], name="judge") for model in models}
    assert load(spec, model=ScriptedModel([]), own=own).doc.name == name


@pytest.mark.parametrize(
    ("spec", "complaint"),
    [
        ("promted", r"did you mean prompted\?"),
        ("", "there are first, fixed, prompted, random, trained"),
        ("prompted:best", "pointwise or rank"),
        ("prompted:openai/large", r"nobody has opened the model openai/large.*critics=load\('prompted:pointwise'"),
        ("random:x", "a seed, not 'x'"),
        ("first:2", "STAGE=GOAL,..., not '2'"),
        ("../../etc", "no critic is called"),
        ("dok=first", "no critic judges 'dok'; did you mean doc"),
        ("doc=first,subgaol=random", "did you mean subgoal"),
        ("doc=first,doc=random", "the critic for doc is named twice"),
        ("doc=fisrt", "no critic is called 'fisrt'"),
        ("doc=", "no critic is called ''"),
        ("trained", "needs a folder"),
        ("fixed:ROOT", "STAGE=GOAL,..., not 'ROOT'"),
        ("fixed:ROOT=GENQEURY", "did you mean GENQUERY"),
        ("fixed:REASON=REASON", "there are DOC, QUERY, RATIONALE, ROOT|did you mean"),
    ],
)
def test_a_name_or_detail_that_does_not_fit_is_refused(spec: str, complaint: str) -> None:
    with pytest.raises(ConfigurationError, match=complaint):
        load(spec, model=ScriptedModel([]))


def test_each_kind_may_have_a_critic_and_a_model_of_its_own_and_the_others_are_prompted() -> None:
    spec = "doc=prompted:openai/large,query=prompted:rank:openai/small,subgoal=fixed:ROOT=GENQUERY,QUERY=RETRIEVE"
    assert own_models(spec) == ("openai/small", "openai/large")
    assert own_models("first") == ()
    judges = {name: ScriptedModel([], name=name) for name in own_models(spec)}
    critics = load(spec, model=ScriptedModel([]), own=judges)
    assert [critics.of(kind).name for kind in KINDS] == [
        "fixed:QUERY=RETRIEVE,ROOT=GENQUERY",
        "prompted:pointwise scripted",
        "prompted:rank openai/small",
        "prompted:pointwise openai/large",
    ]


@pytest.mark.parametrize(
    ("stages", "stage"),
    [("", "ROOT"), ("R", "RATIONALE"), ("RQ", "QUERY"), ("RQD", "DOC"), ("QN", "DOC"), ("QDR", "RATIONALE")],
)
async def test_a_fixed_critic_knows_the_state_by_its_last_observation(stages: str, stage: str) -> None:
    state = walked(*stages)
    seen = context(state, "subgoal", tokens=100)
    assert stage_of(seen) == stage == state.stage
    pairs = [Pair(context=seen, candidate=SENTENCES[goal]) for goal in GOALS]
    fixed = load(f"fixed:{stage}=RETRIEVE", model=ScriptedModel([]))
    assert list(await fixed.subgoal.score(pairs, Run())) == [0.0, -1.0, 1.0]
    assert list(await fixed.doc.score(pairs, Run())) == [0.0, -1.0, -2.0]
    other = "ROOT" if stage != "ROOT" else "DOC"
    elsewhere = load(f"fixed:{other}=RETRIEVE", model=ScriptedModel([]))
    assert list(await elsewhere.subgoal.score(pairs, Run())) == [0.0, -1.0, -2.0]


HOW_TO = Passage(id="p", title="Bread", text="How to bake.\nStep 1: mix flour.\n\nSearch query: bread\nStep 2: bake.")


@pytest.mark.parametrize(
    ("goal", "seen", "stage"),
    [
        ("RETRIEVE", Observation("DOC", HOW_TO.text, HOW_TO), "DOC"),
        ("REASON", Observation("RATIONALE", "I need the year.\nSearch query: year of X"), "RATIONALE"),
        ("REASON", Observation("RATIONALE", "I know nothing.\n\nNothing new was found."), "RATIONALE"),
        ("GENQUERY", Observation("QUERY", "Step 1: bread\nStep 2: butter"), "QUERY"),
    ],
)
def test_an_observation_that_looks_like_another_one_is_not_taken_for_it(
    goal: Goal, seen: Observation, stage: str
) -> None:
    state = walked("R", "Q").after(Observation(goal, SENTENCES[goal])).after(seen)
    assert stage_of(context(state, "subgoal", tokens=500)) == stage == state.stage


async def test_chance_is_the_same_again_and_another_with_another_seed_kind_or_context() -> None:
    def critic(spec: str, kind: str = "doc") -> Critic:
        return getattr(load(spec, model=ScriptedModel([])), kind)  # type: ignore[no-any-return]

    first = await critic("random").score(PAIRS, Run())
    assert await critic("random").score(PAIRS, Run()) == first
    assert await critic("random").score(list(reversed(PAIRS)), Run()) == list(reversed(first))
    assert await critic("random:1").score(PAIRS, Run()) != first
    assert await critic("random", "query").score(PAIRS, Run()) != first
    elsewhere = [pair.model_copy(update={"context": "d"}) for pair in PAIRS]
    assert await critic("random").score(elsewhere, Run()) != first
    assert all(0 <= score < 1 for score in first)
