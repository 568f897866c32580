"""A language model as a policy: it samples replies, and gives their log-probabilities and the values of their states.

Decoder-only models read the prompt and the reply as one sequence, encoder-decoders as two. Token ids stay as they were
sampled; text is never tokenised again, because that can change them.
"""

from __future__ import annotations

import copy
import inspect
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch import nn

from reground.core.errors import ConfigurationError
from reground.training.ppo.equations import entropy, token_logprobs
from reground.training.ppo.settings import ValueModel
from reground.training.weights import context_of

if TYPE_CHECKING:
    from torch import Tensor


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
        used = self.mask[rows].any(0)
        return Prompts(self.ids[rows][:, used], self.mask[rows][:, used], self.prefix)

    def whole(self) -> Prompts:
        """The same prompts with the prefix in every row."""
        shape = (len(self.ids), len(self.prefix))
        ids = torch.cat([self.prefix.expand(shape), self.ids], dim=1)
        return Prompts(ids, torch.cat([self.mask.new_ones(shape), self.mask], dim=1), self.prefix[:0])


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
    """Of every token its log-probability and, where asked for, the entropy of its state, [B, T]; values of T + 1
    states.
    """

    logprobs: Tensor
    entropy: Tensor | None
    values: Tensor


class Policy(nn.Module):  # type: ignore[misc]
    """A model with a value head.

    model: decoder-only or encoder-decoder, with a LoRA adapter or without. value: `shared` puts the head on the model's
    own last layer; `copy` gives it a copy of the model, as in the paper ("initialized from the policy network").
    Dropout stays off in every pass, because with it the ratio of an unchanged policy is not 1 (Huang et al. 2024).
    Padding is not an end token: an end token that counted as padding would never be learned (Huang et al. 2024).
    """

    def __init__(self, model: Any, tokenizer: Any, *, value: ValueModel = "shared") -> None:
        super().__init__()
        self.apart: bool = model.config.is_encoder_decoder  # prompt and reply are sequences of their own
        plain = model.get_base_model() if hasattr(model, "get_base_model") else model
        self._shares = not self.apart and not getattr(plain, "_is_stateful", False)
        self._keeps = "logits_to_keep" in inspect.signature(plain.forward).parameters
        if tokenizer.pad_token_id is None or tokenizer.eos_token_id is None:
            raise ConfigurationError("a policy's tokenizer needs a padding token and an end token")
        self.model = model
        self.tokenizer = tokenizer
        self.ends = _ends(model, tokenizer)
        self.pad = _padding(tokenizer, self.ends)
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
        self.tokenizer.truncation_side = "left"
        rows: list[list[int]] = self.tokenizer(
            list(texts), truncation=True, max_length=most, add_special_tokens=self.apart
        )["input_ids"]
        shared = _common(rows) if self._shares else 0
        lengths = torch.tensor([len(row) - shared for row in rows])
        places = torch.arange(int(lengths.max()))
        mask = places < lengths[:, None] if self.apart else places >= lengths.max() - lengths[:, None]
        ids = torch.full(mask.shape, self.pad)
        ids[mask] = torch.tensor([token for row in rows for token in row[shared:]])
        prefix = torch.tensor(rows[0][:shared], dtype=torch.long)
        device = self.head.weight.device
        return Prompts(ids.to(device), mask.long().to(device), prefix.to(device))

    def check_room(self, prompt: int, reply: int) -> None:
        """Raise ConfigurationError where a prompt and a reply of these many tokens do not fit the model's context."""
        room = context_of(self.model.config)
        needed = max(prompt, reply) if self.apart else prompt + reply
        if needed > room:
            raise ConfigurationError(
                f"the base has room for {room} tokens, and a prompt of {prompt} and a reply of {reply} need {needed}: "
                "choose another base, or fewer --prompt-tokens or --reply-tokens"
            )

    def in_bfloat16(self) -> Any:
        """A copy of the model as it is now for `sample`. Its weights take half the memory traffic.

        Autocast would cast all weights again at every token.
        """
        return copy.deepcopy(self.model).to(torch.bfloat16)

    def sample(
        self, prompts: Prompts, *, most: int, temperature: float = 1.0, beams: int = 1, model: Any = None
    ) -> Replies:
        """One reply a prompt, at most `most` tokens; with beams, the best one instead of a sample (not on-policy).

        Temperature 0 is greedy. model: a copy of the policy's model that samples in its place.
        """
        drawn, prompts = beams == 1 and temperature > 0, prompts.whole()
        how = {"temperature": temperature, "top_k": 0, "top_p": 1.0} if drawn else {"num_beams": beams}
        with torch.no_grad():
            out = (model or self.model).generate(
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

    def forward(self, prompts: Prompts, replies: Replies, temperature: float, *, measured: bool = False) -> Scored:
        """Log-probabilities and values of the current weights, and entropies if they are to be measured.

        With a shared trunk, one pass gives both. Logits are computed for the reply alone.
        """
        logits, hidden = self._states(self.model, prompts, replies)
        if self.critic is not None:
            _, hidden = self._states(self.critic, prompts, replies, logits=False)
        return Scored(
            logprobs=token_logprobs(logits, replies.tokens, temperature=temperature),
            entropy=entropy(logits.detach(), temperature=temperature) if measured else None,
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

    def _states(self, model: Any, prompts: Prompts, replies: Replies, *, logits: bool = True) -> tuple[Tensor, Tensor]:
        """The logits at s_0 to s_{T-1}, [B, T, vocabulary], and the last layer at s_0 to s_T, [B, T + 1, width].

        logits: whether they are needed; without, a decoder computes those of one token alone.
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
        begun = len(prompts.prefix)
        mask = torch.cat([prompts.mask, replies.mask.to(prompts.mask.dtype)], dim=1)
        out = model(
            input_ids=torch.cat([prompts.ids, replies.tokens], dim=1),
            attention_mask=torch.cat([mask.new_ones(len(mask), begun), mask], dim=1),
            position_ids=begun + (mask.cumsum(-1) - 1).clamp(min=0),  # padding on the left shifts nothing
            output_hidden_states=True,
            **self._prefix(model, prompts),
            **self._keep(length + 1 if logits else 1),
        )
        return out.logits[:, -length - 1 : -1], out.hidden_states[-1][:, -length - 1 :]

    def _prefix(self, model: Any, prompts: Prompts) -> dict[str, Any]:
        """The keys and values of the prefix, computed once and repeated for every row; gradients pass through."""
        if not len(prompts.prefix):
            return {"use_cache": False}
        cache = model(input_ids=prompts.prefix[None], use_cache=True, **self._keep(1)).past_key_values
        cache.batch_repeat_interleave(len(prompts.ids))
        return {"past_key_values": cache, "use_cache": True}

    def _keep(self, last: int) -> dict[str, int]:
        """Compute logits for the last positions alone, where a model can."""
        return {"logits_to_keep": last} if self._keeps else {}


def _common(rows: Sequence[Sequence[int]]) -> int:
    """How many tokens all rows begin with, without their last one: the first action is taken at a row's own token."""
    differ = (place for place, column in enumerate(zip(*rows, strict=False)) if len(set(column)) > 1)
    return next(differ, min(map(len, rows)) - 1)


def _ends(model: Any, tokenizer: Any) -> list[int]:
    """Every token that ends a reply."""
    said = getattr(model.generation_config, "eos_token_id", None)
    known = said if isinstance(said, list) else [said]
    return sorted({end for end in (*known, tokenizer.eos_token_id) if end is not None})


def _padding(tokenizer: Any, ends: Sequence[int]) -> int:
    """The padding token, or another token where that one ends a reply. Masks leave it out, so any other will do."""
    pad: int = tokenizer.pad_token_id
    return pad if pad not in ends else next(token for token in range(len(tokenizer)) if token not in ends)


def _width(config: Any) -> int:
    return int(getattr(config, "hidden_size", None) or config.d_model)
