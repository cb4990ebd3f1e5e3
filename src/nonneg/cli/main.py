"""The command line: how commands are registered, started, and fail with one sentence."""

import inspect
import os
import signal
import sys
import threading
import warnings
from types import FrameType
from typing import Annotated, Any

import typer
from rich.console import Console
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
from nonneg.untrusted import for_terminal


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


# What a library or the system says in a sentence. Of anything else only we could make one.
_EXPECTED = (ValueError, TypeError, OSError, ImportError, FloatingPointError)
_INTERRUPTED = 130


def main() -> None:
    """Run the command line; what went wrong is one sentence on standard error and exit code 1.

    After Ctrl-C it is a line, and 130.
    """
    debug = "--debug" in sys.argv
    if debug:
        sys.argv.remove("--debug")
    else:
        warnings.showwarning = _say_warning
    before = signal.getsignal(signal.SIGINT)
    asked = _note_interruption()
    try:
        app()
    except SystemExit as end:
        if asked and end.code == _INTERRUPTED:
            _say_interrupted()
        raise
    except KeyboardInterrupt:
        _say_interrupted()
        sys.exit(_INTERRUPTED)
    except Exception as error:  # the last resort: no traceback, whatever happened
        if debug:
            raise
        if asked:  # in the middle of an import it may become another error
            _say_interrupted()
            sys.exit(_INTERRUPTED)
        if isinstance(error, InterruptedError):  # training has saved what it had
            _say_interrupted(str(error))
            sys.exit(_INTERRUPTED)
        Console(stderr=True).print(
            f"[bold red]error:[/] {for_terminal(_sentence(error))}", highlight=False, soft_wrap=True
        )
        sys.exit(1)
    finally:
        if before is not None and threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGINT, before)


def _note_interruption() -> list[int]:
    """A list that gets an entry at Ctrl-C, which otherwise does what it did.

    But in the midst of an import the process ends at once: some libraries cannot be left there, and
    abort with pages of what they were doing.
    """
    asked: list[int] = []

    def interrupt(number: int, frame: FrameType | None) -> None:
        asked.append(number)
        if _is_importing(frame):
            os.write(2, b"interrupted\n")
            os._exit(_INTERRUPTED)
        signal.default_int_handler(number, frame)

    is_main = threading.current_thread() is threading.main_thread()
    if is_main and signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, interrupt)
    return asked


def _is_importing(frame: FrameType | None) -> bool:
    while frame is not None and not frame.f_code.co_filename.startswith("<frozen importlib"):
        frame = frame.f_back
    return frame is not None


def _say_interrupted(said: str = "interrupted") -> None:
    Console(stderr=True).print(for_terminal(said), style="yellow", highlight=False, soft_wrap=True)


def _say_warning(message: Warning | str, *_: object, **__: object) -> None:
    """A warning as one line, without the place in the code that Python would name."""
    Console(stderr=True).print(
        f"[yellow]warning:[/] {for_terminal(str(message))}", highlight=False, soft_wrap=True
    )


def _sentence(error: Exception) -> str:
    """The message of an error; that of the system comes with the file that it is about."""
    if isinstance(error, OSError) and error.strerror:
        return f"{error.filename}: {error.strerror}" if error.filename else error.strerror
    if isinstance(error, _EXPECTED):
        return str(error)
    if isinstance(error, MemoryError) or "can't allocate memory" in str(error):
        reason = " ".join(str(error).split())
        return f"there is not enough memory{f' ({reason})' if reason else ''}; give less at once"
    name, reason = type(error).__name__, " ".join(str(error).split())
    return (
        f"{name}: {reason or 'no message'}. This was not foreseen: add --debug to see where it "
        "happened, and please report it"
    )
