"""What a measurement must not find on the web: benchmarks' own pages, and pages that hold its questions."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from yarl import URL

from reground.retrieval.decontaminate import Decontaminator

DATASET_HOSTS = frozenset(
    (
        "huggingface.co",
        "hf.co",
        "kaggle.com",
        "paperswithcode.com",
        "hotpotqa.github.io",
        "allenai.org",
        "nlp.cs.washington.edu",
        "github.com",
        "raw.githubusercontent.com",
        "gist.github.com",
    )
)
"""Where benchmarks and their copies lie."""


@dataclass(frozen=True)
class Blocklist:
    """hosts: left out with all beneath them. questions: finds pages that share ten words in a row with a question."""

    hosts: frozenset[str] = frozenset()
    questions: Decontaminator | None = None

    @classmethod
    def of(cls, questions: Iterable[str], hosts: frozenset[str] = DATASET_HOSTS) -> Blocklist:
        """The list for measuring with these questions."""
        return cls(hosts, Decontaminator(questions))

    def why_not(self, url: str) -> str | None:
        """Why an address is left out; None where it is not."""
        host = (URL(url).host or "").rstrip(".")  # a dot at the end names the same host
        parents = {host.split(".", cut)[-1] for cut in range(host.count("."))}
        return "its host is on the list of blocked ones" if parents & self.hosts else None

    def why_not_text(self, text: str) -> str | None:
        """Why a text is left out; None where it is not."""
        if self.questions is None or self.questions.overlap(text) is None:
            return None
        return "it holds a question of the benchmark"
