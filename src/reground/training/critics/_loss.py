"""The pairwise ranking loss for cross-encoders; RankNetLoss of sentence-transformers has no margin."""

from __future__ import annotations

from typing import Any


def pair_loss(model: Any) -> Any:
    """-log sigmoid(s_chosen - s_rejected - margin), as TRL's RewardTrainer has it for decoders."""
    import torch
    from sentence_transformers.util import batch_to_device

    class PairLoss(torch.nn.Module):  # type: ignore[misc]
        """Columns: what is known and the candidate, of the better one and of the worse. The label is the margin."""

        def __init__(self) -> None:
            super().__init__()
            self.model = model

        def forward(self, inputs: list[list[str]], labels: torch.Tensor, **unused: Any) -> torch.Tensor:
            known, chosen, also_known, rejected = inputs
            pairs = [*zip(known, chosen, strict=True), *zip(also_known, rejected, strict=True)]
            scores = self.model(batch_to_device(self.model.preprocess(pairs), self.model.device))["scores"]
            better, worse = torch.chunk(scores.view(-1), 2)
            return -torch.nn.functional.logsigmoid(better - worse - labels.to(better)).mean()

    return PairLoss()
