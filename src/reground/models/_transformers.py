"""Decodes a batch of calls with transformers: padding, sampling, stop strings, log-probabilities, counts."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import lru_cache
from typing import Any, Protocol

import torch
from transformers import GenerationConfig, StoppingCriteriaList

from reground.core.errors import ContextLengthExceeded, ModelError
from reground.core.language import Reply, Sampling, TokenLogprob, Usage
from reground.core.untrusted import neutralise

_PIECES = 8  # tokens decoded before a stop string, so that characters made of several tokens are whole


class Call(Protocol):
    """A caller's turns, its sampling, and whether it was cancelled."""

    turns: list[dict[str, str]]
    sampling: Sampling
    cancelled: threading.Event


class Decoder:
    """A loaded model and its tokenizer. Not for several threads at once."""

    def __init__(self, name: str, weights: Any, tokenizer: Any) -> None:
        self._name = name
        self._weights = weights
        self._tokenizer = tokenizer
        self._context: int = getattr(weights.config, "max_position_embeddings", None) or 1 << 30
        self._apart: bool = weights.config.is_encoder_decoder  # prompt and reply are separate sequences
        ends = weights.generation_config.eos_token_id
        known = ends if isinstance(ends, list) else [ends]
        self._ends = sorted({end for end in (*known, tokenizer.eos_token_id) if end is not None})

    def decode(self, calls: Sequence[Call]) -> list[list[Reply]]:
        """Replies for calls of one sampling, in their order."""
        sampling = calls[0].sampling
        prompts = [prompt_text(self._tokenizer, call.turns, apart=self._apart) for call in calls]
        encoded = self._tokenizer(prompts, add_special_tokens=self._apart, padding=True, return_tensors="pt")
        lengths: list[int] = encoded["attention_mask"].sum(dim=1).tolist()
        room = self._context - (1 if self._apart else max(lengths))
        if room < 1 or max(lengths) > self._context:
            raise ContextLengthExceeded(
                f"the prompt has {max(lengths)} tokens and {self._name} has room for {self._context}: "
                "retrieve fewer or shorter passages"
            )
        encoded = encoded.to(self._weights.device)
        start = 1 if self._apart else encoded["input_ids"].shape[1]  # a separate decoder begins with one start token
        watch = _Watch(self._tokenizer, calls, start)
        with torch.inference_mode(), _seeded(sampling):
            out = self._weights.generate(
                input_ids=encoded["input_ids"],
                attention_mask=encoded["attention_mask"],
                generation_config=self._config(sampling, min(sampling.max_tokens, room)),
                stopping_criteria=StoppingCriteriaList([watch]),
            )
        return self._replies(calls, lengths, out, start)

    def _config(self, sampling: Sampling, length: int) -> Any:
        """Every setting is given, because the model's own defaults replace any that is missing."""
        sampled = sampling.temperature > 0
        return GenerationConfig(
            max_new_tokens=length,
            do_sample=sampled,
            num_return_sequences=sampling.n if sampled else 1,
            temperature=sampling.temperature if sampled else 1.0,
            top_p=sampling.top_p if sampled else 1.0,
            top_k=0 if sampled else 50,  # 0 is off; greedy decoding complains of anything but the default
            repetition_penalty=1.0,
            no_repeat_ngram_size=0,
            min_length=0,
            num_beams=1,
            eos_token_id=self._ends,
            pad_token_id=self._tokenizer.pad_token_id,
            return_dict_in_generate=True,
            output_logits=sampling.logprobs,
        )

    def _replies(self, calls: Sequence[Call], lengths: list[int], out: Any, start: int) -> list[list[Reply]]:
        sampling = calls[0].sampling
        rows: list[list[int]] = out.sequences[:, start:].tolist()
        scores = _chosen(out, start) if sampling.logprobs else [None] * len(rows)
        written = [self._written(row, score, sampling) for row, score in zip(rows, scores, strict=True)]
        each = len(rows) // len(calls)
        answers = []
        for number, prompt in enumerate(lengths):
            mine = written[number * each : (number + 1) * each]
            mine *= sampling.n // each  # greedy replies are all the same and decoded once
            usage = Usage(calls=1, prompt=prompt, completion=sum(count for _, count in mine))
            first, *others = [reply for reply, _ in mine]
            answers.append([first.model_copy(update={"usage": usage}), *others])
        return answers

    def _written(self, row: list[int], scores: list[float] | None, sampling: Sampling) -> tuple[Reply, int]:
        """One reply and its number of tokens, including the end token."""
        end = next((at for at, token in enumerate(row) if token in self._ends), None)
        ids = row if end is None else row[:end]
        text = self._text(ids)
        cuts = [at for at in (text.find(stop) for stop in sampling.stop) if at >= 0]
        if not cuts:
            count = len(ids) + (end is not None)
            finish = "length" if end is None else "stop"
            return Reply(text=text, finish_reason=finish, token_logprobs=self._tokens(ids, scores, len(text))), count
        cut = min(cuts)
        stop = next(stop for stop in sampling.stop if text.startswith(stop, cut))
        count = next(n for n in range(1, len(ids) + 1) if len(self._text(ids[:n])) >= cut + len(stop))
        tokens = self._tokens(ids[:count], scores, cut)
        return Reply(text=text[:cut], finish_reason="stop", token_logprobs=tokens), count

    def _text(self, ids: list[int]) -> str:
        """Decoded text, without an incomplete last character."""
        text: str = self._tokenizer.decode(ids, skip_special_tokens=True, clean_up_tokenization_spaces=False)
        return text.rstrip("\ufffd")

    def _tokens(self, ids: list[int], scores: list[float] | None, length: int) -> tuple[TokenLogprob, ...] | None:
        """The tokens that spell the first `length` characters. Tokens of one character are merged."""
        if scores is None:
            return None
        tokens: list[TokenLogprob] = []
        done = 0
        for count, score in zip(range(1, len(ids) + 1), scores, strict=False):
            text = self._text(ids[:count])[:length]
            if len(text) > done:
                tokens.append(TokenLogprob(token=text[done:], logprob=min(0.0, score)))
                done = len(text)
        return tuple(tokens)


class _Watch:
    """A stopping criterion: ends a row at a stop string, or when its call was cancelled."""

    def __init__(self, tokenizer: Any, calls: Sequence[Call], start: int) -> None:
        self._tokenizer = tokenizer
        self._calls = calls
        self._start = start
        self._stops = calls[0].sampling.stop
        self._window = _PIECES + max((len(stop.encode()) for stop in self._stops), default=0)

    def __call__(self, input_ids: Any, scores: Any, **others: Any) -> Any:
        rows = input_ids[:, max(self._start, input_ids.shape[1] - self._window) :].tolist()
        each = len(rows) // len(self._calls)
        ended = [self._ended(row, self._calls[number // each]) for number, row in enumerate(rows)]
        return torch.tensor(ended, dtype=torch.bool, device=input_ids.device)

    def _ended(self, row: list[int], call: Call) -> bool:
        if call.cancelled.is_set():
            return True
        if not self._stops:
            return False
        text = self._tokenizer.decode(row, skip_special_tokens=True, clean_up_tokenization_spaces=False)
        return any(stop in text for stop in self._stops)


def _chosen(out: Any, start: int) -> list[list[float]]:
    """The log-probability of every generated token of every row."""
    steps = [
        torch.log_softmax(logits.float(), dim=-1).gather(1, out.sequences[:, start + step, None])[:, 0]
        for step, logits in enumerate(out.logits)
    ]
    scores: list[list[float]] = torch.stack(steps, dim=1).tolist()
    return scores


def prompt_text(tokenizer: Any, turns: Sequence[Mapping[str, str]], *, apart: bool = False) -> str:
    """What a model reads of a conversation, up to the place where its reply begins; control tokens in it are broken.

    apart: whether the model is an encoder-decoder; those, and models without a chat template, read plain text.
    """
    special = _special(tokenizer)
    harmless = [{**turn, "content": neutralise(turn["content"], extra=special)} for turn in turns]
    if apart or tokenizer.chat_template is None:  # a base model continues plain text
        return "\n\n".join(turn["content"] for turn in harmless)
    try:
        text: str = tokenizer.apply_chat_template(harmless, tokenize=False, add_generation_prompt=True)
    except Exception as error:  # templates raise errors of their own, such as for a role that they do not know
        raise ModelError(f"{tokenizer.name_or_path}: its chat template refuses the conversation: {error}") from error
    return text


@lru_cache(maxsize=4)  # a tokenizer is as large as its vocabulary
def _special(tokenizer: Any) -> tuple[str, ...]:
    added = {str(token.content) for token in tokenizer.added_tokens_decoder.values()}
    markup = {token for token in added if token[:1] in "<[" and token[-1:] in ">]" and len(token) > 2}
    return tuple(sorted(markup | set(tokenizer.all_special_tokens)))


@contextmanager
def _seeded(sampling: Sampling) -> Iterator[None]:
    """Seed torch's generators for this call, and restore them afterwards."""
    if sampling.seed is None:
        yield
        return
    with torch.random.fork_rng():
        torch.manual_seed(sampling.seed)
        yield
