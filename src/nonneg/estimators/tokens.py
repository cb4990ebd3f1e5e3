"""Texts as words: how they are split, which words never tell anything, and numbers for the rest."""

import re
import unicodedata
from collections.abc import Callable, Iterator, Sequence

import numpy as np

from nonneg.metrics.results import IntArray

Tokenize = Callable[[str], Sequence[str]]

# Words of one or two letters tell little in most languages; numbers and ids even less.
_SHORT_WORD = 2
_HALF, _QUARTER = 0.5, 0.25
# Vowel signs of Indian scripts and accents that stand alone are parts of words, but no \w.
_MARKS = "".join(chr(i) for i in range(0x300, 0x1E00) if unicodedata.category(chr(i))[0] == "M")
# Marks between sentences and lines are read too, so that no phrase reaches across them.
_WORD = re.compile(rf'[\w{_MARKS}]+|[.,;:!?()<>|"\n]')
_ADDRESS = re.compile(r"\S*@\S+|\b(?:https?|ftp)://\S+|\bwww\.\S+")
# Thai to Lao, Burmese, Khmer, kana, Chinese characters: scripts that leave no space between words.
_UNSPACED = re.compile(
    "[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff]+"
)
# scikit-learn's list of English stop words has some that are what texts are about.
_NO_STOP_WORD = re.compile(
    "amount|bill|bottom|call|computer|cry|describe|detail|empty|fill|fire|front|interest|mill|mine|"
    "name|side|system|thick|thin|top"
)
# Forms of do, and what is left of don't and the like.
_FRAGMENT = re.compile(
    "(ai|are|could|did|does|do|had|has|have|is|might|must|need|sha|should|was|were|wo|would)n|"
    "did|does|doing|ll|ve"
)


def check_texts(texts: Sequence[str]) -> None:
    """Raise a sentence for the first entry that is no text, such as None for a missing one."""
    for number, text in enumerate(texts):
        checked_text(text, number)


def checked_text(text: object, number: int) -> str:
    """The text; anything else is refused.

    Args:
        text: An entry of a list of texts.
        number: Its place there.
    """
    if not isinstance(text, str):
        raise TypeError(
            f"texts holds {type(text).__name__} in place {number}; give a text each, empty "
            "where there is none"
        )
    return text


class Vocabulary:
    """Words with numbers, in the order in which they were first read.

    Args:
        tokenize: Gives the words of a text in their order; left out, :func:`words_of`.
    """

    def __init__(self, tokenize: Tokenize | None = None) -> None:
        self.words: list[str] = []
        self._number: dict[str, int] = {}
        self._words_of = words_of if tokenize is None else _checked(tokenize)
        self._shortest = 2 if tokenize is None else 1
        # scikit-learn takes long to import, and pages without texts do not need it.
        from sklearn.feature_extraction.text import ENGLISH_STOP_WORDS

        self._stop_words = ENGLISH_STOP_WORDS

    def grow(self, text: str) -> IntArray:
        """Numbers of the words of a text in their order; words that never tell have -1."""
        row = []
        for word in self._words_of(text):
            if word not in self._number:
                self._number[word] = -1 if self._never_tells(word) else len(self.words)
                if self._number[word] >= 0:
                    self.words.append(word)
            row.append(self._number[word])
        return np.array(row, np.int64)

    def read(self, text: str) -> IntArray:
        """The same, but words that are not known have -1 too."""
        number = self._number
        return np.array([number.get(word, -1) for word in self._words_of(text)], np.int64)

    def _never_tells(self, word: str) -> bool:
        lower = word.lower()
        if lower in self._stop_words:
            return _NO_STOP_WORD.fullmatch(lower) is None
        return len(word) < self._shortest or _FRAGMENT.fullmatch(lower) is not None


def words_of(text: str) -> list[str]:
    """The words of a text in their order, in lower case, with the marks between sentences.

    Addresses of mail and the web are left out. A run of Chinese, Japanese, Thai, Lao, Burmese or
    Khmer gives its pairs of neighbouring characters, because only a dictionary knows its words.

    Example:
        >>> words_of("Don't pay Élise: see www.example.org")
        ['don', 't', 'pay', 'élise', ':', 'see']
        >>> words_of("机器学习")
        ['机器', '器学', '学习']
    """
    lower = text.lower().replace("_", " ")
    if "@" in lower or "://" in lower or "www." in lower:
        lower = _ADDRESS.sub(" ", lower)
    words: list[str] = _WORD.findall(lower)
    if lower.isascii() or not _UNSPACED.search(lower):
        return words
    return [part for word in words for part in _pairs(word)]


def _pairs(word: str) -> Iterator[str]:
    """The parts of a word that are in scripts with spaces, and pairs of characters of others."""
    end = 0
    for run in _UNSPACED.finditer(word):
        if end < run.start():
            yield word[end : run.start()]
        characters, end = run.group(), run.end()
        yield from (characters[i : i + 2] for i in range(max(len(characters) - 1, 1)))
    if word[end:]:
        yield word[end:]


def worth(term: str) -> float:
    """How much a word or phrase counts: less where it is a number, has digits or is very short.

    Example:
        >>> [worth(term) for term in ("orbit", "mp3", "1993", "orbit 1993")]
        [1.0, 0.5, 0.25, 0.25]
    """
    if " " in term:
        return min(worth(word) for word in term.split(" "))
    if _UNSPACED.match(term):
        return 1.0
    if term.isnumeric():
        return _QUARTER
    is_weak = len(term) <= _SHORT_WORD or any(character.isdigit() for character in term)
    return _HALF if is_weak else 1.0


def is_unspaced(word: str) -> bool:
    """Whether a word is written in a script that leaves no spaces, such as Chinese."""
    return _UNSPACED.match(word) is not None


def _checked(tokenize: Tokenize) -> Tokenize:
    def checked_words(text: str) -> Sequence[str]:
        words = tokenize(text)
        is_list = isinstance(words, Sequence) and not isinstance(words, str)
        if not is_list or not all(isinstance(word, str) for word in words):
            raise TypeError(
                f"tokenize returned {words!r:.60}; it must give a list of the words of a text"
            )
        return words

    return checked_words
