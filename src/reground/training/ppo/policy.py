"""A language model as a policy: it samples replies, and gives their log-probabilities and the values of their states.

Decoder-only models read the prompt and the reply as one sequence, encoder-decoders as two. Token ids stay as they were
sampled; text is never tokenised again, because that can change them.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch import nn

from reground.core.errors import ConfigurationError
from reground.training.ppo.equations import entropy, token_logprobs
from reground.training.ppo.settings import ValueModel

if TYPE_CHECKING:
    from torch import Tensor


@dataclass(frozen=True)
class Prompts:
    """Tokenised prompts, [B, P]: padded on the left for a decoder, on the right for an encoder."""

    ids: Tensor
    mask: Tensor


@dataclass(frozen=True)
class Replies:
    """Sampled tokens and where they count, [B, T]. The end token counts; ended is false where there is none, [B]."""

    tokens: Tensor
    mask: Tensor
    ended: Tensor

    def at(self, rows: Tensor) -> Replies:
        """Some rows."""
        return Replies(self.tokens[rows], self.mask[rows], self.ended[rows])


@dataclass(frozen=True)
class Scored:
    """Of every token its log-probability and the entropy of its state, [B, T]; values of T + 1 states."""

    logprobs: Tensor
    entropy: Tensor
    values: Tensor


class Policy(nn.Module):  # type: ignore[misc]
    """A model with a value head.

    model: decoder-only or encoder-decoder, with a LoRA adapter or without. value: `shared` puts the head on the model's
    own last layer; `copy` gives it a copy of the model, as in the paper ("initialized from the policy network").
    Dropout stays off in every pass, because with it the ratio of an unchanged policy is not 1 (Huang et al. 2024).
    """

    def __init__(self, model: Any, tokenizer: Any, *, value: ValueModel = "shared") -> None:
        super().__init__()
        self.apart: bool = model.config.is_encoder_decoder  # prompt and reply are sequences of their own
        if tokenizer.pad_token_id is None or tokenizer.eos_token_id is None:
            raise ConfigurationError("a policy's tokenizer needs a padding token and an end token")
        self.model = model
        self.tokenizer = tokenizer
        self.pad: int = tokenizer.pad_token_id
        self.ends = _ends(model, tokenizer)
        self.critic = copy.deepcopy(model) if value == "copy" else None
        self.head = nn.Linear(_width(model.config), 1)
        nn.init.zeros_(self.head.weight)  # the first values are zero, and so the first advantages are the rewards
        nn.init.zeros_(self.head.bias)
        self.head.to(next(model.parameters()).device)
        self.reference = None if hasattr(model, "disable_adapter") else copy.deepcopy(model).requires_grad_(False)
        self.eval()

    def train(self, mode: bool = True) -> Policy:
        """Leaves dropout off; gradients do not depend on it."""
        super().train(False)
        return self

    def prompts(self, texts: Sequence[str], *, most: int) -> Prompts:
        """Tokenise prompts. A longer one loses its beginning, because the question stands at its end."""
        self.tokenizer.padding_side = "right" if self.apart else "left"
        self.tokenizer.truncation_side = "left"
        made = self.tokenizer(
            list(texts),
            return_tensors="pt",
            padding=True,
            truncation=True,
            max_length=most,
            add_special_tokens=self.apart,
        ).to(self.head.weight.device)
        return Prompts(made["input_ids"], made["attention_mask"])

    def sample(self, prompts: Prompts, *, most: int, temperature: float = 1.0, beams: int = 1) -> Replies:
        """One reply a prompt, at most `most` tokens; with beams, the best one instead of a sample (not on-policy).

        Temperature 0 is greedy.
        """
        drawn = beams == 1 and temperature > 0
        how = {"temperature": temperature, "top_k": 0, "top_p": 1.0} if drawn else {"num_beams": beams}
        with torch.no_grad():
            out = self.model.generate(
                input_ids=prompts.ids,
                attention_mask=prompts.mask,
                max_new_tokens=most,
                do_sample=drawn,
                **how,
                repetition_penalty=1.0,
                eos_token_id=self.ends,
                pad_token_id=self.pad,
            )
        tokens = out[:, 1 if self.apart else prompts.ids.shape[1] :]
        is_end = torch.isin(tokens, torch.tensor(self.ends, device=tokens.device))
        mask = is_end.long().cumsum(-1) - is_end.long() == 0  # everything up to the first end token, and that one
        return Replies(torch.where(mask, tokens, self.pad), mask, (is_end & mask).any(-1))

    def texts(self, replies: Replies) -> list[str]:
        """The replies' text."""
        rows = [row[kept].tolist() for row, kept in zip(replies.tokens, replies.mask, strict=True)]
        return [str(text).strip() for text in self.tokenizer.batch_decode(rows, skip_special_tokens=True)]

    def forward(self, prompts: Prompts, replies: Replies, temperature: float) -> Scored:
        """Log-probabilities, entropies and values of the current weights."""
        logits, hidden = self._states(self.model, prompts, replies)
        if self.critic is not None:
            _, hidden = self._states(self.critic, prompts, replies)
        return Scored(
            logprobs=token_logprobs(logits, replies.tokens, temperature=temperature),
            entropy=entropy(logits.detach(), temperature=temperature),
            values=self.head(hidden.to(self.head.weight.dtype))[..., 0].float(),
        )

    def reference_logprobs(self, prompts: Prompts, replies: Replies, temperature: float) -> Tensor:
        """log pi_0(a_t | s_t): of the model as it was, which is a frozen copy or the model without its adapter."""
        with torch.no_grad(), self._as_it_was() as model:
            logits, _ = self._states(model, prompts, replies)
        return token_logprobs(logits, replies.tokens, temperature=temperature)

    @contextmanager
    def _as_it_was(self) -> Iterator[Any]:
        with self.model.disable_adapter() if self.reference is None else nullcontext():
            yield self.reference or self.model

    def _states(self, model: Any, prompts: Prompts, replies: Replies) -> tuple[Tensor, Tensor]:
        """The logits at s_0 to s_{T-1}, [B, T, vocabulary], and the last layer at s_0 to s_T, [B, T + 1, width]."""
        length = replies.tokens.shape[1]
        if self.apart:
            start = torch.full_like(replies.tokens[:, :1], model.config.decoder_start_token_id)
            out = model(
                input_ids=prompts.ids,
                attention_mask=prompts.mask,
                decoder_input_ids=torch.cat([start, replies.tokens], dim=1),
                output_hidden_states=True,
            )
            return out.logits[:, :length], out.decoder_hidden_states[-1]
        mask = torch.cat([prompts.mask, replies.mask.to(prompts.mask.dtype)], dim=1)
        out = model(
            input_ids=torch.cat([prompts.ids, replies.tokens], dim=1),
            attention_mask=mask,
            position_ids=(mask.cumsum(-1) - 1).clamp(min=0),  # padding on the left shifts nothing
            output_hidden_states=True,
        )
        first = prompts.ids.shape[1] - 1
        return out.logits[:, first:-1], out.hidden_states[-1][:, first:]


def _ends(model: Any, tokenizer: Any) -> list[int]:
    """Every token that ends a reply."""
    said = getattr(model.generation_config, "eos_token_id", None)
    known = said if isinstance(said, list) else [said]
    return sorted({end for end in (*known, tokenizer.eos_token_id) if end is not None})


def _width(config: Any) -> int:
    return int(getattr(config, "hidden_size", None) or config.d_model)
