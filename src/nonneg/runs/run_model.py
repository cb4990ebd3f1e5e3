"""A fitted run as one function: vectors or texts in, sparse features out."""

from collections.abc import Sequence
from functools import cached_property, lru_cache, partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy import sparse

from nonneg.data.text_table import has_columns, read_table
from nonneg.interchange.arrow import ArrowFeatures
from nonneg.runs.record import is_fitted, model_digest, read_run
from nonneg.runs.text_fits import run_text_encoder
from nonneg.texts import TextEncoder, embed
from nonneg.training.run_folder import RUN_FILE


class RunModel:
    """The estimator of a run folder, and the encoder of its texts where it has one.

    Args:
        folder: Of ``nonneg fit``, or what ``NCL.save`` wrote.
        encoder: Where the encoder of texts lies now; None for where it lay. It is loaded when the
            first text comes.

    Raises:
        ValueError: The folder holds no fitted ``NCL``.
    """

    def __init__(self, folder: str | Path, *, encoder: Any = None) -> None:  # noqa: ANN401
        # Imported on use: scikit-learn takes a third of the time of all imports.
        from nonneg.estimators.ncl import NCL

        self.folder, self._encoder = Path(folder), encoder
        check_is_fitted(folder)
        # The device of the fit may not exist here.
        self.ncl: NCL = NCL.load(self.folder).set_params(sparse_output=True, device="auto")
        self.digest = model_digest(self.folder)
        """SHA-256 of the weights and of what was curated: what an index belongs to."""

    @property
    def n_features(self) -> int:
        """Columns of the features."""
        return int(self.ncl.encoder_.n_features)

    @property
    def n_inputs(self) -> int:
        """Numbers per vector."""
        return int(self.ncl.n_features_in_)

    @property
    def names(self) -> tuple[str, ...]:
        """Of the features, one each; numbered where none was given."""
        return tuple(map(str, self.ncl.get_feature_names_out()))

    @cached_property
    def text_encoder(self) -> TextEncoder:
        """What embeds texts.

        Raises:
            ValueError: The run was not fitted to texts, or the encoder has changed.
        """
        known = read_run(self.folder).fit if (self.folder / RUN_FILE).exists() else None
        texts = None if known is None else known.data.texts
        return run_text_encoder(texts, run=self.folder, encoder=self._encoder)

    def texts_of(self, table: str | Path) -> Sequence[str]:
        """The texts of a table that has the columns of the run's own."""
        known = read_run(self.folder).fit if (self.folder / RUN_FILE).exists() else None
        texts = None if known is None else known.data.texts
        column = None if texts is None or not has_columns(table) else texts.text
        return read_table(table, text=column).texts

    def of_vectors(self, X: ArrayLike) -> sparse.csr_array:
        """Features of vectors ``(n, n_inputs)``: float32 ``(n, n_features)``."""
        found: Any = self.ncl.transform(X)
        return sparse.csr_array(found)

    def of_texts(self, texts: Sequence[str]) -> sparse.csr_array:
        """Features of texts, float32 ``(n, n_features)``; an empty text has none.

        Raises:
            TypeError: It is one text, or holds something else than texts.
            ValueError: See :attr:`text_encoder`.
        """
        if isinstance(texts, str):
            raise TypeError("texts is one text; give a list of texts, also of one")
        for place, text in enumerate(texts):
            if not isinstance(text, str):
                raise TypeError(f"texts holds {type(text).__name__} in place {place}; give a text")
        if not len(texts):
            return sparse.csr_array(np.zeros((0, self.n_features), dtype=np.float32))
        told = [place for place, text in enumerate(texts) if text.strip()]
        vectors = np.zeros((len(texts), self.n_inputs), dtype=np.float32)
        if told:
            vectors[told] = embed([texts[place] for place in told], self.text_encoder)
        return self.of_vectors(vectors)


def arrow_features(
    run: str | Path,
    *,
    column: str | None = None,
    text: str | None = None,
    id_column: str | None = None,
    encoder: str | Path | None = None,
) -> ArrowFeatures:
    """A function from Arrow batches to the features of a run, for engines that map batches.

    It can be pickled; each worker loads the run when its first batch comes, from the same path, and
    keeps it for later ones.

    Args:
        run: The folder of a fitted run.
        column: That of the vectors, lists of numbers; None for the only one.
        text: The column of texts, for runs fitted to texts.
        id_column: What the rows are known by.
        encoder: Where the encoder of texts lies now; None for where it lay.

    Raises:
        ValueError: The folder holds no fitted ``NCL``.
    """
    folder = str(Path(run).expanduser().resolve())
    check_is_fitted(folder)
    place = None if encoder is None else str(encoder)
    load = partial(_loaded, folder, place, model_digest(folder))
    return ArrowFeatures(load, column=column, text=text, id_column=id_column)


def check_is_fitted(folder: str | Path) -> None:
    """Raise a sentence for a folder without a fitted estimator."""
    if not is_fitted(folder):
        raise ValueError(
            f"{folder} holds no fitted estimator; give a folder of nonneg fit, or of NCL.save"
        )


# One process may work on many parts of a data set.
@lru_cache(maxsize=2)
def _loaded(folder: str, encoder: str | None, digest: str) -> RunModel:
    """The run, as it was when its digest was taken."""
    model = RunModel(folder, encoder=encoder)
    if model.digest != digest:
        raise ValueError(
            f"{folder} holds another run here than where the work began, or has changed since; "
            "copy the run to all machines"
        )
    return model
