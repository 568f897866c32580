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
from typing import Any

import torch
from torch import Tensor, nn

from reground.core.errors import ConfigurationError
from reground.training.ppo.equations import entropy, token_logprobs
from reground.training.weights import context_of


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
class Below:
    """What enters the first trained layer: the states of the prefix, [L, width], and of prompts and replies,
    [B, P + T, width]. No step of training changes them.
    """

    prefix: Tensor
    rows: Tensor

    def at(self, rows: Tensor | slice, prompts: Prompts, replies: Replies, *, reply_width: int) -> Below:
        """Those of some rows, as wide as what `at` leaves of their prompts and replies.

        reply_width: the columns that replies have here.
        """
        border = self.rows.shape[1] - reply_width
        begin, end = border - prompts.ids.shape[1], border + replies.tokens.shape[1]
        return Below(self.prefix, self.rows[rows, begin:end])


_NEAR = 1e-3
"""How far states and logits of the two ways may be apart, relative to their size; sums in another order move them
less."""


def frozen_layers(model: Any) -> int:
    """How many of a decoder's first layers, with its embeddings, are not trained; 0 where it cannot be cut there.

    It can where the trained layers alone, given the states below them, and the output layer compute what the whole
    model computes. That is tried, because models differ in what they do around their layers, and some scale or cap
    their logits.
    """
    layers = _layers(model)
    if layers is None or any(each.requires_grad for each in model.get_input_embeddings().parameters()):
        return 0
    trained = (place for place, layer in enumerate(layers) if any(each.requires_grad for each in layer.parameters()))
    frozen = next(trained, 0)
    return frozen if frozen and _agrees(model, frozen) else 0


def upper(model: Any, frozen: int) -> Any:
    """The decoder of a model without its first layers: it reads states as `inputs_embeds`. The weights are shared."""
    whole = model.get_decoder()
    config = copy.deepcopy(whole.config)
    config.num_hidden_layers -= frozen
    if getattr(config, "layer_types", None):
        config.layer_types = config.layer_types[frozen:]
    layers = []
    for place, layer in enumerate(whole.layers[frozen:]):
        moved = _sharing(layer)
        moved.self_attn = _sharing(layer.self_attn)
        moved.self_attn.layer_idx = place  # its place in the cache
        layers.append(moved)
    decoder = _sharing(whole)
    decoder.config = config
    decoder.layers = nn.ModuleList(layers)
    return decoder


def _layers(model: Any) -> nn.ModuleList | None:
    """The layers of a decoder that is built as most are, and None of another model."""
    layers = getattr(model.get_decoder(), "layers", None)
    if not isinstance(layers, nn.ModuleList) or not all(hasattr(each, "self_attn") for each in layers):
        return None
    return layers if len(layers) == model.config.num_hidden_layers else None


def _sharing(module: Any) -> Any:
    """A module with the same weights, whose parts can be exchanged without changing the first one."""
    other = copy.copy(module)
    other._modules = dict(module._modules)  # noqa: SLF001
    return other


def _agrees(model: Any, frozen: int) -> bool:
    device = next(model.parameters()).device
    ids = (torch.arange(16, device=device) % model.get_input_embeddings().num_embeddings)[None]
    with torch.no_grad():
        whole = model(input_ids=ids, output_hidden_states=True)
        try:
            states = upper(model, frozen)(inputs_embeds=whole.hidden_states[frozen]).last_hidden_state
            logits = model.get_output_embeddings()(states)
        except (TypeError, AttributeError, IndexError):  # a model that is built otherwise
            return False
    pairs = ((states, whole.hidden_states[-1]), (logits, whole.logits))
    return all(bool((each - wanted).abs().max() <= _NEAR * wanted.abs().max()) for each, wanted in pairs)


_HELD = 7 / 8
"""The share of the computed rows that must still go on; below it, the ended ones are taken out of the cache."""


def cache_name(model: Any) -> str:
    """What a model calls its keys and values, as an argument and in its output.

    Since transformers 5.24 it is `cache`, before that `past_key_values`.
    """
    plain = model.get_base_model() if hasattr(model, "get_base_model") else model  # peft's own takes any argument
    return "cache" if "cache" in inspect.signature(plain.forward).parameters else "past_key_values"


@dataclass(frozen=True)
class Scored:
    """Of every token its log-probability and, where asked for, the entropy of its state, [B, T]; values of T + 1
    states; what is below the trained layers, where it can be used again.
    """

    logprobs: Tensor
    entropy: Tensor | None
    values: Tensor
    below: Below | None = None


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
        plain = model.get_base_model() if hasattr(model, "get_base_model") else model
        if getattr(plain, "_is_stateful", False):
            raise ConfigurationError("a policy is a model with attention, whose cache holds keys and values")
        self._keeps = "logits_to_keep" in inspect.signature(plain.forward).parameters
        if tokenizer.pad_token_id is None or tokenizer.eos_token_id is None:
            raise ConfigurationError("a policy's tokenizer needs a padding token and an end token")
        self.model = model
        self.tokenizer = tokenizer
        self.ends = ends_of(model, tokenizer)
        # a padding token that ends replies is replaced: masks leave padding out, so any other will do
        pad = tokenizer.pad_token_id
        self.pad = pad if pad not in self.ends else next(n for n in range(len(tokenizer)) if n not in self.ends)
        self.critic = copy.deepcopy(model) if value == "copy" else None
        self.head = nn.Linear(getattr(model.config, "hidden_size", None) or model.config.d_model, 1)
        nn.init.zeros_(self.head.weight)  # the first values are zero, and so the first advantages are the rewards
        nn.init.zeros_(self.head.bias)
        self.head.to(next(model.parameters()).device)
        self.eval()
        self._frozen = frozen_layers(model) if plain is model and not self.apart else 0
        self.reference = None if hasattr(model, "disable_adapter") else copy.deepcopy(model).requires_grad_(False)

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
        # without their last one: the first action is taken at a row's own token
        differ = (place for place, column in enumerate(zip(*rows, strict=False)) if len(set(column)) > 1)
        shared = 0 if self.apart else next(differ, min(map(len, rows)) - 1)
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
                "choose another base, or fewer prompt_tokens or reply_tokens"
            )

    def in_bfloat16(self) -> Any:
        """A copy of the model as it is now for `sample`. Its weights take half the memory traffic.

        Autocast would cast all weights again at every token.
        """
        return copy.deepcopy(self.model).to(torch.bfloat16)

    def sample(self, prompts: Prompts, *, most: int, temperature: float = 1.0, model: Any = None) -> Replies:
        """One reply a prompt, at most `most` tokens.

        Temperature 0 is greedy. model: a copy of the policy's model that samples in its place.
        """
        with torch.no_grad():
            tokens = self._drawn(model or self.model, prompts, most, temperature)
        is_end = torch.isin(tokens, torch.tensor(self.ends, device=tokens.device))
        mask = is_end.long().cumsum(-1) - is_end.long() == 0  # everything up to the first end token, and that one
        return Replies(torch.where(mask, tokens, self.pad), mask, (is_end & mask).any(-1))

    def _drawn(self, model: Any, prompts: Prompts, most: int, temperature: float) -> Tensor:
        """One reply a prompt, [B, most], with padding behind its end token.

        The tokens are drawn here and not by the model's own `generate`, because the defaults that many models bring,
        such as BART's of no repeated words, change their probabilities.
        """
        tokens = torch.full((len(prompts.ids), most), self.pad, device=prompts.ids.device)
        rows = torch.arange(len(tokens), device=tokens.device)
        going = torch.ones_like(rows, dtype=torch.bool)
        ends = torch.tensor(self.ends, device=tokens.device)
        named = cache_name(model)
        state: dict[str, Tensor]
        if self.apart:
            encoded = model.get_encoder()(input_ids=prompts.ids, attention_mask=prompts.mask).last_hidden_state
            state, cache = {"attention_mask": prompts.mask, "encoded": encoded}, None
            read = torch.full_like(prompts.ids[:, :1], model.config.decoder_start_token_id)
        else:
            start, _ = self._prefix(model, prompts)
            read, cache = prompts.ids, start.get(named)
            mask = torch.cat([prompts.mask.new_ones(len(tokens), len(prompts.prefix)), prompts.mask], dim=1)
            places = (mask.cumsum(-1) - 1).clamp(min=0)[:, len(prompts.prefix) :]
            state = {"attention_mask": mask, "position_ids": places}
        for place in range(most):
            given = {named: cache, "use_cache": True}
            if self.apart:
                given |= {"encoder_outputs": (state["encoded"],), "decoder_input_ids": read}
                out = model(attention_mask=state["attention_mask"], **given)
            else:
                out = model(input_ids=read, **state, **given, **self._keep(1))
            cache, logits = out[named], out.logits[:, -1].float()
            if temperature == 0:
                written = logits.argmax(-1)
            else:
                written = torch.multinomial((logits / temperature).softmax(-1), 1)[:, 0]
            tokens[rows[going], place] = written[going]
            going &= ~torch.isin(written, ends)
            if not going.any():
                break
            if going.sum() < _HELD * len(rows):
                kept = going.nonzero()[:, 0]
                cache.batch_select_indices(kept)
                rows, written, going = rows[kept], written[kept], going[kept]
                state = {name: each[kept] for name, each in state.items()}
            read = written[:, None]
            if not self.apart:
                mask, places = state["attention_mask"], state["position_ids"]
                mask = torch.cat([mask, mask.new_ones(len(mask), 1)], dim=1)
                state = {"attention_mask": mask, "position_ids": places[:, -1:] + 1}
        return tokens

    def texts(self, replies: Replies) -> list[str]:
        """The replies' text."""
        rows = [row[kept].tolist() for row, kept in zip(replies.tokens, replies.mask, strict=True)]
        return [str(text).strip() for text in self.tokenizer.batch_decode(rows, skip_special_tokens=True)]

    def forward(
        self,
        prompts: Prompts,
        replies: Replies,
        temperature: float,
        *,
        measured: bool = False,
        below: Below | None = None,
    ) -> Scored:
        """Log-probabilities and values of the current weights, and entropies if they are to be measured.

        With a shared trunk, one pass gives both. Logits are computed for the reply alone. below: of an earlier pass
        over the same rows; the layers under the trained ones are then not computed again.
        """
        logits, hidden, below = self._states(self.model, prompts, replies, below)
        if self.critic is not None:
            _, hidden, _ = self._states(self.critic, prompts, replies, below, logits=False)
        return Scored(
            logprobs=token_logprobs(logits, replies.tokens, temperature=temperature),
            entropy=entropy(logits.detach(), temperature=temperature) if measured else None,
            values=self.head(hidden.to(self.head.weight.dtype))[..., 0].float(),
            below=below,
        )

    def reference_logprobs(
        self, prompts: Prompts, replies: Replies, temperature: float, *, below: Below | None = None
    ) -> Tensor:
        """log pi_0(a_t | s_t): of the model as it was, which is a frozen copy or the model without its adapter."""
        with torch.no_grad(), self._as_it_was() as model:
            logits, _, _ = self._states(model, prompts, replies, below)
        return token_logprobs(logits, replies.tokens, temperature=temperature)

    @contextmanager
    def _as_it_was(self) -> Iterator[Any]:
        with self.model.disable_adapter() if self.reference is None else nullcontext():
            yield self.reference or self.model

    def _states(
        self, model: Any, prompts: Prompts, replies: Replies, below: Below | None, *, logits: bool = True
    ) -> tuple[Tensor, Tensor, Below | None]:
        """The logits at s_0 to s_{T-1}, [B, T, vocabulary], the last layer at s_0 to s_T, [B, T + 1, width], and what
        is below the trained layers, if it can be told.

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
            return out.logits[:, :length], out.decoder_hidden_states[-1], None
        begun = len(prompts.prefix)
        mask = torch.cat([prompts.mask, replies.mask.to(prompts.mask.dtype)], dim=1)
        places = {
            "attention_mask": torch.cat([mask.new_ones(len(mask), begun), mask], dim=1),
            "position_ids": begun + (mask.cumsum(-1) - 1).clamp(min=0),  # padding on the left shifts nothing
        }
        if below is not None:
            hidden = self._above(model, below, places)[:, -length - 1 :]
            return (model.get_output_embeddings()(hidden[:, :-1]) if logits else hidden), hidden, below
        cached, under = self._prefix(model, prompts)
        out = model(
            input_ids=torch.cat([prompts.ids, replies.tokens], dim=1),
            output_hidden_states=True,
            **places,
            **cached,
            **self._keep(length + 1 if logits else 1),
        )
        found = Below(under, out.hidden_states[self._frozen].detach()) if self._frozen else None
        return out.logits[:, -length - 1 : -1], out.hidden_states[-1][:, -length - 1 :], found

    def _above(self, model: Any, below: Below, places: dict[str, Tensor]) -> Tensor:
        """The last layer, [B, P + T, width], computed from the first trained layer on."""
        decoder, cached = upper(model, self._frozen), dict[str, Any](use_cache=False)
        if len(below.prefix):
            named = cache_name(decoder)
            cache = decoder(inputs_embeds=below.prefix[None], use_cache=True)[named]
            cache.batch_repeat_interleave(len(below.rows))
            cached = {named: cache, "use_cache": True}
        states: Tensor = decoder(inputs_embeds=below.rows, **places, **cached).last_hidden_state
        return states

    def _prefix(self, model: Any, prompts: Prompts) -> tuple[dict[str, Any], Tensor]:
        """The keys and values of the prefix, computed once and repeated for every row, and its states below the
        trained layers; gradients pass through.
        """
        if not len(prompts.prefix):
            return {"use_cache": False}, self.head.weight.new_zeros(0, self.head.in_features)
        out = model(input_ids=prompts.prefix[None], use_cache=True, output_hidden_states=True, **self._keep(1))
        named = cache_name(model)
        out[named].batch_repeat_interleave(len(prompts.ids))
        return {named: out[named], "use_cache": True}, out.hidden_states[self._frozen][0].detach()

    def _keep(self, last: int) -> dict[str, int]:
        """Compute logits for the last positions alone, where a model can."""
        return {"logits_to_keep": last} if self._keeps else {}


def ends_of(model: Any, tokenizer: Any) -> list[int]:
    """Every token that ends a reply."""
    said = getattr(model.generation_config, "eos_token_id", None)
    known = said if isinstance(said, list) else [said]
    return sorted({end for end in (*known, tokenizer.eos_token_id) if end is not None})
