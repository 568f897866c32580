"""A critic that was fitted to trees of planning (CR-Planner, section 2.3): `trained:FOLDER` or `trained:URL`.

FOLDER is what `reground train critics` wrote. Weights are loaded at the first score and shared by all critics of the
folder; calls that wait at the same time are computed together. A critic has documents cut where those of its training
were, whatever the planner shows the generator.

URL is a server with /v1/rerank (llama.cpp, vLLM) that serves the weights; `URL#FOLDER` cuts the texts as FOLDER says.
Servers have their own scales, so their scores decide alone.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast
from weakref import WeakValueDictionary

from reground.core.critic import Critic, Pair
from reground.core.errors import ConfigurationError
from reground.core.journal import fingerprint
from reground.core.language import LanguageModel
from reground.core.run import Run
from reground.critics import Kind
from reground.critics._features import features, weighed
from reground.critics._folder import folder_of, mix_of, read_manifest
from reground.critics._scorers import Queue, open_scorer, require

if TYPE_CHECKING:
    from reground.critics._folder import Manifest


FILES = True


@dataclass(frozen=True)
class TrainedCritic:
    """Weights in this process.

    name: with a fingerprint of the weights. passage_tokens: where documents are cut. mix: what the text's score and
    what else is known of a candidate count; empty where the text decides alone. cosines: whether a score is `SCALE`
    times a cosine, as embedders give it.
    """

    kind: Kind
    name: str
    passage_tokens: int
    queue: Queue = field(repr=False, compare=False)
    mix: Mapping[str, float] = field(default_factory=dict)
    cosines: bool = False

    async def score(self, pairs: Sequence[Pair], run: Run, /) -> Sequence[float]:
        """The model's raw scores; sigmoid of a difference estimates how likely one candidate is the better one."""
        return await self.queue.score([(self.kind, pair) for pair in pairs])

    def weigh(self, scores: Sequence[float], candidates: Sequence[Mapping[str, Any]]) -> list[float]:
        """The scores of siblings joined with what their data say of them, in the order in which they were offered."""
        return weighed(self.mix, scores, features(self.kind, candidates))


def create(kind: str, *, model: LanguageModel, detail: str) -> Critic:
    """The critic of a kind. Raises ConfigurationError for a folder without one, MissingExtra where it cannot run."""
    if not detail:
        raise ConfigurationError("the critic trained needs a folder: trained:FOLDER, or a server: trained:http://...")
    if detail.startswith(("http://", "https://")):
        from reground.critics._served import served

        return served(cast("Kind", kind), detail)
    folder, manifest = read_manifest(Path(detail))
    sub = folder_of(folder, manifest, cast("Kind", kind))
    require(manifest.engine)
    name = f"trained:{manifest.engine} {manifest.weights[sub.name][:12]}"
    mix = mix_of(manifest, cast("Kind", kind))
    name += f" mix {fingerprint('mix', json.dumps(mix, sort_keys=True))[:8]}" if mix else ""
    queue = _queue(folder.resolve(), manifest)
    cosines = manifest.engine == "embedder"
    return TrainedCritic(cast("Kind", kind), name, manifest.passage_tokens, queue, mix, cosines)


_queues: WeakValueDictionary[tuple[Path, str], Queue] = WeakValueDictionary()


def _queue(folder: Path, manifest: Manifest) -> Queue:
    """The folder's queue, one as long as a critic holds it: planners are set up again and again."""
    key = (folder, manifest.model_dump_json())
    queue = _queues.get(key)
    if queue is None:
        queue = _queues[key] = Queue(lambda: open_scorer(folder, manifest))
    return queue
