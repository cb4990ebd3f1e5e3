"""The command line: how commands are registered, started, and fail with one sentence."""

import inspect
import sys
import warnings
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.markup import escape
from typer.core import TyperCommand, TyperGroup

import nonneg
from nonneg.cli import (
    compare,
    curate,
    demo,
    embed,
    evaluate,
    export,
    fit,
    import_checkpoint,
    index,
    presets,
    report,
    reproduce,
    search,
    serve,
    theory,
    train,
)


class _PlainHelp:
    """A command whose help says neither that flags are <bool> nor that many are <list[Path]>."""

    def get_params(self, ctx: Any) -> Any:  # noqa: ANN401
        params = super().get_params(ctx)  # type: ignore[misc]
        for param in params:
            if getattr(param, "is_flag", False) and param.metavar is None:
                param.metavar = ""
            if param.nargs == -1:
                param.display_type_rich = lambda ctx: None
        return params


class _Group(_PlainHelp, TyperGroup):
    pass


class _Command(_PlainHelp, TyperCommand):
    pass


app = typer.Typer(
    name="nonneg",
    cls=_Group,
    epilog="Add [bold]--debug[/] to any command to see the whole traceback of an error.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _say_version(asked: bool) -> None:
    if asked:
        Console().print(f"nonneg {nonneg.__version__}", highlight=False)
        raise typer.Exit


@app.callback()
def options(
    _: Annotated[
        bool,
        typer.Option(
            "--version", callback=_say_version, is_eager=True, help="Show the version and leave."
        ),
    ] = False,
) -> None:
    """Non-negative contrastive learning: sparse features that a person can read."""


def _help(docstring: str | None) -> str:
    """A docstring whose paragraphs are one line each, so that they fit any width."""
    paragraphs = inspect.cleandoc(docstring or "").split("\n\n")
    return "\n\n".join(" ".join(paragraph.split()) for paragraph in paragraphs)


for command in (
    demo.demo,
    train.train,
    evaluate.evaluate,
    compare.compare,
    presets.presets,
    fit.fit,
    embed.embed,
    curate.curate,
    index.index,
    search.search,
    export.export,
    import_checkpoint.import_checkpoint,
    report.report,
    serve.serve,
    reproduce.reproduce,
    theory.theory,
):
    name = command.__name__.replace("_", "-")
    app.command(name, cls=_Command, help=_help(command.__doc__))(command)


def main() -> None:
    """Run the command line; what went wrong is one sentence on standard error and exit code 1."""
    debug = "--debug" in sys.argv
    if debug:
        sys.argv.remove("--debug")
    else:
        warnings.showwarning = _say_warning
    try:
        app()
    except (ValueError, TypeError, OSError, ImportError, FloatingPointError) as error:
        if debug:
            raise
        Console(stderr=True).print(
            f"[bold red]error:[/] {escape(_sentence(error))}", highlight=False, soft_wrap=True
        )
        sys.exit(1)


def _say_warning(message: Warning | str, *_: object, **__: object) -> None:
    """A warning as one line, without the place in the code that Python would name."""
    Console(stderr=True).print(
        f"[yellow]warning:[/] {escape(str(message))}", highlight=False, soft_wrap=True
    )


def _sentence(error: Exception) -> str:
    """The message of an error; that of the system comes with the file that it is about."""
    if isinstance(error, OSError) and error.strerror:
        return f"{error.filename}: {error.strerror}" if error.filename else error.strerror
    return str(error)
