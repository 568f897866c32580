"""A language model as a policy: it samples replies, and gives their log-probabilities and the values of their states.

Decoder-only models read the prompt and the reply as one sequence, encoder-decoders as two. Token ids stay as they were
sampled; text is never tokenised again, because that can change them.
"""

from __future__ import annotations

import copy
import inspect
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from reground.core.errors import ConfigurationError
from reground.models.hf import Steps, cache_name, padded, plain, prompt_ids
from reground.training.ppo.equations import entropy, token_logprobs


@dataclass(frozen=True)
class Prompts:
    """Tokenised prompts, [B, P]: padded on the left for a decoder, on the right for an encoder.

    prefix: the tokens that all prompts begin with, such as those of a chat template, [L]; they are not in `ids` and are
    computed once for a batch.
    """

    ids: Tensor
    mask: Tensor
    prefix: Tensor

    @property
    def width(self) -> int:
        """The tokens of the longest prompt."""
        return len(self.prefix) + int(self.ids.shape[1])

    def at(self, rows: Tensor | slice) -> Prompts:
        """Some rows, without the columns that are padding in all of them."""
        columns = self.mask[rows].any(0)
        return Prompts(self.ids[rows][:, columns], self.mask[rows][:, columns], self.prefix)


@dataclass(frozen=True)
class Replies:
    """Sampled tokens and where they count, [B, T]. The end token counts; ended is false where there is none, [B]."""

    tokens: Tensor
    mask: Tensor
    ended: Tensor

    @property
    def lengths(self) -> Tensor:
        """The number of tokens of each reply, [B]."""
        return self.mask.sum(-1)

    def at(self, rows: Tensor | slice) -> Replies:
        """Some rows, as wide as the longest of them."""
        width = int(self.lengths[rows].max())
        return Replies(self.tokens[rows, :width], self.mask[rows, :width], self.ended[rows])


@dataclass(frozen=True)
class Scored:
    """Of every token its log-probability and the entropy of its state, [B, T]; the values of T + 1 states."""

    logprobs: Tensor
    entropy: Tensor
    values: Tensor


class Policy(nn.Module):  # type: ignore[misc]
    """A model with a value head.

    model: decoder-only or encoder-decoder, with a LoRA adapter or without. value: `shared` puts the head on the model's
    own last layer; `copy` gives it a copy of the model, as in the paper ("initialized from the policy network").
    Dropout stays off in every pass, because with it the ratio of an unchanged policy is not 1 (Huang et al. 2024).
    Padding is not an end token: an end token that counted as padding would never be learned (Huang et al. 2024).
    """

    def __init__(self, model: Any, tokenizer: Any, *, value: str = "shared") -> None:
        super().__init__()
        self.apart: bool = model.config.is_encoder_decoder  # prompt and reply are sequences of their own
        if getattr(plain(model), "_is_stateful", False):
            raise ConfigurationError("a policy is a model with attention, whose cache holds keys and values")
        if tokenizer.pad_token_id is None or tokenizer.eos_token_id is None:
            raise ConfigurationError("a policy's tokenizer needs a padding token and an end token")
        self._keeps = "logits_to_keep" in inspect.signature(plain(model).forward).parameters
        self.model = model
        self.tokenizer = tokenizer
        ends = getattr(model.generation_config, "eos_token_id", None)
        ends = ends if isinstance(ends, list) else [ends]
        self.ends = sorted({end for end in (*ends, tokenizer.eos_token_id) if end is not None})
        # a padding token that ends replies is replaced: masks leave padding out, so any other will do
        pad = tokenizer.pad_token_id
        self.pad = pad if pad not in self.ends else next(n for n in range(len(tokenizer)) if n not in self.ends)
        self.critic = copy.deepcopy(model) if value == "copy" else None
        self.head = nn.Linear(getattr(model.config, "hidden_size", None) or model.config.d_model, 1)
        nn.init.zeros_(self.head.weight)  # the first values are zero, and so the first advantages are the rewards
        nn.init.zeros_(self.head.bias)
        self.head.to(next(model.parameters()).device)
        self.eval()
        self.reference = None if hasattr(model, "disable_adapter") else copy.deepcopy(model).requires_grad_(False)

    def train(self, mode: bool = True) -> Policy:
        """Leaves dropout off; gradients do not depend on it."""
        super().train(False)
        return self

    def prompts(self, texts: Sequence[str], *, most: int) -> Prompts:
        """Tokenise prompts. A longer one loses its beginning, because the question stands at its end."""
        rows = [prompt_ids(self.tokenizer, text, apart=self.apart)[-most:] for text in texts]
        # without their last one: the first action is taken at a row's own token
        differ = (place for place, column in enumerate(zip(*rows, strict=False)) if len(set(column)) > 1)
        shared = 0 if self.apart else next(differ, min(map(len, rows)) - 1)
        batch = padded([row[shared:] for row in rows], self.pad, side="right" if self.apart else "left")
        prefix = torch.tensor(rows[0][:shared], dtype=torch.long)
        return Prompts(*(each.to(self.head.weight.device) for each in (*batch.values(), prefix)))

    def sample(self, prompts: Prompts, *, most: int, temperature: float = 1.0, model: Any = None) -> Replies:
        """One reply a prompt, at most `most` tokens.

        Temperature 0 is greedy. model: a copy of the policy's model that samples in its place.
        """
        with torch.no_grad():
            tokens = self._sample_tokens(model or self.model, prompts, most, temperature)
        is_end = torch.isin(tokens, torch.tensor(self.ends, device=tokens.device))
        mask = is_end.long().cumsum(-1) - is_end.long() == 0  # everything up to the first end token, and that one
        return Replies(torch.where(mask, tokens, self.pad), mask, (is_end & mask).any(-1))

    def _sample_tokens(self, model: Any, prompts: Prompts, most: int, temperature: float) -> Tensor:
        """One reply a prompt, [B, most], with padding behind its end token.

        The tokens are drawn here and not by the model's own `generate`, because the defaults that many models bring,
        such as BART's of no repeated words, change their probabilities.
        """
        tokens = torch.full((len(prompts.ids), most), self.pad, device=prompts.ids.device)
        ends = torch.tensor(self.ends, device=tokens.device)
        rows = torch.arange(len(tokens), device=tokens.device)
        mask = torch.cat([prompts.mask.new_ones(len(rows), len(prompts.prefix)), prompts.mask], dim=1)
        steps = Steps(model, prompts.ids, mask, cache=self._prefix(model, prompts).get(cache_name(model)))
        read = steps.first
        for place in range(most):
            logits = steps(read)
            if temperature == 0:
                token = logits.argmax(-1)
            else:
                token = torch.multinomial((logits / temperature).softmax(-1), 1)[:, 0]
            tokens[rows, place] = token
            going = (~torch.isin(token, ends)).nonzero()[:, 0]
            if not len(going):
                break
            if len(going) < len(rows):  # what has ended is not computed further
                rows = steps.select(going, rows)
            read = token[going, None]
        return tokens

    def texts(self, replies: Replies) -> list[str]:
        """The replies' text."""
        rows = [row[mask].tolist() for row, mask in zip(replies.tokens, replies.mask, strict=True)]
        return [str(text).strip() for text in self.tokenizer.batch_decode(rows, skip_special_tokens=True)]

    def forward(self, prompts: Prompts, replies: Replies, temperature: float) -> Scored:
        """What the current weights say of replies. With a shared trunk, one pass gives all of it."""
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
        with torch.no_grad():
            if self.reference is not None:
                logits, _ = self._states(self.reference, prompts, replies)
            else:
                with self.model.disable_adapter():
                    logits, _ = self._states(self.model, prompts, replies)
        return token_logprobs(logits, replies.tokens, temperature=temperature)

    def _states(self, model: Any, prompts: Prompts, replies: Replies) -> tuple[Tensor, Tensor]:
        """The logits at s_0 to s_{T-1}, [B, T, vocabulary], and the last layer at s_0 to s_T, [B, T + 1, width].

        Logits are computed for the reply alone, where a model can.
        """
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
        offset = len(prompts.prefix)
        mask = torch.cat([prompts.mask, replies.mask.to(prompts.mask.dtype)], dim=1)
        out = model(
            input_ids=torch.cat([prompts.ids, replies.tokens], dim=1),
            attention_mask=torch.cat([mask.new_ones(len(mask), offset), mask], dim=1),
            position_ids=offset + (mask.cumsum(-1) - 1).clamp(min=0),  # padding on the left shifts nothing
            output_hidden_states=True,
            **self._prefix(model, prompts),
            **self._keep(length + 1),
        )
        return out.logits[:, -length - 1 : -1], out.hidden_states[-1][:, -length - 1 :]

    def _prefix(self, model: Any, prompts: Prompts) -> dict[str, Any]:
        """The keys and values of the prefix, computed once and repeated for every row; gradients pass through."""
        if not len(prompts.prefix):
            return {"use_cache": False}
        key = cache_name(model)
        cache = model(input_ids=prompts.prefix[None], use_cache=True, **self._keep(1))[key]
        cache.batch_repeat_interleave(len(prompts.ids))
        return {key: cache, "use_cache": True}

    def _keep(self, last: int) -> dict[str, int]:
        return {"logits_to_keep": last} if self._keeps else {}
