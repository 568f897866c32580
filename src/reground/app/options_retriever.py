"""The options of `train retriever`, a class for each stage; see `reground.app.options`."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from reground.app.options import Data, Fresh
from reground.app.options_documents import Language
from reground.app.options_training import TrainingFolder
from reground.training.retriever.settings import Mining, RetrieverFitting


@dataclass(frozen=True, kw_only=True)
class RetrieverFolder(TrainingFolder):
    """The folder that the stages share."""

    out: Path = Path("runs/retriever")


@dataclass(frozen=True, kw_only=True)
class RetrieverData(RetrieverFolder, Mining, Data, Language):
    """The options of `train retriever data`."""

    tasks: str = ""
    """Training splits to take questions from, separated by commas, such as hotpotqa_train,popqa_train."""

    corpus: Path | None = field(default=None, metadata={"short": "-c"})
    """Your own documents; by default each task's corpus."""

    questions: Path | None = None
    """Questions on your documents, a JSONL file with `question` and `passage`, the id or title of its document. Without
    questions or tasks, sentences of the documents stand in for questions."""

    limit: int = field(default=0, metadata={"min": 0})
    """The most questions of each source, in its order; 0 means all, and 2000 sentences where there are no questions."""


@dataclass(frozen=True, kw_only=True)
class RetrieverFit(RetrieverFolder, RetrieverFitting, Fresh):
    """The options of `train retriever fit`."""

    fresh: bool = False
    """Begin the fit again and discard its checkpoints."""


@dataclass(frozen=True, kw_only=True)
class RetrieverRank(RetrieverFolder):
    """The options of `train retriever rank`."""

    rerank_depth: int = field(default=30, metadata={"min": 1, "panel": "Retrieval"})
    """The number of first passages that are reranked."""


@dataclass(frozen=True, kw_only=True)
class RetrieverEval(RetrieverFolder, Data):
    """The options of `train retriever eval`."""

    task: str | None = field(default=None, metadata={"short": "-t"})
    """The task whose questions and corpus measure; by default the questions that were held out."""

    limit: int = field(default=0, metadata={"min": 0})
    """The number of questions, drawn by the seed; 0 means all."""

    seed: int = 0
    """Draws the questions."""
