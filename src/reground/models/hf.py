"""`hf`: a model run in this process by transformers, with a LoRA adapter if given (extra [train]).

`hf/<repo>`, `hf/<folder>`, or a GGUF file or alias, whose weights are dequantised. A folder with only a LoRA adapter
means the base model that it names, with the adapter. This is slower than `gguf`, and runs models trained with reground.

Decoder-only models read a conversation by their chat template. Encoder-decoders (T5, mT5, BART) have none: their
encoder reads the messages as plain text, without roles and with blank lines between them. A base model without a
template reads the same plain text.
"""

from __future__ import annotations

import asyncio
import importlib.util
import inspect
import io
import json
from bisect import bisect_left
from collections.abc import Sequence
from contextlib import redirect_stderr
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from itertools import groupby
from pathlib import Path
from typing import Any

from reground.core.concurrency import BatchThread, Job, being_cancelled
from reground.core.errors import (
    CapabilityError,
    ConfigurationError,
    ContextLengthExceeded,
    MissingExtra,
    ModelError,
    RegroundError,
)
from reground.core.files import expanded, model_place, near_here, quietly, trouble
from reground.core.language import Hearing, Message, Reply, Sampling, TokenLogprob, Usage, hearing
from reground.core.untrusted import neutralise
from reground.models import pull
from reground.models.options import Listing, ModelOptions, alternating, local_identity, priced, without_system

THREADS = "reground-transformers"
"""The name of the threads that load models and decode."""
_MOST_ROWS = 128  # replies decoded together: more of them gain little on any card
_FIRST_ROWS = 8  # before the weights are loaded, and the memory that is left is known
_NO_TOKEN = -1 << 40
_SPARE = 4 << 30  # bytes for a batch on a processor
_PIECES = 8  # tokens decoded before a stop string, so that characters made of several tokens are whole


def create(model: str, options: ModelOptions) -> HfModel:
    """The model of a repository, a folder or a GGUF file; loaded at the first call.

    Raises MissingExtra without torch or transformers, ConfigurationError for a missing adapter or folder.
    """
    if _missing():
        raise MissingExtra(f"hf/{model}", "train")
    if options.adapter is not None and not options.adapter.exists():
        raise ConfigurationError(f"there is no adapter {options.adapter}")
    _source(model)
    return HfModel(model, options)


async def available(options: ModelOptions) -> list[Listing]:
    """Whether transformers can run here. Repositories are not listed, because only a hub knows them."""
    if _missing():
        return [Listing("hf/<repo or path>", False, str(MissingExtra("it", "train")))]
    return [Listing("hf/<repo or path>", True, "a folder, a GGUF file or a model hub's repository")]


def _missing() -> bool:
    return any(importlib.util.find_spec(name) is None for name in ("torch", "transformers", "peft"))


def load_weights(model: str, *, adapter: Path | None = None, dtype: Any = None, family: Any = None) -> tuple[Any, Any]:
    """Load a language model, decoder-only or encoder-decoder, and its tokenizer. Blocks for seconds.

    dtype: of the weights; bfloat16 on a GPU and float32 elsewhere unless given. family: the class of transformers that
    loads them, if it is not that of a language model.
    """
    import torch
    from transformers import AutoConfig, AutoModelForCausalLM, AutoModelForSeq2SeqLM, AutoTokenizer

    device = "cuda" if torch.cuda.is_available() else "cpu"
    try:
        model, adapter = _base(model, adapter)
        source, options = _source(model), {}
        if source is None:
            file = pull.pull(model)
            source, options = str(file.parent), {"gguf_file": file.name}
        with quietly(), redirect_stderr(io.StringIO()):  # one bar has no switch
            config = AutoConfig.from_pretrained(source, **options)
            settings = {"config": config, **options}  # a GGUF file's takes seconds to read
            apart = config.is_encoder_decoder
            # A decoder continues at the prompt's end; an encoder counts positions from the left.
            side = "right" if apart else "left"
            tokenizer = AutoTokenizer.from_pretrained(source, padding_side=side, **settings)
            family = family or (AutoModelForSeq2SeqLM if apart else AutoModelForCausalLM)
            dtype = dtype or (torch.bfloat16 if device == "cuda" else torch.float32)
            weights = family.from_pretrained(source, dtype=dtype, **settings)
            if options:
                _drop_quantization(weights)
            if adapter is not None:
                from peft import PeftModel

                weights = PeftModel.from_pretrained(weights, str(adapter if adapter.is_dir() else adapter.parent))
    except RegroundError:
        raise
    except Exception as error:  # each library has its own errors for damaged weights
        near = "" if expanded(model).exists() else near_here(model, pull.ALIASES)
        raise ModelError(f"transformers could not load {model}: {trouble(error, model, adapter)}{near}") from error
    if tokenizer.pad_token_id is None:
        tokenizer.pad_token = tokenizer.eos_token
    return weights.to(device).eval(), tokenizer


def _source(model: str) -> str | None:
    """What transformers loads; None for a GGUF file, which is pulled. Raises ConfigurationError for a wrong path."""
    if model.lower() in pull.ALIASES or model.endswith(".gguf"):
        return None
    return model_place(model, f"model hf/{model}", pull.ALIASES)


def _base(model: str, adapter: Path | None) -> tuple[str, Path | None]:
    """The base model and its adapter. A folder that is itself an adapter names its base model."""
    folder = expanded(model)
    if adapter is not None or (folder / "config.json").exists() or not (folder / "adapter_config.json").is_file():
        return model, adapter
    base = json.loads((folder / "adapter_config.json").read_text(encoding="utf-8")).get("base_model_name_or_path")
    if not base:
        raise ValueError("its adapter_config.json names no base model")
    return str(base), folder


def _drop_quantization(weights: Any) -> None:
    """Weights of a GGUF file are dequantised; without the mark they can be trained and saved."""
    weights.is_quantized = False
    marks = (weights, "hf_quantizer"), (weights, "quantization_method"), (weights.config, "quantization_config")
    for owner, name in marks:
        if hasattr(owner, name):
            delattr(owner, name)


@dataclass(frozen=True)
class Call:
    """A conversation to continue."""

    messages: Sequence[Message]
    sampling: Sampling
    hear: Hearing | None = None

    @property
    def rows(self) -> int:
        """The replies that are decoded: greedy ones are all the same."""
        return self.sampling.n if self.sampling.temperature > 0 else 1

    @cached_property
    def width(self) -> int:
        """About how many tokens the prompt and the longest reply have: in most scripts a token has three bytes."""
        return sum(len(message.content.encode()) for message in self.messages) // 3 + self.sampling.max_tokens


class HfModel:
    """A language model in this process, through transformers.

    Calls that wait at the same time and want the same sampling are decoded together, as many as memory has room for.
    Log-probabilities are those of the model before temperature and top-p.
    """

    def __init__(self, model: str, options: ModelOptions) -> None:
        self.name = f"hf/{model}"
        self.price = options.price
        self._model = model
        self._options = options
        self._thread = BatchThread(self._load, lambda decoder, jobs: decoder.decode(jobs), self._fits, name=THREADS)

    @property
    def identity(self) -> str:
        """Tells this model from one of the same name with other weights, another adapter or other settings."""
        return local_identity(self.name, self._options)

    async def generate(self, messages: Sequence[Message], sampling: Sampling, /) -> Sequence[Reply]:
        """Return `sampling.n` replies. Raises ContextLengthExceeded, CapabilityError for a grammar, and ModelError."""
        if sampling.grammar is not None:
            raise CapabilityError(f"{self.name} cannot keep a reply to a grammar: gguf/ can", lacks="grammar")
        return priced(await self._thread.ask(Call(messages, sampling, hearing.get())), self.price)

    async def aclose(self) -> None:
        """Free the weights after the current batch. A later call loads them again.

        In a task that is being cancelled, as by Ctrl-C, it does not wait: weights that are being downloaded or loaded
        may take minutes, and nothing can stop it.
        """
        unloaded = self._thread.unload()
        if not being_cancelled():
            await asyncio.wrap_future(unloaded)

    def _load(self) -> Decoder:
        import torch

        if self._options.threads is not None:
            torch.set_num_threads(self._options.threads)
        name = self._options.dtype
        dtype = None if name == "auto" else getattr(torch, name)
        weights, tokenizer = load_weights(self._model, adapter=self._options.adapter, dtype=dtype)
        return Decoder(self.name, weights, tokenizer)

    def _fits(self, batch: Sequence[Job[Call, list[Reply]]], job: Job[Call, list[Reply]]) -> bool:
        """Whether a call can join: it wants the same, there is room, and no seed, whose samples depend on the batch."""
        sampling, decoder = job.call.sampling, self._thread.loaded
        is_alone = sampling.seed is not None and sampling.temperature > 0
        rows = (len(batch) + 1) * job.call.rows
        widest = max(each.call.width for each in (*batch, job))
        has_room = rows <= _FIRST_ROWS if decoder is None else rows <= decoder.rows_of(widest)
        return not is_alone and batch[0].call.sampling == sampling and has_room


@dataclass
class _Row:
    """A reply while it is written. most: its limit. ids: its tokens with the end. scores: their log-probabilities."""

    job: Job[Call, list[Reply]]
    prompt: list[int]
    most: int
    ids: list[int] = field(default_factory=list)
    scores: list[float] = field(default_factory=list)


class Decoder:
    """A loaded model and its tokenizer. Not for several threads at once."""

    def __init__(self, name: str, weights: Any, tokenizer: Any) -> None:
        import torch

        self._name = name
        self._weights = weights
        self._tokenizer = tokenizer
        self._context: int = getattr(weights.config, "max_position_embeddings", None) or 1 << 30
        self._apart: bool = weights.config.is_encoder_decoder  # prompt and reply are separate sequences
        ends = weights.generation_config.eos_token_id
        ids = ends if isinstance(ends, list) else [ends]
        self._ends = sorted({end for end in (*ids, tokenizer.eos_token_id) if end is not None})
        is_card = weights.device.type == "cuda"
        self._spare: int = 4 * torch.cuda.mem_get_info(weights.device)[0] // 5 if is_card else _SPARE  # bytes

    def rows_of(self, width: int) -> int:
        """How many replies can be decoded together of at most this many tokens each, prompt included."""
        return max(1, min(_MOST_ROWS, self._spare // self._size(width)))

    def _size(self, width: int) -> int:
        """About how many bytes a row of this many tokens takes."""
        config = self._weights.config.get_text_config(decoder=True)
        heads = getattr(config, "num_attention_heads", None) or 1
        shared = (getattr(config, "num_key_value_heads", None) or heads) / heads
        # of a token: the keys and values of all layers, and what one layer computes of a prompt
        token = (2 * config.num_hidden_layers * shared + 20) * config.hidden_size * self._weights.dtype.itemsize
        return int(token * width + 24 * config.vocab_size)  # with logits in float32, sorted and summed up

    def decode(self, jobs: Sequence[Job[Call, list[Reply]]]) -> list[list[Reply]]:
        """Replies for jobs of one sampling, in their order. Raises ContextLengthExceeded and ModelError."""
        import torch

        sampling, each = jobs[0].call.sampling, jobs[0].call.rows
        texts = (prompt_text(self._tokenizer, job.call.messages, apart=self._apart) for job in jobs)
        prompts = [prompt_ids(self._tokenizer, text, apart=self._apart) for text in texts]
        longest = max(map(len, prompts))
        if longest > self._context - (not self._apart):
            raise ContextLengthExceeded(
                f"the prompt has {longest} tokens and {self._name} has room for {self._context}: "
                "retrieve fewer or shorter passages"
            )
        rooms = [min(sampling.max_tokens, self._context - (1 if self._apart else len(prompt))) for prompt in prompts]
        rows = [_Row(*its) for its in zip(jobs, prompts, rooms, strict=True) for _ in range(each)]
        with torch.inference_mode(), torch.random.fork_rng(enabled=sampling.seed is not None):
            if sampling.seed is not None:
                torch.manual_seed(sampling.seed)
            try:
                self._write_all(rows, longest + max(rooms))
            except RuntimeError as error:
                raise ModelError(f"transformers: {error}") from error
        replies = [self._reply(row.ids, row.scores, sampling) for row in rows]
        answers = []
        for number, prompt in enumerate(prompts):
            mine = replies[number * each : (number + 1) * each] * (sampling.n // each)
            usage = Usage(calls=1, prompt=len(prompt), completion=sum(count for _, count in mine))
            first, *others = [reply for reply, _ in mine]
            answers.append([first.model_copy(update={"usage": usage}), *others])
        return answers

    def _write_all(self, rows: Sequence[_Row], width: int) -> None:
        """Decode rows of this many tokens at most, as many together as memory has room for; fewer where it had less."""
        import torch

        done = 0
        while some := rows[done : done + self.rows_of(width)]:
            try:
                self._write(some)
                done += len(some)
                continue
            except torch.OutOfMemoryError:
                if len(some) == 1:
                    raise
                self._spare = len(some) * self._size(width) // 2
            torch.cuda.empty_cache()

    def _write(self, rows: Sequence[_Row]) -> None:
        """Decode rows. Samples of a prompt read it once, and a row that has ended is not computed further."""
        import torch

        sampling = rows[0].job.call.sampling
        samples = [list(each) for _, each in groupby(rows, lambda row: id(row.prompt))]
        # A decoder continues at the prompt's end; an encoder counts positions from the left.
        batch = padded([first.prompt for first, *_ in samples], 0, side="right" if self._apart else "left")
        steps = Steps(self._weights, *(each.to(self._weights.device) for each in batch.values()))
        logits = steps(steps.first)
        if len(samples) < len(rows):
            places = [place for place, each in enumerate(samples) for _ in each]
            logits = steps.select(torch.tensor(places, device=logits.device), logits)
        going = list(rows)
        for row in going:
            row.ids, row.scores = [], []
        while True:
            tokens = _sample(logits, sampling)
            scores = logits.log_softmax(-1).gather(1, tokens[:, None])[:, 0] if sampling.logprobs else tokens
            for row, token, score in zip(going, tokens.tolist(), scores.tolist(), strict=True):
                row.ids.append(token)
                row.scores.append(score)
                if (hear := row.job.call.hear) is not None:
                    hear(Reply(text=self._text(row.ids)))
            places_left = [
                place for place, row in enumerate(going) if len(row.ids) < row.most and not self._has_ended(row)
            ]
            if not places_left:
                return
            if len(places_left) < len(going):
                going = [going[place] for place in places_left]
                tokens = steps.select(torch.tensor(places_left, device=tokens.device), tokens)
            logits = steps(tokens[:, None])

    def _has_ended(self, row: _Row) -> bool:
        """Whether a row's last token is an end or completes a stop string, or nobody waits for the row any more."""
        is_over = row.ids[-1] in self._ends or row.job.cancelled.is_set()
        stops = row.job.call.sampling.stop
        window = _PIECES + max((len(stop.encode()) for stop in stops), default=0)
        return is_over or any(stop in self._text(row.ids[-window:]) for stop in stops)

    def _reply(self, row: list[int], scores: list[float], sampling: Sampling) -> tuple[Reply, int]:
        """One reply and its number of tokens, including the end token."""
        ids = row[:-1] if row[-1:] and row[-1] in self._ends else row
        text = self._text(ids)
        finish = "length" if ids is row else "stop"
        tokens = self._tokens(ids, scores) if sampling.logprobs else None
        reply = Reply(text=text, finish_reason=finish, token_logprobs=tokens)
        cuts = [(text.find(stop), len(stop)) for stop in sampling.stop if stop in text]
        if not cuts:
            return reply, len(row)
        end, length = min(cuts)
        count = bisect_left(range(len(ids)), end + length, key=lambda count: len(self._text(ids[:count])))
        return reply.upto(end).model_copy(update={"finish_reason": "stop"}), count

    def _text(self, ids: list[int]) -> str:
        """Decoded text, without an incomplete last character."""
        text: str = self._tokenizer.decode(ids, skip_special_tokens=True, clean_up_tokenization_spaces=False)
        return text.rstrip("\ufffd")

    def _tokens(self, ids: list[int], scores: list[float]) -> tuple[TokenLogprob, ...]:
        """The tokens that spell the text. Those of one character are one, with the sum of their log-probabilities.

        Tokens are decoded behind those of the piece before: a blank between them may depend on it.
        """
        tokens: list[TokenLogprob] = []
        special = set(self._tokenizer.all_special_ids)  # they are not in the text
        total, before, begin, length = 0.0, 0, 0, 0
        for end, score in zip(range(1, len(ids) + 1), scores, strict=False):
            total += 0.0 if ids[end - 1] in special else min(0.0, score)
            text = self._text(ids[before:end])
            if len(text) > length:
                tokens.append(TokenLogprob(token=text[length:], logprob=total))
                total, before, begin = 0.0, begin, end
                length = len(self._text(ids[before:begin]))
        return tuple(tokens)


def _sample(logits: Any, sampling: Sampling) -> Any:
    """The next token of each row."""
    import torch

    if sampling.temperature == 0:
        return logits.argmax(-1)
    # below its highest logit, which no temperature makes infinite
    chances = ((logits - logits.amax(-1, keepdim=True)) / sampling.temperature).softmax(-1)
    if sampling.top_p == 1:
        return torch.multinomial(chances, 1)[:, 0]
    chances, tokens = chances.sort(-1, descending=True)
    chances[chances.cumsum(-1) - chances >= sampling.top_p] = 0.0
    return tokens.gather(1, torch.multinomial(chances, 1))[:, 0]


def padded(rows: Sequence[Sequence[int]], padding: int, *, side: str = "right") -> dict[str, Any]:
    """Token ids, and their mask, as a batch for a model. side: where padding stands."""
    import torch
    from torch.nn.utils.rnn import pad_sequence

    ids = pad_sequence(list(map(torch.tensor, rows)), batch_first=True, padding_value=_NO_TOKEN, padding_side=side)
    mask = ids != _NO_TOKEN
    return {"input_ids": ids.where(mask, padding), "attention_mask": mask.long()}


def plain(model: Any) -> Any:
    """A model without its adapter: peft's own takes any argument."""
    return model.get_base_model() if hasattr(model, "get_base_model") else model


def cache_name(model: Any) -> str:
    """What a model calls its keys and values (`cache` since transformers 5.24); "" where it keeps none."""
    names = inspect.signature(plain(model).forward).parameters
    return next((name for name in ("cache", "past_key_values") if name in names), "")


class Steps:
    """Computes the logits of rows that are decoded together, token by token. Keys and values are kept.

    model: decoder-only or encoder-decoder. ids, mask: the prompts, [rows, length]. cache: keys and values of what
    stands before the prompts; the mask covers that too. first: the tokens that are to be read first.
    """

    def __init__(self, model: Any, ids: Any, mask: Any, *, cache: Any = None) -> None:
        import torch

        self._model, self._mask, self._cache, self.first = model, mask, cache, ids
        self._known, self._name = inspect.signature(plain(model).forward).parameters, cache_name(model)
        self._read: Any = None
        self._states: Any = None
        if model.config.is_encoder_decoder:
            self._states = model.get_encoder()(input_ids=ids, attention_mask=mask).last_hidden_state
            starts = (each.decoder_start_token_id for each in (model.generation_config, model.config))
            self.first = torch.full_like(ids[:, :1], next(each for each in starts if each is not None))

    def __call__(self, tokens: Any) -> Any:
        """The logits behind the tokens, in float32, [rows, vocabulary]. tokens: first a prompt, then one."""
        import torch

        if not self._name:
            tokens = self._read = tokens if self._read is None else torch.cat([self._read, tokens], dim=1)
        inputs = {"attention_mask": self._mask}
        if self._states is not None:
            inputs |= {"encoder_outputs": (self._states,), "decoder_input_ids": tokens}
        else:
            places = (self._mask.cumsum(-1) - 1).clamp(min=0)[:, -tokens.shape[1] :]
            inputs |= {"input_ids": tokens, **({"position_ids": places} if "position_ids" in self._known else {})}
            self._mask = torch.cat([self._mask, self._mask.new_ones(len(tokens), 1)], dim=1)  # for the next token
        if self._name:
            inputs |= {"use_cache": True, self._name: self._cache}
        out = self._model(**inputs, **({"logits_to_keep": 1} if "logits_to_keep" in self._known else {}))
        self._cache = out[self._name] if self._name else None
        return out.logits[:, -1].float()

    def select(self, rows: Any, values: Any) -> Any:
        """Go on with these rows, in this order; one may be there several times. Returns the values of these rows."""
        self._mask = self._mask[rows]
        self._states = None if self._states is None else self._states[rows]
        self._read = None if self._read is None else self._read[rows]
        if self._cache is not None:
            self._cache.reorder_cache(rows)
        return values[rows]


def prompt_text(tokenizer: Any, messages: Sequence[Message], *, apart: bool = False) -> str:
    """What a model reads of a conversation, up to the place where its reply begins; control tokens in it are broken.

    apart: whether the model is an encoder-decoder; those, and models without a chat template, read plain text. Where a
    template knows no system messages, the first turn begins with them, and where roles must alternate, turns of one
    role are joined. Raises ModelError for a template that refuses this too.
    """
    special = _special(tokenizer)
    harmless = [Message(role=each.role, content=neutralise(each.content, extra=special)) for each in messages]
    if apart or tokenizer.chat_template is None:  # a base model continues plain text
        return "\n\n".join(message.content for message in harmless)
    opened, refusal = without_system(harmless), None
    for turns in (harmless, opened, alternating(harmless), alternating(opened)):
        dicts = [turn.model_dump() for turn in turns]
        try:
            text: str = tokenizer.apply_chat_template(dicts, tokenize=False, add_generation_prompt=True)
        except Exception as error:  # templates raise errors of their own
            refusal = refusal or error
            continue
        if all(turn.content.strip() in text for turn in turns if turn.role == "system"):  # else it is left out
            return text
    raise ModelError(f"{tokenizer.name_or_path}: its chat template refuses the conversation: {refusal}") from refusal


def prompt_ids(tokenizer: Any, text: str, *, apart: bool = False) -> list[int]:
    """The tokens of what `prompt_text` gave. A template writes its special tokens; plain text gets those of training,
    less an end, behind which a decoder would write another text."""
    is_plain = apart or tokenizer.chat_template is None
    ids: list[int] = tokenizer(text, add_special_tokens=is_plain)["input_ids"]
    return ids[:-1] if is_plain and not apart and len(ids) > 1 and ids[-1] == tokenizer.eos_token_id else ids


@lru_cache(maxsize=4)  # a tokenizer is as large as its vocabulary
def _special(tokenizer: Any) -> tuple[str, ...]:
    added = {str(token.content) for token in tokenizer.added_tokens_decoder.values()}
    markup = {token for token in added if token[:1] in "<[" and token[-1:] in ">]" and len(token) > 2}
    return tuple(sorted(markup | set(tokenizer.all_special_tokens)))
