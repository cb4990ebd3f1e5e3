"""scikit-learn's own checks, none left out, with y as one column of partners."""

import pytest
from sklearn.utils.estimator_checks import parametrize_with_checks

from nonneg.estimators import CrossNCL

SMALL = {"n_components": 8, "max_steps": 5, "hidden": 8, "batch_size": 64}


@pytest.mark.filterwarnings("ignore:.* features are dead:UserWarning")
@parametrize_with_checks(
    [
        CrossNCL(max_steps=5),
        CrossNCL(**SMALL),
        CrossNCL(nonnegative="identity", max_active=3, noise=0.0, **SMALL),
    ]
)
def test_scikit_learn_checks(estimator, check):
    check(estimator)
