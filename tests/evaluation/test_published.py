"""The paper's figures: one file, with keys of the vocabulary."""

import pytest

from nonneg.evaluation.published import (
    _tables,
    published_figures,
    published_sepin,
    published_supervised,
)
from nonneg.metrics.figures import figure_kind


def test_every_key_is_a_figure_and_every_percentage_a_share():
    n_seen = 0
    for data, methods in _tables()["percent"].items():
        for method in methods:
            for key, figure in published_figures(data, method).items():
                assert figure_kind(key).is_rate
                assert 0 < figure.value < 1
                assert figure.printed == f"{100 * figure.value:.1f}"
                n_seen += 1
    assert n_seen == 42


def test_numbers_are_those_of_the_paper():
    found = published_figures("cifar10", "NCL")["probe_hidden"]
    assert (found.value, found.std) == (pytest.approx(0.878), pytest.approx(0.002))
    assert published_sepin("imagenet100", "NCL")["sepin_1"].printed == "7.43"
    assert published_supervised("imagenet100")["NCE + MLP, fine-tuned"].printed == "82.0"
    assert published_figures("digits", "NCL") == {}
    assert published_figures("cifar10", "CE") == {}
