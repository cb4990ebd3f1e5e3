"""Ctrl-C ends any command with a line and the code of shells, from its first moments on."""

import os
import signal
import subprocess
import sys
import textwrap
from types import SimpleNamespace

import numpy as np
import pytest
from forking import Forked

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="Ctrl-C is no signal there")

# By itself or, where a library runs Python of its own, by the signal: shells say 130 to both.
ENDED = (130, -signal.SIGINT)


@pytest.mark.parametrize("when", ["typer", "nonneg.cli.main", "torch"])
def test_while_the_command_line_is_imported(when, tmp_path):
    """The signal comes as a module is looked for."""
    code = textwrap.dedent(
        f"""
        import os, signal, sys

        class Interrupting:
            def find_spec(self, name, *_):
                if name == {when!r}:
                    os.kill(os.getpid(), signal.SIGINT)

        sys.meta_path.insert(0, Interrupting())
        from nonneg.cli import main
        main()
        """
    )
    ended = subprocess.run(
        [sys.executable, "-c", code, "evaluate", "none"],
        capture_output=True,
        text=True,
        cwd=tmp_path,
    )
    assert (ended.returncode in ENDED, ended.stderr) == (True, "interrupted\n")


COMMAND = textwrap.dedent(
    """
    import os, signal, sys
    from nonneg.cli import main
    import nonneg.runs.{module} as module

    signal.signal(signal.SIGINT, signal.default_int_handler)

    def interrupted(*args, **kwargs):
        try:
            os.kill(os.getpid(), signal.SIGINT)
            while True:
                pass
        except KeyboardInterrupt as error:
            raise {how}

    module.{name} = interrupted
    main()
    """
)


@pytest.mark.parametrize("how", ["error", "ImportError('half imported') from error"])
@pytest.mark.parametrize(
    ("module", "name", "arguments"),
    [
        ("experiment", "training_data", ["train", "digits", "--out", "run"]),
        ("evaluating", "run_encoder", ["evaluate", "RUN"]),
        ("embedding", "run_features", ["embed", "RUN", "x.npy", "--out", "z.npz"]),
        ("indexing", "model_digest", ["index", "RUN", "x.npy"]),
        ("searching", "_index_of", ["search", "RUN", "tea"]),
        ("exporting", "_check_place", ["export", "RUN", "x.npy", "--to", "jsonl", "--out", "o"]),
        ("vector_fits", "read_vectors", ["fit", "x.npy", "--out", "run"]),
    ],
)
def test_in_the_midst_of_a_command(how, module, name, arguments, tmp_path, monkeypatch):
    """Also where an import makes another error of it."""
    (tmp_path / "RUN").mkdir()
    settings = {"encoder": {"nonnegative": "relu"}, "loss": {"name": "info_nce"}, "seed": 0}
    text = str({"settings": settings}).replace("'", '"')
    (tmp_path / "RUN" / "run.json").write_text(text)
    np.save(tmp_path / "x.npy", np.eye(4))
    monkeypatch.chdir(tmp_path)
    code = COMMAND.format(module=module, name=name, how=how)
    ended = Forked(f"import os; os.chdir({os.fspath(tmp_path)!r})\n" + code, *arguments).end()
    assert (ended.returncode, ended.stderr) == (130, "interrupted\n")
    assert not (tmp_path / "run").exists()


def test_training_that_is_stopped_says_how_to_go_on(nonneg, monkeypatch, tmp_path):
    def stopped(*_, **__):
        return SimpleNamespace(interrupted_by="SIGINT")

    monkeypatch.setattr("nonneg.report.demo.run_experiment", stopped)
    monkeypatch.setattr("nonneg.paper.filling.run_experiment", stopped)
    for arguments in (
        ("demo", "--out", tmp_path / "demo"),
        ("reproduce", "properties", "--preset", "digits", "--runs", tmp_path, "--out", tmp_path),
    ):
        ended = nonneg(*arguments)
        said = "training was stopped by SIGINT; the same command continues it\n"
        assert (ended.returncode, ended.stderr) == (130, said)


def test_fine_tuning_that_is_stopped_says_how_to_go_on(nonneg, monkeypatch):
    def stopped(*_, **__):
        raise InterruptedError("fine-tuning was stopped by SIGINT; the same command continues it")

    monkeypatch.setattr("nonneg.runs.evaluating.read_run", stopped)
    ended = nonneg("evaluate", "run")
    assert ended.returncode == 130
    assert ended.stderr == "fine-tuning was stopped by SIGINT; the same command continues it\n"


ERRORS = {
    "KeyError('a')": "error: KeyError: 'a'. This was not foreseen: add --debug to see where it",
    "RuntimeError('DataLoader worker (pid 3) exited')": "error: RuntimeError: DataLoader worker (p",
    "RecursionError('x' * 3)": "error: RecursionError: xxx. This was not foreseen: add --debug",
    "MemoryError('Unable to allocate 9 TiB')": "error: there is not enough memory (Unable to all",
    'RuntimeError("can\'t allocate memory: 9")': "error: there is not enough memory (can't alloc",
    "IndexError('list index out of range')": "error: IndexError: list index out of range. This",
    "OverflowError('int too large')": "error: OverflowError: int too large. This was not foreseen",
    "SystemError('bad call')": "error: SystemError: bad call. This was not foreseen: add --debug",
    "__import__('zlib').error('-3')": "error: error: -3. This was not foreseen: add --debug to see",
    "__import__('tokenize').TokenError('EOF')": "error: TokenError: EOF. This was not foreseen",
    "AttributeError()": "error: AttributeError: no message. This was not foreseen: add --debug to",
}


@pytest.mark.parametrize("raised", ERRORS)
def test_whatever_goes_wrong_is_one_sentence(raised, nonneg, monkeypatch):
    def fail(*_, **__):
        raise eval(raised)

    monkeypatch.setattr("nonneg.runs.evaluating.read_run", fail)
    ended = nonneg("evaluate", "run")
    assert ended.returncode == 1
    assert ended.stderr.startswith(ERRORS[raised])
    assert ended.stderr.count("\n") == 1
    with pytest.raises(type(eval(raised))):
        nonneg("evaluate", "run", "--debug")
