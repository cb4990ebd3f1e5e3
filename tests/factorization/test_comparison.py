import numpy as np
import pytest
import torch

from nonneg.factorization import METHODS, held_out_score, outcome, random_world
from nonneg.factorization.comparison import peak_memory
from nonneg.paper.theory import digits_study, example_study


def test_memory_counts_what_lives_at_one_time():
    def one_after_another():
        for _ in range(20):
            torch.zeros(100_000, dtype=torch.float64)

    def together():
        return [torch.zeros(100_000, dtype=torch.float64) for _ in range(20)]

    one = 800_000
    peak_memory(together)  # whatever is imported on the way
    assert peak_memory(one_after_another) == pytest.approx(one, rel=0.1)
    assert peak_memory(together) == pytest.approx(20 * one, rel=0.1)
    assert peak_memory(lambda: np.zeros(100_000)) == pytest.approx(one, rel=0.1)
    assert peak_memory(lambda: torch.zeros(100_000, dtype=torch.float64).view(10, -1)[:3]) < 2 * one


def test_a_failing_function_leaves_no_trace():
    with pytest.raises(ZeroDivisionError):
        peak_memory(lambda: 1 / 0)
    assert peak_memory(lambda: None) < 10_000


def test_matrices_pay_for_all_pairs_and_samplers_do_not():
    world = random_world(600, 3, np.random.default_rng(0))
    found = {name: outcome(name, world, 0) for name in ("NMF, projected gradient",)}
    small = outcome("NCL, table, projected", world, 0)
    assert found["NMF, projected gradient"].megabytes > 600**2 * 8 / 1e6
    assert small.megabytes < 600**2 * 8 / 1e6
    assert found["NMF, projected gradient"].cosine > 0.999
    assert small.n_samples == 600
    assert small.n_alive == 3
    assert small.seconds > 0


def test_every_method_runs_with_its_own_number_of_features():
    world = random_world(25, 3, np.random.default_rng(0))
    for name in METHODS:
        if name.startswith(("eigen", "NMF")):
            found = outcome(name, world, 0, n_features=2)
            assert found.error > 0.01
            assert found.cosine < 2 / 3 + 1e-9
    with pytest.raises(ValueError, match=r"^unknown method 'magic'; known: eigenvectors \(CL\), "):
        outcome("magic", world, 0)


def test_an_encoder_serves_samples_it_never_saw():
    world = random_world(100, 4, np.random.default_rng(0))
    seen, new = held_out_score(world, 0)
    assert seen > 0.98
    assert new > 0.95


def test_the_example_shows_equal_loss_and_unequal_reading():
    study = example_study(0)
    assert max(study.error.values()) < 1e-6
    assert study.cosine["NCL"] > 0.999
    assert study.cosine["CL"] < 0.9
    np.testing.assert_allclose(study.features["NCL"], study.phi, atol=1e-3)


def test_digits_give_purer_features_to_ncl_at_little_more_error():
    study = digits_study(0, n_features=20)
    assert study.purity["NCL"] > study.purity["CL"] + 0.05
    assert study.error["CL"] < study.error["NCL"] < 1.05 * study.error["CL"]
    assert study.n_measured["CL"] == 20
