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
import io
import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, redirect_stderr
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, TypeAlias

from reground.core.concurrency import BatchThread, Job, being_cancelled
from reground.core.errors import (
    CapabilityError,
    ConfigurationError,
    ContextLengthExceeded,
    MissingExtra,
    ModelError,
    RegroundError,
)
from reground.core.files import trouble
from reground.core.language import Message, Reply, Sampling, TokenLogprob, Usage
from reground.core.untrusted import neutralise
from reground.models import pull
from reground.models.options import Listing, ModelOptions, local_identity, priced

THREADS = "reground-transformers"
"""The name of the threads that load models and decode."""
_BATCH = 8  # replies decoded together
_PIECES = 8  # tokens decoded before a stop string, so that characters made of several tokens are whole


def create(model: str, options: ModelOptions) -> HfModel:
    """The model of a repository, a folder or a GGUF file; loaded at the first call.

    Raises MissingExtra without torch or transformers, ConfigurationError for a missing adapter.
    """
    if _missing():
        raise MissingExtra(f"hf/{model}", "train")
    if options.adapter is not None and not options.adapter.exists():
        raise ConfigurationError(f"there is no adapter {options.adapter}")
    return HfModel(model, options)


async def available(options: ModelOptions) -> list[Listing]:
    """Whether transformers can run here. Repositories are not listed, because only a hub knows them."""
    if _missing():
        return [Listing("hf/<repo or path>", False, str(MissingExtra("it", "train")))]
    return [Listing("hf/<repo or path>", True, "a folder, a GGUF file or a model hub's repository")]


def _missing() -> bool:
    return any(importlib.util.find_spec(name) is None for name in ("torch", "transformers"))


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
        source, options = model, {}
        if model.lower() in pull.ALIASES or model.endswith(".gguf"):
            file = pull.pull(model)
            source, options = str(file.parent), {"gguf_file": file.name}
        with quietly():
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
                weights = _adapted(weights, adapter)
    except RegroundError:
        raise
    except Exception as error:  # each library has its own errors for damaged weights
        raise ModelError(f"transformers could not load {model}: {trouble(error, model, adapter)}") from error
    if tokenizer.pad_token_id is None:
        tokenizer.pad_token = tokenizer.eos_token
    return weights.to(device).eval(), tokenizer


def _base(model: str, adapter: Path | None) -> tuple[str, Path | None]:
    """The base model and its adapter. A folder that is itself an adapter names its base model."""
    folder = Path(model)
    if adapter is not None or (folder / "config.json").exists() or not (folder / "adapter_config.json").is_file():
        return model, adapter
    named = json.loads((folder / "adapter_config.json").read_text(encoding="utf-8")).get("base_model_name_or_path")
    if not named:
        raise ValueError("its adapter_config.json names no base model")
    return str(named), folder


def _adapted(weights: Any, adapter: Path) -> Any:
    if importlib.util.find_spec("peft") is None:
        raise MissingExtra("a LoRA adapter", "train")
    from peft import PeftModel

    return PeftModel.from_pretrained(weights, str(adapter if adapter.is_dir() else adapter.parent))


def _drop_quantization(weights: Any) -> None:
    """Weights of a GGUF file are dequantised; without the mark they can be trained and saved."""
    weights.is_quantized = False
    for owner, name in (
        (weights, "hf_quantizer"),
        (weights, "quantization_method"),
        (weights.config, "quantization_config"),
    ):
        if hasattr(owner, name):
            delattr(owner, name)


@contextmanager
def quietly() -> Iterator[None]:
    """Silence progress bars and advice while loading. One bar has no switch, so stderr is redirected."""
    from transformers.utils import logging

    verbosity, bars = logging.get_verbosity(), logging.is_progress_bar_enabled()
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    try:
        with redirect_stderr(io.StringIO()):
            yield
    finally:
        logging.set_verbosity(verbosity)
        if bars:
            logging.enable_progress_bar()


@dataclass(frozen=True)
class Call:
    """A conversation to continue."""

    turns: Sequence[Mapping[str, str]]
    sampling: Sampling


Decoding: TypeAlias = Job[Call, list[Reply]]


class HfModel:
    """A language model in this process, through transformers.

    Calls that wait at the same time and want the same sampling are decoded together, up to eight replies.
    Log-probabilities are those of the model before temperature and top-p.
    """

    def __init__(self, model: str, options: ModelOptions) -> None:
        self.name = f"hf/{model}"
        self.price = options.price
        self._model = model
        self._options = options
        self._thread: BatchThread[Decoder, Call, list[Reply]] = BatchThread(self._load, _decode, _fits, name=THREADS)

    @property
    def identity(self) -> str:
        """Tells this model from one of the same name with other weights, another adapter or other settings."""
        return local_identity(self.name, self._options)

    async def generate(self, messages: Sequence[Message], sampling: Sampling, /) -> Sequence[Reply]:
        """Return `sampling.n` replies. Raises ContextLengthExceeded, CapabilityError for a grammar, and ModelError."""
        if sampling.grammar is not None:
            raise CapabilityError(f"{self.name} cannot keep a reply to a grammar: gguf/ can", lacks="grammar")
        turns = [{"role": message.role, "content": message.content} for message in messages]
        return priced(await self._thread.ask(Call(turns, sampling)), self.price)

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


def _fits(batch: Sequence[Decoding], job: Decoding) -> bool:
    """Whether a call may be decoded with others: it wants the same, and no seed, whose samples depend on the batch."""
    sampling = job.call.sampling
    is_alone = sampling.seed is not None and sampling.temperature > 0
    size = sum(each.call.sampling.n for each in batch) + sampling.n
    return not is_alone and batch[0].call.sampling == sampling and size <= _BATCH


def _decode(decoder: Decoder, jobs: Sequence[Decoding]) -> list[list[Reply]]:
    try:
        return decoder.decode(jobs)
    except RuntimeError as error:
        raise ModelError(f"transformers: {error}") from error


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

    def decode(self, jobs: Sequence[Decoding]) -> list[list[Reply]]:
        """Replies for jobs of one sampling, in their order."""
        import torch
        from transformers import StoppingCriteriaList

        sampling = jobs[0].call.sampling
        prompts = [prompt_text(self._tokenizer, job.call.turns, apart=self._apart) for job in jobs]
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
        with torch.inference_mode(), torch.random.fork_rng(enabled=sampling.seed is not None):
            if sampling.seed is not None:
                torch.manual_seed(sampling.seed)
            out = self._weights.generate(
                input_ids=encoded["input_ids"],
                attention_mask=encoded["attention_mask"],
                generation_config=self._config(sampling, min(sampling.max_tokens, room)),
                stopping_criteria=StoppingCriteriaList([_Watch(self._tokenizer, jobs, start)]),
            )
        return self._replies(jobs, lengths, out, start)

    def _config(self, sampling: Sampling, length: int) -> Any:
        """Every setting is given, because the model's own defaults replace any that is missing."""
        from transformers import GenerationConfig

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

    def _replies(self, jobs: Sequence[Decoding], lengths: list[int], out: Any, start: int) -> list[list[Reply]]:
        import torch

        sampling = jobs[0].call.sampling
        rows: list[list[int]] = out.sequences[:, start:].tolist()
        scores: Sequence[list[float] | None] = [None] * len(rows)
        if sampling.logprobs:  # of the generated tokens
            steps = [torch.log_softmax(logits.float(), dim=-1) for logits in out.logits]
            written = out.sequences[:, start : start + len(steps)]
            chosen = [step.gather(1, written[:, at, None])[:, 0] for at, step in enumerate(steps)]
            scores = torch.stack(chosen, dim=1).tolist()
        replies = [self._reply(row, score, sampling) for row, score in zip(rows, scores, strict=True)]
        each = len(rows) // len(jobs)
        answers = []
        for number, prompt in enumerate(lengths):
            # Greedy replies are all the same and decoded once.
            mine = replies[number * each : (number + 1) * each] * (sampling.n // each)
            usage = Usage(calls=1, prompt=prompt, completion=sum(count for _, count in mine))
            first, *others = [reply for reply, _ in mine]
            answers.append([first.model_copy(update={"usage": usage}), *others])
        return answers

    def _reply(self, row: list[int], scores: list[float] | None, sampling: Sampling) -> tuple[Reply, int]:
        """One reply and its number of tokens, including the end token."""
        end = next((at for at, token in enumerate(row) if token in self._ends), None)
        ids = row if end is None else row[:end]
        text = self._text(ids)
        finish = "length" if end is None else "stop"
        reply = Reply(text=text, finish_reason=finish, token_logprobs=self._tokens(ids, scores))
        cuts = [(text.find(stop), len(stop)) for stop in sampling.stop if stop in text]
        if not cuts:
            return reply, len(ids) + (end is not None)
        cut, length = min(cuts)
        count = next(n for n in range(1, len(ids) + 1) if len(self._text(ids[:n])) >= cut + length)
        return reply.upto(cut).model_copy(update={"finish_reason": "stop"}), count

    def _text(self, ids: list[int]) -> str:
        """Decoded text, without an incomplete last character."""
        text: str = self._tokenizer.decode(ids, skip_special_tokens=True, clean_up_tokenization_spaces=False)
        return text.rstrip("\ufffd")

    def _tokens(self, ids: list[int], scores: list[float] | None) -> tuple[TokenLogprob, ...] | None:
        """The tokens that spell the text. Tokens of one character are merged."""
        if scores is None:
            return None
        tokens: list[TokenLogprob] = []
        done = 0
        for count, score in zip(range(1, len(ids) + 1), scores, strict=False):
            text = self._text(ids[:count])
            if len(text) > done:
                tokens.append(TokenLogprob(token=text[done:], logprob=min(0.0, score)))
                done = len(text)
        return tuple(tokens)


class _Watch:
    """A stopping criterion: ends a row at a stop string, or when its call was cancelled."""

    def __init__(self, tokenizer: Any, jobs: Sequence[Decoding], start: int) -> None:
        self._tokenizer = tokenizer
        self._jobs = jobs
        self._start = start
        self._stops = jobs[0].call.sampling.stop
        self._window = _PIECES + max((len(stop.encode()) for stop in self._stops), default=0)

    def __call__(self, input_ids: Any, scores: Any, **others: Any) -> Any:
        import torch

        rows = input_ids[:, max(self._start, input_ids.shape[1] - self._window) :].tolist()
        each = len(rows) // len(self._jobs)
        ended = [self._ended(row, self._jobs[number // each]) for number, row in enumerate(rows)]
        return torch.tensor(ended, dtype=torch.bool, device=input_ids.device)

    def _ended(self, row: list[int], job: Decoding) -> bool:
        if job.cancelled.is_set():
            return True
        if not self._stops:
            return False
        text = self._tokenizer.decode(row, skip_special_tokens=True, clean_up_tokenization_spaces=False)
        return any(stop in text for stop in self._stops)


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
