"""Telling words: what the strongest texts of a feature say more often than other texts do."""

from collections.abc import Iterator, Sequence
from itertools import takewhile

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from nonneg.estimators.tokens import Tokenize, Vocabulary, checked_text, is_unspaced, worth
from nonneg.metrics.results import FloatArray, IntArray

# As if so many texts of the usual words were there too: few texts prove little.
_PRIOR = 5
_DISCOUNT = 0.5
# Above 1, rare words weigh more against words that stand in many texts anyway.
_RARENESS = 1.5
# A word that so many texts hold counts half: it may be a slip that a thread repeats.
_FEW_TEXTS = 5
# Words that are judged by what they occur with, and those that count as a feature's best.
_N_CANDIDATES = 30
_N_BEST = 10
_N_ROUNDS = 4
_LEAST_COHERENCE = 0.01
# Texts beside the strongest ones that say how often words occur together anywhere.
_N_BACKGROUND = 5_000
_N_BATCH = 2_048
# A phrase says more than either of its words, so it may score a little less; but of the texts that
# hold its rarer word, three in ten must hold the phrase.
_PHRASE_SHARE = 0.8
_FIXED_SHARE = 0.3
# Shares of one size may differ by rounding, which tells nothing.
_ROUNDING = 1e-9
# An ending makes no new word: sits and sitting, woman and women.
_STEM = 3
_ENDING = 4

Words = tuple[tuple[str, float], ...]


def telling_words(
    top: IntArray,
    texts: Sequence[str],
    *,
    n_words: int = 3,
    beside: IntArray | None = None,
    text_of: IntArray | None = None,
    tokenize: Tokenize | None = None,
    phrases: bool = True,
) -> list[Words]:
    """For each feature the words that tell what its strongest texts are about, with their scores.

    A word is first judged by how much more often the feature's texts hold it than all texts do
    (class-based TF-IDF after Grootendorst 2022, made for few texts):
    ``p log(p / q)^1.5 * m / (m + 5) * (1 - log k / log(d + 1))``, where q is its share of all
    texts, p its share of the feature's texts less half a text, drawn towards q as if by five more
    texts, m the number of texts that hold it, and k the number of the d features that have it
    among their ten best. Numbers count a quarter, words with digits and words of two letters half.
    A word must be in two texts at least, and in a tenth of them, where there is such a word.
    Of the best thirty each is then multiplied by its coherence: its mean NPMI with the others,
    weighted by their scores. So words of one text, of a signature or of a quotation fall behind.

    Function words tell nothing in any language, because they are as frequent elsewhere; English
    ones are left out also where they are not. Of skier and skiers the better one stands. A phrase
    of two words stands for both where it tells about as much as either or more.

    Texts are read once from first to last, and the strongest by their numbers, so ``texts`` may
    read from disk. Only words of the strongest texts are counted, which bounds the memory.

    Args:
        top: Numbers of each feature's strongest texts, then -1 ``(d, n_top)``.
        texts: Where they hold no words at all, none are found.
        n_words: At most so many per feature.
        beside: Numbers of each feature's strongest samples of another kind, such as images, then
            -1 ``(d, n_beside)``; their texts count as much.
        text_of: For each text the number of its sample of that kind, or -1.
        tokenize: Gives the words of a text in their order. Left out, words are runs of letters and
            digits in lower case without addresses; of scripts without spaces, pairs of characters.
        phrases: Whether phrases of two words count.

    Returns:
        ``(word, score)`` per word, best first; all scores are above 0.

    Example:
        >>> texts = ["a red car", "a fast car", "a red apple", "an apple pie"]
        >>> found = telling_words(np.array([[0, 1], [2, 3], [-1, -1]]), texts)
        >>> [[word for word, _ in words] for words in found]
        [['car'], ['apple'], []]
    """
    if hasattr(texts, "tolist"):  # an array, or a column whose rows have names of their own
        texts = texts.tolist()
    counted = _CountedWords.of(top, texts, beside, text_of, tokenize, phrases=phrases)
    if not counted.terms:
        return [()] * len(top)
    candidates = [counted.candidates(feature) for feature in range(len(top))]
    n_features = np.zeros(len(counted.terms))
    for which, _ in candidates:
        n_features[which[:_N_BEST]] += 1
    own = 1 - np.log(np.maximum(n_features, 1)) / np.log(len(top) + 1)
    telling = []
    for which, score in candidates:
        score = counted.coherent(which, score * own[which])
        order = counted.order(which, score)
        words = ((counted.terms[which[i]], float(score[i])) for i in order)
        telling.append(_different(words, n_words))
    return telling


class _CountedWords:
    """Which texts hold which words and phrases: the strongest texts, and some of the others.

    Args:
        terms: The words of the strongest texts, then phrases.
        parts: Numbers of the two words of each phrase ``(n_phrases, 2)``.
        found: How many of each feature's texts hold a term ``(d, n_terms)``.
        n_found: How many texts each feature has ``(d,)``.
        holding: How many of all texts hold a term ``(n_terms,)``.
        kept: What the strongest texts and some others hold ``(n_kept, n_terms)``.
        weights: How many of all texts each of them stands for ``(n_kept,)``.
        n_texts: How many texts there are.
    """

    def __init__(
        self,
        terms: list[str],
        parts: IntArray,
        found: sparse.csr_array,
        n_found: FloatArray,
        holding: FloatArray,
        kept: sparse.csr_array,
        weights: FloatArray,
        n_texts: int,
    ) -> None:
        self.terms, self.parts, self.n_texts = terms, parts, n_texts
        self.found, self.n_found, self.holding = found, n_found, holding
        self.usual = holding / n_texts
        self.kept = sparse.csc_array(kept)
        self.weights = weights
        self.worth = np.array([worth(term) for term in terms])
        self.place = np.empty(len(terms), np.int64)
        self.place[sorted(range(len(terms)), key=terms.__getitem__)] = np.arange(len(terms))

    @classmethod
    def of(
        cls,
        top: IntArray,
        texts: Sequence[str],
        beside: IntArray | None,
        text_of: IntArray | None,
        tokenize: Tokenize | None,
        *,
        phrases: bool,
    ) -> "_CountedWords":
        near, chosen = _strongest_texts(top, beside, text_of)
        vocabulary = Vocabulary(tokenize)
        rows = [vocabulary.grow(checked_text(texts[i], i)) for i in near.tolist()]
        words = vocabulary.words
        n_words = len(words)
        n_found = np.asarray(chosen.sum(axis=1), np.float64).ravel()
        codes = _phrase_codes(rows, chosen, n_found, words) if phrases else np.empty(0, np.int64)
        holds = _holds(rows, n_words, codes)
        holding = np.asarray(holds.sum(axis=0), np.float64).ravel()
        others = np.setdiff1d(np.arange(len(texts)), near, assume_unique=True)
        drawn = others[:: max(1, -(-len(others) // _N_BACKGROUND))]
        kept = [holds]
        for numbers, batch in _batches(texts, near, vocabulary):
            part = _holds(batch, n_words, codes)
            holding += np.asarray(part.sum(axis=0)).ravel()
            kept.append(part[np.isin(numbers, drawn)])
        weights = np.ones(len(near) + len(drawn))
        weights[len(near) :] = len(others) / max(len(drawn), 1)
        parts = np.stack([codes // max(n_words, 1), codes % max(n_words, 1)], axis=1)
        terms = words + [f"{words[a]} {words[b]}" for a, b in parts.tolist()]
        found = sparse.csr_array(chosen @ holds)
        found.sort_indices()
        stacked = sparse.vstack(kept, format="csr")
        return cls(terms, parts, found, n_found, holding, stacked, weights, len(texts))

    def candidates(self, feature: int) -> tuple[IntArray, FloatArray]:
        """Numbers of the terms that may tell what the feature is about, best first, with scores."""
        part = slice(self.found.indptr[feature], self.found.indptr[feature + 1])
        which = self.found.indices[part].astype(np.int64)
        counts, n = self.found.data[part], self.n_found[feature]
        usual, holding = self.usual[which], self.holding[which]
        share = (np.maximum(counts - _DISCOUNT, 0) + _PRIOR * usual) / (n + _PRIOR)
        score = share * np.log(np.maximum(share / usual, 1)) ** _RARENESS
        score *= self.worth[which] * holding / (holding + _FEW_TEXTS)
        score[share <= usual * (1 + _ROUNDING)] = 0
        frequent = counts >= max(2, n / 10)
        if (score[frequent] > 0).any():
            score[~frequent] = 0
        score[~self._stands(which, score)] = 0
        order = self.order(which, score)[:_N_CANDIDATES]
        order = order[score[order] > 0]
        return which[order], score[order]

    def order(self, which: IntArray, score: FloatArray) -> IntArray:
        """Positions of the terms, the best first; equals by the alphabet."""
        return np.lexsort((self.place[which], -score))

    def _stands(self, which: IntArray, score: FloatArray) -> NDArray[np.bool_]:
        """The phrases that tell about as much as their words, and the words of no such phrase."""
        n_words = len(self.terms) - len(self.parts)
        first = int(np.searchsorted(which, n_words))
        words, phrases = which[:first], which[first:]
        of_word = np.zeros(n_words)
        of_word[words] = score[:first]
        parts = self.parts[phrases - n_words]
        is_fixed = self.holding[phrases] >= _FIXED_SHARE * self.holding[parts].min(axis=1)
        # A function word beside another makes no phrase: both must tell something.
        least, best = of_word[parts].min(axis=1), of_word[parts].max(axis=1)
        stands = is_fixed & (least > 0) & (score[first:] >= _PHRASE_SHARE * best)
        return np.concatenate([~np.isin(words, parts[stands & (score[first:] > 0)]), stands])

    def coherent(self, which: IntArray, score: FloatArray) -> FloatArray:
        """The scores of candidates times their weighted mean NPMI with one another."""
        if len(which) < 2:
            return score
        holds = self.kept[:, which]
        weighted = sparse.csc_array(holds * self.weights[:, None])
        together = (weighted.T @ holds).toarray() / self.n_texts  # (n, n) shares of texts
        alone = together.diagonal()
        with np.errstate(divide="ignore", invalid="ignore"):
            npmi = np.log(together / np.outer(alone, alone)) / -np.log(together)
        npmi[together <= 0] = -1
        npmi[together >= 1 - _ROUNDING] = 0
        np.fill_diagonal(npmi, 0)
        judged = score
        for _ in range(_N_ROUNDS):
            others = np.maximum(judged.sum() - judged, np.finfo(float).tiny)
            coherence = npmi @ judged / others
            judged = score * np.maximum(coherence, _LEAST_COHERENCE)
        return judged


def _strongest_texts(
    top: IntArray, beside: IntArray | None, text_of: IntArray | None
) -> tuple[IntArray, sparse.csr_array]:
    """Numbers of the texts that are looked at, and how much each counts for a feature.

    Texts of samples of another kind share the weight of their sample. ``(d, n_texts)``
    """
    feature, place = np.nonzero(top >= 0)
    number, weight = top[feature, place], np.ones(len(feature))
    if beside is not None and text_of is not None:
        texts = np.argsort(text_of, kind="stable")
        of = text_of[texts]
        for column in beside.T:
            on = np.flatnonzero(column >= 0)
            first, last = (np.searchsorted(of, column[on], side) for side in ("left", "right"))
            n_each = last - first
            start = np.repeat(first - np.concatenate([[0], np.cumsum(n_each)[:-1]]), n_each)
            number = np.concatenate([number, texts[start + np.arange(n_each.sum())]])
            feature = np.concatenate([feature, np.repeat(on, n_each)])
            weight = np.concatenate([weight, np.repeat(1 / np.maximum(n_each, 1), n_each)])
    near, at = np.unique(number, return_inverse=True)
    shape = (len(top), len(near))
    return near, sparse.csr_array((weight, (feature, at.ravel())), shape=shape)


def _phrase_codes(
    rows: list[IntArray], chosen: sparse.csr_array, n_found: FloatArray, words: list[str]
) -> IntArray:
    """The pairs of neighbouring words that are frequent in a feature, as ``first * n + second``."""
    n_words, codes = len(words), []
    # Pairs of characters overlap, so that two of them are no phrase; the last is for the -1.
    may_be = np.array([*(not is_unspaced(word) for word in words), False])
    for row in rows:
        is_pair = may_be[row[:-1]] & may_be[row[1:]] & (row[:-1] != row[1:])
        codes.append(np.unique(row[:-1][is_pair] * n_words + row[1:][is_pair]))
    kept = [np.empty(0, np.int64)]
    for feature, n in enumerate(n_found):
        part = slice(chosen.indptr[feature], chosen.indptr[feature + 1])
        those = [codes[i] for i in chosen.indices[part]]
        if not those:
            continue
        weight = np.repeat(chosen.data[part], [len(c) for c in those])
        distinct, at = np.unique(np.concatenate(those), return_inverse=True)
        counts = np.bincount(at.ravel(), weight, minlength=len(distinct))
        kept.append(distinct[counts >= max(2, n / 10)])
    found: IntArray = np.unique(np.concatenate(kept))
    pairs = (divmod(code, n_words) for code in found.tolist())
    differ = np.array([not _is_same(words[a], words[b]) for a, b in pairs], bool)
    return np.asarray(found[differ], np.int64)


def _holds(rows: list[IntArray], n_words: int, codes: IntArray) -> sparse.csr_array:
    """Whether a text holds a word or phrase ``(n, n_terms)``, as ones."""
    shape = (len(rows), n_words + len(codes))
    if not rows:
        return sparse.csr_array(shape, dtype=np.float64)
    words = np.concatenate(rows)
    text = np.repeat(np.arange(len(rows)), [len(row) for row in rows])
    is_word = words >= 0
    entries = [(text[is_word], words[is_word])]
    if len(codes):
        is_pair = is_word[:-1] & is_word[1:] & (text[:-1] == text[1:])
        pairs = words[:-1][is_pair] * n_words + words[1:][is_pair]
        at = np.minimum(np.searchsorted(codes, pairs), len(codes) - 1)
        is_phrase = codes[at] == pairs
        entries.append((text[:-1][is_pair][is_phrase], n_words + at[is_phrase]))
    row, column = (np.concatenate(part) for part in zip(*entries, strict=True))
    held = sparse.csr_array((np.ones(len(row)), (row, column)), shape=shape)
    held.data[:] = 1  # duplicates have been added up
    return held


def _batches(
    texts: Sequence[str], near: IntArray, vocabulary: Vocabulary
) -> Iterator[tuple[IntArray, list[IntArray]]]:
    """The texts that are not among the strongest, as numbers of words, a few at a time."""
    is_near = np.zeros(len(texts), bool)
    is_near[near] = True
    numbers: list[int] = []
    rows: list[IntArray] = []
    for number, text in enumerate(texts):
        if is_near[number]:
            continue
        numbers.append(number)
        rows.append(vocabulary.read(checked_text(text, number)))
        if len(rows) == _N_BATCH:
            yield np.array(numbers), rows
            numbers, rows = [], []
    if rows:
        yield np.array(numbers), rows


def _different(words: Iterator[tuple[str, float]], n_words: int) -> Words:
    """The first words, without those that repeat one before but for its ending."""
    kept: list[tuple[str, float]] = []
    said: list[str] = []
    for term, score in words:
        if len(kept) == n_words:
            break
        parts = term.split(" ")
        if not any(_is_same(word, other) for word in parts for other in said):
            kept.append((term, score))
            said += parts
    return tuple(kept)


def _is_same(word: str, other: str) -> bool:
    alike = (a == b for a, b in zip(word, other, strict=False))
    stem = sum(takewhile(bool, alike))
    if stem == len(word) == len(other):
        return True
    short, long = sorted((len(word) - stem, len(other) - stem))
    return stem >= _STEM and (short <= 1 or long <= 2) and long <= _ENDING
