"""Texts of tables in runs: embedded once, beside the run, by an encoder that the run knows."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from nonneg.data.dataset import Data, Subset, permutation, whole_of
from nonneg.data.text_records import MissingColumnError
from nonneg.data.text_table import TextTable, has_columns, is_table, read_table
from nonneg.data.vectors import VectorData, read_vectors
from nonneg.runs.vector_fits import TextFile, VectorFiles, of_texts
from nonneg.texts import TextEncoder, Watch, cached_vectors

if TYPE_CHECKING:
    from nonneg.estimators.ncl import NCL

# A folder beside runs, so that several runs on the same texts share their vectors.
VECTORS_FOLDER = "text-vectors"
# What embeds texts, unless another model is named.
DEFAULT_ENCODER = "all-MiniLM-L6-v2"
# Features are named by their strongest texts: of more than so many, by a fixed draw of them.
_MOST_DESCRIBED = 50_000


def _silent(_n_done: int, _n_texts: int) -> None:
    pass


def text_files(
    table: str | Path,
    *,
    out: str | Path,
    text: str | None = None,
    label: str | None = None,
    date: str | None = None,
    encoder: Any = None,  # noqa: ANN401
    vectors: str | Path | None = None,
    watch: Watch = _silent,
    **others: Any,  # noqa: ANN401
) -> VectorFiles:
    """The files of a run on the texts of a table, which are embedded where no vectors are given.

    Args:
        table: See :func:`nonneg.data.read_table`, like the names of columns that follow.
        out: The run folder; vectors go to ``text-vectors`` beside it.
        text: The column of the texts.
        label: That of their labels.
        date: That of their dates.
        encoder: See :func:`nonneg.texts.embed`; None for the default model, or with vectors for
            nothing known.
        vectors: A file with one vector per text, instead of embedding.
        watch: Called with the number of texts that are embedded, and with that of all.
        others: Further settings of :class:`VectorFiles`.
    """
    columns = {"text": text, "label": label, "date": date}
    found = read_table(table, **columns)
    facts = None
    if vectors is None:
        model = TextEncoder(DEFAULT_ENCODER if encoder is None else encoder)
        vectors, facts = cached_vectors(found.texts, model, _beside(out), watch=watch)
    elif encoder is not None:
        facts = TextEncoder(encoder).facts
    files = VectorFiles.at(vectors=vectors, **others)
    source = TextFile.at(table, **columns, encoder=facts)
    (width,) = of_texts(read_vectors(files.vectors, column=files.column), found).sample_shape
    if facts is not None and facts.width != width:
        raise ValueError(
            f"{files.vectors} has {width} columns, but {facts.name} gives {facts.width}; name the "
            "encoder that made the vectors, or leave it out"
        )
    return files.model_copy(update={"texts": source})


def are_texts(source: str | Path, text: str | None = None) -> bool:
    """Whether a file holds texts: by its ending, or because a column of texts is named."""
    return text is not None or is_table(source)


def embedded_table(
    files: VectorFiles,
    table: str | Path,
    *,
    run: Path,
    text: str | None = None,
    encoder: Any = None,  # noqa: ANN401
    watch: Watch = _silent,
) -> VectorData:
    """The vectors of another table, by the encoder of a run, with labels and dates if it has them.

    Args:
        files: Of the run.
        table: With the columns of the run's own table, of which only the texts are needed.
        run: The folder of the run.
        text: Another name for the column of the texts.
        encoder: Where the model lies now, if not where it lay.
        watch: Called with the number of texts that are embedded, and with that of all.

    Raises:
        ValueError: The run was not fitted to texts, or the encoder is unknown or has changed.
    """
    model = run_text_encoder(files.texts, run=run, encoder=encoder)
    known = files.texts
    assert known is not None
    found = _with_known_columns(table, text or known.text, known)
    path, _ = cached_vectors(found.texts, model, _beside(run), watch=watch)
    return of_texts(read_vectors(path), found)


def run_text_encoder(
    known: TextFile | None,
    *,
    run: Path,
    encoder: Any = None,  # noqa: ANN401
) -> TextEncoder:
    """The encoder that embedded the texts of a run.

    Args:
        known: What the run knows of its texts; None where it was not fitted to any.
        run: The folder of the run.
        encoder: Where the model lies now, if not where it lay.

    Raises:
        ValueError: The run was not fitted to texts, or the encoder is unknown or has changed.
    """
    if known is None or known.encoder is None:
        why = (
            "was not fitted to texts" if known is None else "does not know what embedded its texts"
        )
        raise ValueError(
            f"{run} {why}; embed them by the model of the run's vectors, and give the vectors"
        )
    facts = known.encoder
    model = TextEncoder(facts.name if encoder is None else encoder)
    if model.digest != facts.digest:
        raise ValueError(
            f"{model.name} is not the model that embedded the texts of {run}, or has changed; give "
            f"the model whose digest begins with {str(facts.digest)[:12]}"
        )
    return model


def _with_known_columns(table: str | Path, text: str | None, known: TextFile) -> TextTable:
    """The table with the label and date columns of the run, where it has them."""
    if not has_columns(table):
        return read_table(table)
    columns = {"text": text, "label": known.label, "date": known.date}
    while True:
        try:
            return read_table(table, **columns)
        except MissingColumnError as error:
            if error.args[1] == "text":
                raise
            columns[error.args[1]] = None


def name_features(ncl: "NCL", data: Data) -> str | None:
    """Name the features by the words and labels of all texts; a note where that cannot be done.

    Args:
        ncl: Fitted; its ``feature_names_`` are set.
        data: The training set, whose whole has texts or not.
    """
    whole = whole_of(data)
    if not isinstance(whole, VectorData) or whole.texts is None:
        return None
    rows = permutation(len(whole), seed=0)[:_MOST_DESCRIBED].sort().values
    X, texts, labels = rows_of_texts(Subset(whole, rows))
    is_sparse = ncl.sparse_output
    ncl.sparse_output = True  # of many texts the dense features would not fit into memory
    try:
        ncl.describe(X, texts=texts, labels=labels)
    except ValueError as error:
        return f"features have no names: {error}"
    finally:
        ncl.sparse_output = is_sparse
    return None


def rows_of_texts(data: Data) -> tuple[Any, list[str], list[Any] | None]:
    """Vectors ``(n, d)``, texts and labels of a set of texts, or of a part of one."""
    whole = whole_of(data)
    assert isinstance(whole, VectorData)
    assert whole.texts is not None
    rows = data.indices if isinstance(data, Subset) else torch.arange(len(data))
    texts = [whole.texts[row] for row in rows.tolist()]
    if whole.labels is None:
        return whole.vectors[rows.numpy()], texts, None
    labels: list[Any] = whole.labels[rows].tolist()
    names: list[Any] = list(whole.class_names)
    if names and all(name.isdecimal() for name in names):
        names = list(map(int, names))  # names of features then say that they are labels
    if names:
        labels = [names[number] for number in labels]
    return whole.vectors[rows.numpy()], texts, labels


def _beside(run: str | Path) -> Path:
    return Path(run).parent / VECTORS_FOLDER
