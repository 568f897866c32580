"""The pairwise ranking loss; RankNetLoss of sentence-transformers has no margin, and none for embedders."""

from __future__ import annotations

from typing import Any

from reground.critics._scorers import SCALE


def ranking(better: Any, worse: Any, margins: Any) -> Any:
    """-log sigmoid(s_chosen - s_rejected - margin), as TRL's RewardTrainer has it for decoders."""
    from torch.nn.functional import logsigmoid

    return -logsigmoid(better - worse - margins.to(better)).mean()


def crossed_loss(model: Any) -> Any:
    """The loss of a cross-encoder."""
    import torch
    from sentence_transformers.util import batch_to_device

    class CrossedLoss(torch.nn.Module):  # type: ignore[misc]
        """Columns: what is known and the candidate, of the better one and of the worse. The label is the margin."""

        def __init__(self) -> None:
            super().__init__()
            self.model = model

        def forward(self, inputs: list[list[str]], labels: torch.Tensor, **unused: Any) -> torch.Tensor:
            known, chosen, also_known, rejected = inputs
            pairs = [*zip(known, chosen, strict=True), *zip(also_known, rejected, strict=True)]
            scores = self.model(batch_to_device(self.model.preprocess(pairs), self.model.device))["scores"]
            better, worse = torch.chunk(scores.view(-1), 2)
            return ranking(better, worse, labels)

    return CrossedLoss()


def embedded_loss(model: Any) -> Any:
    """The loss of an embedder, whose score is the scaled cosine."""
    import torch
    from torch.nn.functional import cosine_similarity

    class EmbeddedLoss(torch.nn.Module):  # type: ignore[misc]
        """Columns: what is known, the better and the worse candidate. The label is the margin."""

        def __init__(self) -> None:
            super().__init__()
            self.model = model

        def forward(self, sentence_features: Any, labels: torch.Tensor, **unused: Any) -> torch.Tensor:
            known, chosen, rejected = (self.model(each)["sentence_embedding"] for each in sentence_features)
            better, worse = (SCALE * cosine_similarity(known, each) for each in (chosen, rejected))
            return ranking(better, worse, labels)

    return EmbeddedLoss()
