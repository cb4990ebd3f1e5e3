import math

import pytest

from nonneg.training import LossSettings, TrainConfig
from nonneg.training.monitor import collapse_warning, progress_rate

HEALTHY = {"zero_row_rate": 0.0, "alive_features": 200, "progress_rate": 0.6, "loss": 3.0}


@pytest.mark.parametrize("temperature", [0.1, 0.2, 2.0])
@pytest.mark.parametrize("is_nonnegative", [True, False])
def test_progress_runs_from_the_ceiling_to_the_floor(temperature, is_nonnegative):
    config = TrainConfig(loss=LossSettings(temperature=temperature))

    def rate(loss):
        return progress_rate(loss, batch_size=8, is_nonnegative=is_nonnegative, config=config)

    gap = 1 if is_nonnegative else 2
    floor = math.log(1 + 14 * math.exp(-gap / temperature))
    assert rate(math.log(15)) == pytest.approx(0, abs=1e-9)
    assert rate(floor) == pytest.approx(1)
    assert rate((floor + math.log(15)) / 2) == pytest.approx(0.5)


def test_any_fall_of_the_spectral_loss_is_progress():
    config = TrainConfig(loss=LossSettings(name="spectral"))
    rates = [
        progress_rate(loss, batch_size=8, is_nonnegative=True, config=config)
        for loss in (0.0, 3.0, -2.0)
    ]
    assert rates == [0, 0, 1]


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"zero_row_rate": 0.75}, "75% of the samples have no active feature"),
        ({"alive_features": 3}, "only 3 of 256 features are alive"),
        (
            {"progress_rate": 0.03, "loss": 6.1},
            "the loss 6.100 has come only 3% of the way from its ceiling to its floor",
        ),
        (
            {"progress_rate": -0.13, "loss": 7.1},
            "the loss 7.100 is above that of features that are all alike",
        ),
    ],
)
def test_each_kind_of_collapse_is_named_with_its_cure(change, said):
    warning = collapse_warning(HEALTHY | change, n_features=256, can_be_normed=True)
    assert warning == (
        f"the run has collapsed: {said}; set encoder.projector.norm=batch, lower optimizer.lr, "
        "or try encoder.nonnegative=rep_relu"
    )


def test_a_limit_to_features_is_named_where_there_is_one():
    warning = collapse_warning(HEALTHY | {"alive_features": 3}, n_features=256, max_on_rate=0.05)
    assert warning.endswith("rep_relu, or raise training.max_on_rate (0.05)")


def test_a_projector_that_is_normed_or_linear_is_not_told_to_be_normed():
    warning = collapse_warning(HEALTHY | {"alive_features": 3}, n_features=256)
    assert warning.endswith("alive; lower optimizer.lr, or try encoder.nonnegative=rep_relu")


def test_a_healthy_run_is_left_in_peace():
    assert collapse_warning(HEALTHY, n_features=256) is None
