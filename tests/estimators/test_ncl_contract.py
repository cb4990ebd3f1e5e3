"""scikit-learn's own checks, none left out, for each source of pairs that needs X and y only."""

import pytest
from sklearn.utils.estimator_checks import parametrize_with_checks

from nonneg.estimators import NCL, CrossNCL, GraphNCL

SMALL = {"max_steps": 5, "n_neighbors": 3, "hidden": 8, "batch_size": 64}


@pytest.mark.filterwarnings("ignore:.* features are dead:UserWarning")
@parametrize_with_checks(
    [
        NCL(max_steps=5),
        NCL(n_components=8, detail=0.9, **SMALL),
        NCL(n_components=8, pairs="noise", nonnegative="identity", denoise="none", **SMALL),
        NCL(n_components=8, pairs="labels", max_active=3, **SMALL),
    ]
)
def test_scikit_learn_checks(estimator, check):
    check(estimator)


@pytest.mark.filterwarnings("ignore:.* nodes have no edge:UserWarning")
@parametrize_with_checks([GraphNCL(), GraphNCL(3, start="sampling", max_steps=2)])
def test_scikit_learn_checks_of_graphs(estimator, check):
    """Its tags say that it takes graphs: a check then gives products of samples as weights."""
    check(estimator)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:.* features are dead:UserWarning")
@pytest.mark.filterwarnings("ignore:.* nodes have no edge:UserWarning")
@parametrize_with_checks([NCL(), CrossNCL(), GraphNCL()])
def test_estimators_as_they_come(estimator, check):
    check(estimator)
