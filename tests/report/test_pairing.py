"""Samples and captions that share features: who finds whom, and which features agree."""

import math

import numpy as np
import pytest
from scipy import sparse

from nonneg.report import captions as module
from nonneg.report.captions import pairing


@pytest.fixture(scope="module")
def pairs():
    """Thirty samples with two noisy captions each, and one feature that is dead for captions."""
    rng = np.random.default_rng(0)
    samples = np.maximum(rng.normal(size=(30, 12)), 0)
    of = np.repeat(np.arange(30), 2)
    captions = np.maximum(samples[of] + 0.8 * rng.normal(size=(60, 12)), 0)
    captions[:, 5] = 0
    captions[7] = 0
    return samples, captions, of


def cosine(a, b):
    lengths = math.sqrt(sum(x * x for x in a)) * math.sqrt(sum(x * x for x in b))
    return sum(x * y for x, y in zip(a, b, strict=True)) / lengths if lengths else 0.0


def test_equal_sides_agree_and_find_each_other():
    Z = np.eye(20)
    found = pairing(Z, 3 * Z, np.arange(20))
    np.testing.assert_allclose(found.agreement, 1)
    figures = found.figures
    assert figures["agreement"].value == pytest.approx(1)
    assert figures["caption_to_sample"].value == 1
    assert figures["sample_to_caption"].value == 1
    assert figures["caption_to_sample"].beside == {"null": 0.5, "n_samples": 20}


def test_agreement_is_the_cosine_of_columns_over_pairs(pairs):
    samples, captions, of = pairs
    unit = lambda Z: Z / np.maximum(np.linalg.norm(Z, axis=1, keepdims=True), 1e-12)  # noqa: E731
    found = pairing(samples, captions, of).agreement
    for j in range(12):
        expected = cosine(unit(captions)[:, j], unit(samples)[of, j])
        assert math.isnan(found[j]) if j == 5 else found[j] == pytest.approx(expected)


def test_ranks_are_those_of_a_slow_loop(pairs):
    samples, captions, of = pairs
    forward = []
    for caption, own in zip(captions, of, strict=True):
        scores = [cosine(caption, sample) for sample in samples]
        forward.append(scores[own] > 0 and sum(s > scores[own] + 1e-9 for s in scores) < 10)
    back = []
    for number, sample in enumerate(samples):
        scores = [cosine(sample, caption) for caption in captions]
        best = max(score for score, own in zip(scores, of, strict=True) if own == number)
        back.append(sum(score > best + 1e-9 for score in scores) < 10)
    figures = pairing(samples, captions, of).figures
    assert figures["caption_to_sample"].value == pytest.approx(np.mean(forward))
    assert figures["sample_to_caption"].value == pytest.approx(np.mean(back))
    assert 0.3 < np.mean(forward) < 1


def test_chance_of_finding_one_of_several_captions(pairs):
    samples, captions, of = pairs
    beside = pairing(samples, captions, of).figures["sample_to_caption"].beside
    assert beside["null"] == pytest.approx(1 - math.comb(58, 10) / math.comb(60, 10))
    assert beside["n_samples"] == 60


def test_sparse_rows_and_row_lengths_change_nothing(pairs):
    samples, captions, of = pairs
    plain = pairing(samples, captions, of)
    other = pairing(sparse.csr_array(7 * samples), sparse.csr_array(captions), of)
    np.testing.assert_allclose(other.agreement, plain.agreement)
    assert other.figures["caption_to_sample"] == plain.figures["caption_to_sample"]


def test_samples_without_captions_are_only_in_the_way(pairs):
    samples, captions, of = pairs
    more = np.concatenate([samples, np.zeros((10, 12))])
    found = pairing(more, captions, of).figures
    assert found["sample_to_caption"] == pairing(samples, captions, of).figures["sample_to_caption"]
    assert found["caption_to_sample"].beside["null"] == 0.25


def test_few_pairs_have_no_retrieval_and_many_are_drawn(pairs, monkeypatch):
    assert set(pairing(np.eye(3), np.eye(3), np.arange(3)).figures) == {"agreement"}
    monkeypatch.setattr(module, "_MAX_SAMPLES", 20)
    assert pairing(*pairs).figures["caption_to_sample"].beside["n_samples"] == 20


def test_nothing_alive_on_one_side_has_no_agreement():
    found = pairing(np.eye(3), np.zeros((3, 3)), np.arange(3))
    assert np.isnan(found.agreement).all()
    assert found.figures["agreement"].value is None
