"""Rerankers that read question and passage together: a trained critic, a cross-encoder, a server with /v1/rerank.

All are critics of documents underneath, so weights are loaded once, and calls that wait at the same time are computed
together.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, cast

from reground.core.errors import ConfigurationError, ModelError
from reground.core.evidence import Passage
from reground.core.files import files_fingerprint, model_place, quietly, trouble
from reground.core.http import check_address
from reground.core.trajectory import Pair
from reground.core.untrusted import clip
from reground.critics.scorers import Item, Queue, head, require
from reground.critics.trained import ServedCritic

WINDOW = 128
"""Tokens of a query and a passage that a cross-encoder reads: its time grows with them."""
_MOST_CHARACTERS = 20_000  # of a passage: more than any window
_WORD = re.compile(r"\w+|[^\w\s]")
_SERVED_WORDS = 300  # of a passage, for servers whose window is not known; most read 512 tokens

Score = Callable[[Sequence[Pair]], Any]
Weigh = Callable[[Sequence[float], Sequence[Mapping[str, Any]]], Sequence[float]]


@dataclass(frozen=True)
class Judge:
    """A critic of documents as a reranker. frame: the words that it expects before the query.

    most: the tokens of a passage that it reads. is_here: whether its weights are in this process. Then a fault is not
    passing, and it ends the run. weigh: joins the scores with those of the search. cosines: whether a score is
    `critics.scorers.SCALE` times a cosine and not a logit.
    """

    name: str
    score: Score
    frame: str = ""
    most: int | None = None
    is_here: bool = True
    weigh: Weigh | None = None
    cosines: bool = False

    async def scores(self, query: str, passages: Sequence[Passage], /) -> Sequence[float]:
        """The critic's scores. Raises ConfigurationError for weights that cannot be used, ModelError for a server."""
        texts = [passage.text if self.most is None else clip(passage.text, self.most) for passage in passages]
        pairs = [
            Pair(context=f"{self.frame}{query}", candidate=f"{passage.title}\n{text}".strip()[:_MOST_CHARACTERS])
            for passage, text in zip(passages, texts, strict=True)
        ]
        scores = await self.judged(pairs)
        return scores if self.weigh is None else self.weigh(scores, [{"score": each.score} for each in passages])

    async def judged(self, pairs: Sequence[Pair]) -> Sequence[float]:
        """The score of each query (the context, with `frame` before it) with its passage (the candidate).

        Raises ConfigurationError for weights that cannot be used, ModelError for a server.
        """
        try:
            return cast("Sequence[float]", await self.score(pairs))
        except ModelError as error:
            if self.is_here:
                raise ConfigurationError(str(error)) from error
            raise


def critic(place: str) -> Judge:
    """The document critic of a folder that `reground train critics` wrote, or of a server with such a critic.

    It reads passages as long as those of its training. Raises ConfigurationError, MissingExtra.
    """
    from reground.critics.trained import TrainedCritic, create

    scorer = create("doc", model=cast("Any", None), detail=place)  # a trained critic calls no model
    judge = Judge(
        scorer.name,
        lambda pairs: scorer.score(pairs, cast("Any", None)),
        frame="Question:\n",
        most=getattr(scorer, "passage_tokens", None),
    )
    if not isinstance(scorer, TrainedCritic):
        return judge
    quick = replace(scorer, queue=Queue(lambda: _Quick(scorer.queue.load().scores)))
    score: Score = lambda pairs: quick.score(pairs, cast("Any", None))  # noqa: E731
    return replace(judge, score=score, weigh=scorer.weigh, cosines=scorer.cosines)


@dataclass(frozen=True)
class _Quick:
    """A scorer that computes in bfloat16: for the order of many passages that is enough."""

    score: Callable[[Sequence[Item]], list[float]]

    def scores(self, items: Sequence[Item]) -> list[float]:
        with bfloat16():
            return self.score(items)


def cross_encoder(name: str, tokens: int = WINDOW, *, entailment: bool = False) -> Judge:
    """A cross-encoder of sentence-transformers, from a folder or a hub.

    tokens: the most that it reads of query and passage together. entailment: one that gives a number for each of
    several labels, entailment among them, gives the log-odds that the passage entails the query; without this it is
    refused. Raises ConfigurationError, MissingExtra.
    """
    require("encoder")
    folder = Path(model_place(name, f"reranker cross-encoder:{name}"))
    weights = files_fingerprint(folder) if folder.is_dir() else None
    queue = Queue(lambda: _Quick(_loaded(str(folder) if folder.is_dir() else name, tokens, entailment)))
    label = f"cross-encoder:{folder.name} {weights[:12]}" if weights else f"cross-encoder:{name}"
    return Judge(f"{label} {tokens}", lambda pairs: queue.score([("doc", pair) for pair in pairs]))


def _loaded(name: str, tokens: int, entailment: bool) -> Callable[[Sequence[Item]], list[float]]:
    """A model, as what gives the logits of pairs, or the log-odds of entailment."""
    from sentence_transformers import CrossEncoder

    from reground.critics.scorers import entailed, exact_head, predicted

    try:
        with quietly():
            model = exact_head(CrossEncoder(name))
            window = "max_seq_length" if hasattr(model, "max_seq_length") else "max_length"  # before 6.0
            setattr(model, window, min(tokens, getattr(model, window) or tokens))
    except Exception as error:  # libraries have many words for damaged weights
        why = trouble(error, name)
        raise ModelError(f"the cross-encoder {Path(name).name} could not be loaded: {why}") from error
    label = _entailment(model) if entailment else None
    if label is None:
        return lambda items: predicted(model, [(pair.context, pair.candidate) for _, pair in items])
    # Such models read what entails first.
    return lambda items: entailed(model, [(pair.candidate, pair.context) for _, pair in items], label)


def _entailment(model: Any) -> int | None:
    """The number of the label entailment; None for a model with one score. Raises ModelError where none is named so."""
    if model.num_labels == 1:
        return None
    labels = {number: str(label).casefold() for number, label in model.config.id2label.items()}
    numbers = [int(number) for number, label in labels.items() if label.startswith("entail")]
    if len(numbers) != 1:
        raise ModelError(f"the cross-encoder names no label entailment: it has {', '.join(labels.values())}"[:300])
    return numbers[0]


def bfloat16() -> AbstractContextManager[Any]:
    """Compute in bfloat16 where the device has it: twice as fast, and the order of passages stays.

    Eight-bit weights are little faster on such a processor and change the order (see docs/benchmarks.md).
    """
    import torch

    device = "cuda" if torch.cuda.is_available() else "cpu"
    capabilities: dict[str, bool] = getattr(torch.cpu, "get_capabilities", dict)()
    has = (
        torch.cuda.is_bf16_supported()
        if device == "cuda"
        else capabilities.get("avx512_bf16") or capabilities.get("amx_bf16")
    )
    context: AbstractContextManager[Any] = torch.autocast(device, dtype=torch.bfloat16, enabled=bool(has))
    return context


def server(url: str) -> Judge:
    """A server with POST URL/v1/rerank, as llama.cpp (`--reranking`), vLLM, TEI's proxies and Jina have it.

    The key, if it asks for one, is in RERANK_API_KEY. Raises ConfigurationError for an address that is none.
    """
    check_address(url, "the reranker's address")
    if not re.match(r"https?://[^/@\s]+(/|$)", url):
        raise ConfigurationError("the reranker's address must look like llama-server:http://localhost:8080")
    url = url.rstrip("/")
    if not url.endswith("/rerank"):
        url = f"{url}/rerank" if url.endswith("/v1") else f"{url}/v1/rerank"

    def read(pair: Pair) -> tuple[str, str]:
        """Query and passage as they are."""
        return pair.context, head(pair.candidate, _SERVED_WORDS, lambda text: [w.span() for w in _WORD.finditer(text)])

    served = ServedCritic(f"llama-server:{url}", url, read)
    return Judge(served.name, lambda pairs: served.score(pairs, cast("Any", None)), is_here=False)
