"""Captions beside samples: which are shown, which find each other, and which features agree."""

from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from nonneg import metrics
from nonneg.metrics.figures import Figure, Figures
from nonneg.metrics.inputs import FeatureLike, checked_features
from nonneg.metrics.results import FloatArray, IntArray
from nonneg.report.atlas_data import Atlas
from nonneg.report.contents import per_feature
from nonneg.report.feature_facts import FeatureFacts, feature_facts
from nonneg.report.page import packed_array
from nonneg.report.samples import Samples, random_draw
from nonneg.report.wording import names_by_words
from nonneg.rows import unit_rows

# Every caption is compared with every sample, so that time grows with the square.
_MAX_SAMPLES = 5000
_BLOCK = 512
_K = 10
# Sums in another order differ by less.
_ROUNDING = 1e-6


@dataclass(frozen=True, eq=False)
class Pairing:
    """How well two kinds of samples that share d features fit each other.

    Args:
        agreement: Cosine of each feature over captions with the same feature over the samples
            that they belong to; NaN where either is dead ``(d,)``.
        figures: The mean agreement and both directions of retrieval, each with its chance.
    """

    agreement: FloatArray
    figures: Figures


def pairing(samples: FeatureLike, captions: FeatureLike, caption_of: IntArray) -> Pairing:
    """Agreement and retrieval of captions and the samples that they belong to.

    A caption finds its sample if fewer than ten samples have a larger cosine; a sample finds its
    captions if one of them is found so. One without active features finds nothing. Of more
    than 5,000 samples, retrieval is among a random draw.

    Args:
        samples: Features ``(n, d)``.
        captions: Features ``(m, d)``.
        caption_of: For each caption the number of its sample ``(m,)``.

    Example:
        >>> found = pairing([[1, 0, 0], [0, 1, 0]], [[2, 0, 0], [0, 3, 0]], np.array([0, 1]))
        >>> found.agreement, found.figures["agreement"].beside["n_features"]
        (array([ 1.,  1., nan]), 2)
    """
    rows, words = _unit(samples), _unit(captions)
    agreement = _agreement(rows[caption_of], words)
    shuffled = np.random.default_rng(0).permutation(caption_of)
    alike = Figure.of(
        "agreement",
        _mean(agreement),
        null=_mean(_agreement(rows[shuffled], words)),
        n_features=int(np.isfinite(agreement).sum()),
    )
    return Pairing(agreement, {"agreement": alike, **_retrieval(rows, words, caption_of)})


def _unit(features: FeatureLike) -> sparse.csr_array:
    """Sparse rows of length 1."""
    tiles = checked_features(features).tiles()
    blocks = [sparse.csr_array(unit_rows(tile).cpu().numpy()) for _, tile in tiles]
    return sparse.csr_array(sparse.vstack(blocks, format="csr"))


def _agreement(partners: sparse.csr_array, words: sparse.csr_array) -> FloatArray:
    """The cosine of each pair of columns ``(d,)``, NaN where one of them is all zero."""
    parts = [_column_sums(a.multiply(b)) for a, b in _squares(partners, words)]
    with np.errstate(invalid="ignore"):
        cosines: FloatArray = parts[0] / np.sqrt(parts[1] * parts[2])
    return cosines


def _squares(
    a: sparse.csr_array, b: sparse.csr_array
) -> list[tuple[sparse.csr_array, sparse.csr_array]]:
    return [(a, b), (a, a), (b, b)]


def _column_sums(matrix: sparse.csr_array) -> FloatArray:
    return np.asarray(matrix.sum(axis=0, dtype=np.float64)).ravel()


def _mean(values: FloatArray) -> float | None:
    known = values[np.isfinite(values)]
    return float(known.mean()) if len(known) else None


def _retrieval(rows: sparse.csr_array, words: sparse.csr_array, of: IntArray) -> Figures:
    """How often a caption finds its sample, and a sample one of its captions."""
    some = random_draw(rows.shape[0], _MAX_SAMPLES, seed=0)
    place = np.full(rows.shape[0], -1)
    place[some] = np.arange(len(some))
    kept = np.flatnonzero(place[of] >= 0)
    rows, words, of = rows[some], words[kept], place[of[kept]]
    n, m = len(some), len(kept)
    if min(n, m) <= _K:
        return {}
    ranks, best = _ranks(rows, words, of)
    counts = np.bincount(of, minlength=n)
    own = counts > 0
    # By chance the first ten captions are any ten of them.
    missed = np.prod([np.clip(m - counts - i, 0, None) / (m - i) for i in range(_K)], axis=0)
    chance = float(1 - missed[own].mean())
    return {
        "caption_to_sample": _found("caption_to_sample", ranks < _K, _K / n, n),
        "sample_to_caption": _found("sample_to_caption", best[own] < _K, chance, m),
    }


def _found(key: str, hits: NDArray[np.bool_], chance: float, n_samples: int) -> Figure:
    return Figure.of(key, float(hits.mean()), null=chance, n_samples=n_samples)


def _ranks(
    rows: sparse.csr_array, words: sparse.csr_array, of: IntArray
) -> tuple[IntArray, IntArray]:
    """From 0: each caption's sample among all ``(m,)``, each sample's first own caption ``(n,)``.

    Where nothing is shared the rank is past the end.
    """
    n, m = rows.shape[0], words.shape[0]
    own = np.asarray(words.multiply(rows[of]).sum(axis=1)).ravel()
    nearest = np.zeros(n)
    np.maximum.at(nearest, of, own)
    ranks, first = np.zeros(m, dtype=np.int64), np.zeros(n, dtype=np.int64)
    turned = sparse.csr_array(rows.T)
    for start in range(0, m, _BLOCK):
        block = slice(start, min(start + _BLOCK, m))
        cosines = (words[block] @ turned).toarray()
        ranks[block] = (cosines > own[block, None] + _ROUNDING).sum(axis=1)
        first += (cosines > nearest + _ROUNDING).sum(axis=0)
    return np.where(own > 0, ranks, n), np.where(nearest > 0, first, m)


@dataclass(frozen=True, eq=False)
class ShownCaptions:
    """The captions of an atlas.

    Args:
        samples: All of them.
        shown: Numbers of those on the page.
        place: For each of these the position of its sample on the page; None where it is not known.
        facts: Of the features over captions; their examples are positions in ``shown``.
        pairing: How captions and samples fit; None where it is not known whose they are.
    """

    samples: Samples
    shown: IntArray
    place: IntArray | None
    facts: FeatureFacts
    pairing: Pairing | None

    @classmethod
    def of(cls, atlas: Atlas, shown: IntArray, *, max_samples: int, seed: int) -> Self:
        """The captions of an atlas, those of shown samples where it is known whose they are.

        Args:
            atlas: With captions.
            shown: Numbers of the samples on the page.
            max_samples: A random draw of so many captions is shown when there are more.
            seed: Of that draw.
        """
        captions, of = atlas.captions, atlas.caption_of
        assert captions is not None
        if of is None:
            chosen, place, fit = random_draw(len(captions), max_samples, seed), None, None
        else:
            position = np.full(len(atlas.samples), -1)
            position[shown] = np.arange(len(shown))
            candidates = np.flatnonzero(position[of] >= 0)
            chosen = candidates[random_draw(len(candidates), max_samples, seed)]
            place = position[of[chosen]]
            fit = pairing(atlas.samples.features, captions.features, of)
        facts = feature_facts(captions.features, shown=chosen, n_spread=3)
        return cls(captions, chosen, place, facts, fit)

    def names(self, facts: FeatureFacts) -> list[str]:
        """A name for each feature by the words of its captions and of its samples' captions.

        Args:
            facts: Of the features over samples.
        """
        assert self.samples.texts is not None
        texts = [self.samples.texts[i] for i in self.shown]
        if self.place is None:
            return names_by_words(self.facts.top, texts)
        return names_by_words(self.facts.top, texts, beside=facts.top, text_of=self.place)

    def table(self) -> dict[str, Any]:
        """What the pages of single features need, as values that JSON can hold."""
        agreement: FloatArray | None = None if self.pairing is None else self.pairing.agreement
        return {
            "top": packed_array(self.facts.top, "int32"),
            "top_strength": packed_array(self.facts.top_strength, "float32"),
            "n_active": packed_array(self.facts.n_active, "int32"),
            "highest": packed_array(self.facts.highest, "float32"),
            "histogram": packed_array(self.facts.histogram, "int32"),
            "spread": packed_array(self.facts.spread, "int32"),
            "agreement": per_feature(agreement),
        }

    def figures(self, alive: IntArray) -> Figures:
        """Features alive on both sides, active features per caption, and how well pairs fit.

        Args:
            alive: For how many samples each feature is active ``(d,)``.
        """
        both = int(((alive > 0) & (self.facts.n_active > 0)).sum())
        return {
            "alive_both": Figure.of("alive_both", both / len(alive), n_alive=both),
            "active_per_caption": Figure.of(
                "active_per_caption", metrics.active_per_sample(self.samples.features).value
            ),
            **({} if self.pairing is None else self.pairing.figures),
        }
