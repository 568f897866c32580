"""`reground index`, `reground models` and `reground methods`: prepare documents, list models and methods."""

from __future__ import annotations

import asyncio
import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, cast

import typer

from reground.app.cli import _common as common
from reground.app.cli.config import ConfigFile, setting_text
from reground.app.cli.flags import flattened
from reground.app.options import Index, Json, Served

if TYPE_CHECKING:
    from reground.models.options import Listing
    from reground.retrieval.decontaminate import Decontaminator
    from reground.retrieval.settings import IndexReport, IndexSettings

_OWN = ("kind", "embedder", "chunk_tokens", "overlap")
"""Options of an index that `ask` does not keep."""
_MOST_LINES = 20
"""The most models of one provider that are printed."""

models_app = typer.Typer(
    help="List the models that can be used here, and why the others cannot; bring a model."
    "\n\nExample:  reground models pull smollm2"
)


@flattened
def index(order: Index, output: Json, config: ConfigFile = None) -> None:
    """Index documents, or update an index. An update reads only what has changed.

    Example:  reground index docs/ --out docs.idx --chunk-tokens 400
    """
    from reground.app.cli.progress import AskProgress
    from reground.app.corpora import stoppable
    from reground.retrieval.index import build_index
    from reground.retrieval.settings import Progress

    settings, out = _settings(order)
    cleaner = _decontaminator(order.decontaminate, order.data) if order.decontaminate else None
    console, err = common.consoles()

    def work(watch: Callable[[Progress], None]) -> IndexReport:
        return build_index(order.source, out, settings, progress=watch, decontaminate=cleaner)

    with AskProgress(err, shown=True) as progress:
        report = asyncio.run(stoppable(work, progress.on_index))
    if output.as_json:
        _print_json(report.model_dump(mode="json"))
    else:
        _show_report(console, report, whole=order.report)


def _settings(order: Index) -> tuple[IndexSettings, Path]:
    """How the index is made and where: as the options say, or without a place the one that `ask` keeps."""
    from reground.app.corpora import cached_index_path, default_settings, is_index
    from reground.core.errors import ConfigurationError
    from reground.core.places import expanded
    from reground.retrieval.settings import IndexSettings

    language = order.language or IndexSettings.language
    if is_index(order.source):  # its own files would be read as documents
        raise ConfigurationError(f"{order.source} is an index: give the documents that it was made of")
    if order.out is None:
        if not order.report:
            raise ConfigurationError("give a folder for the index: --out INDEX (or --report, to list what is not read)")
        if any(getattr(order, name) != getattr(Index, name) for name in _OWN):
            raise ConfigurationError("--kind, --embedder and --chunk-tokens need an index of its own: --out")
        settings = replace(default_settings(order.retrieval), language=language)
        return settings, cached_index_path(expanded(order.source), settings)
    kind, embedder = order.kind, order.embedder
    if order.retrieval is not None:
        from reground.retrieval.presets import preset

        chosen = preset(order.retrieval)
        if kind not in ("bm25", chosen.kind):
            raise ConfigurationError(f"--retrieval {order.retrieval} makes a {chosen.kind} index: leave out --kind")
        kind, embedder = chosen.kind, embedder or chosen.embedder
    settings = IndexSettings(
        kind=cast(Any, kind),
        language=language,
        chunk_tokens=order.chunk_tokens,
        overlap=min(order.overlap, order.chunk_tokens // 4),
        embedder=embedder,
        embedder_url=order.model_options.base_url,
    )
    return settings, order.out


def _show_unread(console: Any, report: IndexReport, *, whole: bool) -> None:
    from reground.app.cli.display import plain
    from reground.retrieval.unread import counted, line

    if not whole:
        if said := line(report):
            console.print(plain(said, "yellow"), soft_wrap=True)
        return
    for skipped in report.skipped:
        console.print(plain(f"not read  {skipped.path}: {skipped.why}"), soft_wrap=True)
    for part in report.partly:
        console.print(plain(f"in part   {part.path}: {part.why}"), soft_wrap=True)
    console.print(plain(f"not read: {counted(report.skipped)}" if report.skipped else "every file was read"))


def _show_report(console: Any, report: IndexReport, *, whole: bool) -> None:
    from reground.app.cli.display import plain

    console.print(
        plain(f"{report.passages} passages from {report.documents} documents in {report.path}"),
        plain(
            f"({report.read} documents read, {report.kept} unchanged, {report.removed} removed, "
            f"{report.seconds:.1f} s, at most {report.memory / 1e6:.0f} MB of memory)",
            "dim",
        ),
    )
    _show_unread(console, report, whole=whole)
    for note in report.notes:
        console.print(plain(note, "yellow"))
    if report.duplicate_count:
        console.print(
            plain(f"{report.duplicate_count} documents had an id that was taken: {report.duplicates[0]}, ...", "yellow")
        )
    if report.dropped_count:
        console.print(f"dropped {report.dropped_count} passages that overlap a benchmark's solutions:")
        for dropped in report.dropped[:20]:
            console.print(plain(f"  {dropped.id}: {dropped.ngram}", "dim"))
        if report.dropped_count > 20:
            console.print(f"  ... and {report.dropped_count - 20} more; --json lists a thousand")


def _decontaminator(tasks: list[str], data: Path | None) -> Decontaminator:
    from reground.evaluation.tasks import load_task
    from reground.retrieval.decontaminate import Decontaminator

    return Decontaminator([text for name in tasks for text in load_task(name, data).solutions()])


@flattened
def methods(
    output: Json, name: Annotated[str | None, typer.Argument(help="One method, with its settings.")] = None
) -> None:
    """List the methods, or the settings of one method with their defaults and meanings.

    Example:  reground methods rar
    """
    from reground.app import catalogue

    console, _ = common.consoles()
    if name is not None:
        _show_method(console, name, as_json=output.as_json)
        return
    if output.as_json:
        _print_json({entry.name: entry.summary for entry in catalogue.methods().values()})
        return
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, pad_edge=False, show_header=False)
    table.add_column(style="bold", no_wrap=True)
    table.add_column()
    for entry in catalogue.methods().values():
        table.add_row(Text(entry.name), Text(entry.summary))
    console.print(table)


def _show_method(console: Any, name: str, *, as_json: bool) -> None:
    from rich.padding import Padding

    from reground.app import catalogue
    from reground.app.cli.display import plain

    name = catalogue.named(name)
    settings, presets = catalogue.setting_defaults(name), catalogue.presets(name)
    words = catalogue.setting_meanings(name)
    if as_json:
        _print_json({"name": name, "settings": settings, "meanings": words, "presets": presets}, default=str)
        return
    entry = catalogue.methods().get(name.partition("+")[0])
    console.print(f"{name}  {'' if entry is None else entry.summary}", markup=False)
    for key, default in settings.items():
        console.print(f"  --set {key}={setting_text(default)}", markup=False, soft_wrap=True)
        if key in words:
            console.print(Padding(plain(words[key], "dim"), (0, 0, 0, 6)))
    for preset, changed in presets.items():
        if changed and "+" not in name:
            said = ", ".join(f"{key}={setting_text(value)}" for key, value in changed.items())
            console.print(f"  {name}+{preset}: the same with {said}", markup=False, soft_wrap=True)


def _print_json(value: object, **options: Any) -> None:
    from reground.app.cli.terminal import json_text, say

    say(json_text(value, **options))


@models_app.callback(invoke_without_command=True)
@flattened
def models(context: typer.Context, order: Served, output: Json) -> None:
    """List the models that can be used here, with the words that choose them, and why the others cannot.

    Servers on their usual ports are found: Ollama (11434, or OLLAMA_HOST), LM Studio (1234), llama.cpp (8080), vLLM
    (8000), and the one at --base-url or OPENAI_BASE_URL.

    Example:  reground models
    """
    if context.invoked_subcommand is not None:
        return
    from reground.app.offers import model_listings

    listings = asyncio.run(model_listings(order.model_options))
    if output.as_json:
        _print_json([_row(entry) for found in listings.values() for entry in found])
        return
    _show_models(listings)


def _row(entry: Listing) -> dict[str, object]:
    use = _words(entry) if entry.usable else None
    return {"name": entry.name, "usable": entry.usable, "why": entry.why, "use": use, "server": entry.server}


def _words(entry: Listing) -> str:
    """What to type for a model that can be used."""
    return entry.use if entry.use is not None else shlex.join(["--model", entry.name])


def _show_models(listings: Mapping[str, Sequence[Listing]]) -> None:
    from rich.text import Text

    from reground.app import catalogue

    console, _ = common.consoles()
    for provider, found in listings.items():
        console.print(Text.assemble((provider, "bold"), "  ", (catalogue.providers()[provider].summary, "dim")))
        for entry in found[:_MOST_LINES]:
            mark, what = (("yes ", "green"), _words(entry)) if entry.usable else (("no  ", "red"), entry.name)
            console.print(Text.assemble("  ", mark, what, "  ", (entry.why, "dim")), soft_wrap=True)
        if len(found) > _MOST_LINES:
            console.print(f"      ... and {len(found) - _MOST_LINES} more; --json lists them all")


@models_app.command("pull")
def pull_model(
    alias: Annotated[str, typer.Argument(help="smollm2, qwen2.5-coder-0.5b, or org/repo:file.gguf on a model hub.")],
) -> None:
    """Download a model once, show progress and verify its checksum.

    Example:  reground models pull smollm2
    """
    from reground.app.cli.progress import AskProgress
    from reground.models.pull import pull

    console, err = common.consoles()
    with AskProgress(err, shown=True) as progress:
        path = pull(alias, progress=progress.on_pull)
    common.say(console, f"{alias} is at {path}")


def register(cli: typer.Typer) -> None:
    """Add the commands of this file."""
    cli.command()(index)
    cli.add_typer(models_app, name="models")
    cli.command()(methods)
