"""`reground train export`: a trained model in the form that another program reads."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from reground.app.cli import _common as common
from reground.app.cli.config import ConfigFile
from reground.app.cli.flags import flattened
from reground.app.options_training import Export

if TYPE_CHECKING:
    import typer


@flattened
def export(order: Export, config: ConfigFile = None) -> None:
    """Write a trained model, its adapter merged in, as a folder of whole weights or as a GGUF file.

    The name of the output decides: a name that ends in .gguf is a file for llama.cpp and gguf/, any other a folder for
    hf/ and other tools. A GGUF file takes its tokenizer and settings from --like, a GGUF file of the same base model.
    With --adapter, only the adapter is written, for gguf/ with --adapter FILE.

    Example:  reground train export runs/rewriter/model --out rewriter.gguf --like smollm2
    """
    from reground.core.errors import ConfigurationError
    from reground.models import pull
    from reground.training.export import export_adapter, export_folder, export_gguf

    console, err = common.consoles()
    if order.out.exists():
        raise ConfigurationError(f"{order.out} exists already: name another --out, or delete it")
    if order.out.suffix == ".gguf":
        if order.like is None:
            raise ConfigurationError("a GGUF file needs --like: a GGUF file or alias of the same base model")
        with err.status("converting the weights"):
            like = pull.pull(order.like)
            if order.adapter:
                export_adapter(Path(order.source), order.out, like=like)
            else:
                export_gguf(order.source, order.out, like=like, precision=order.precision)
    elif order.adapter:
        raise ConfigurationError("--adapter writes a GGUF file: name an --out that ends in .gguf")
    else:
        with err.status("merging the weights"):
            export_folder(order.source, order.out)
    common.say(console, str(order.out))


def register(train: typer.Typer) -> None:
    """Add the command of this file."""
    train.command()(export)
