"""Estimators among scikit-learn's parts: data frames, unions, pipelines and searches."""

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.decomposition import PCA
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline, make_union

from nonneg.estimators import NCL, CrossNCL

RNG = np.random.default_rng(0)
KIND = np.arange(200) % 4
X = 3 * RNG.standard_normal((4, 10))[KIND] + RNG.standard_normal((200, 10))
QUICK = {"n_components": 16, "hidden": 16, "max_steps": 40, "batch_size": 64, "random_state": 0}
ESTIMATORS = [NCL(**QUICK, n_neighbors=5), CrossNCL(**QUICK, learning_rate=3e-3)]


@pytest.mark.parametrize("estimator", ESTIMATORS, ids=["NCL", "CrossNCL"])
def test_data_frames_in_and_out(estimator, tmp_path):
    names = [f"column {i}" for i in range(10)]
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(X, columns=names, index=np.arange(200) + 7)
    fitted = clone(estimator).set_output(transform="pandas").fit(frame, np.eye(4)[KIND])
    Z = fitted.transform(frame)
    assert list(Z.columns) == list(fitted.get_feature_names_out())
    assert (Z.index == frame.index).all()
    assert (Z.dtypes == np.float32).all()
    np.testing.assert_array_equal(Z, clone(estimator).fit(X, np.eye(4)[KIND]).transform(X))
    fitted.save(tmp_path)
    loaded = type(estimator).load(tmp_path)
    assert list(loaded.feature_names_in_) == names
    with pytest.raises(ValueError, match="feature names should match"):
        loaded.transform(frame.rename(columns={"column 3": "another"}))


@pytest.mark.parametrize("estimator", ESTIMATORS, ids=["NCL", "CrossNCL"])
def test_in_a_pipeline_beside_other_features(estimator):
    both = make_union(clone(estimator), PCA(3))
    pipeline = make_pipeline(both, LogisticRegression())
    assert cross_val_score(pipeline, X, KIND, cv=2).mean() > 0.9
    assert pipeline.fit(X, KIND)[0].get_feature_names_out().shape == (19,)


@pytest.mark.parametrize("estimator", ESTIMATORS, ids=["NCL", "CrossNCL"])
def test_settings_are_searched_for_through_a_pipeline(estimator):
    pipeline = make_pipeline(clone(estimator), LogisticRegression())
    key = f"{pipeline.steps[0][0]}__temperature"
    search = GridSearchCV(pipeline, {key: [0.1, 0.3]}, cv=2).fit(X, KIND)
    assert search.best_params_[key] in (0.1, 0.3)
    assert search.best_score_ > 0.9
    assert search.best_estimator_[0].n_components == 16


@pytest.mark.parametrize("estimator", ESTIMATORS, ids=["NCL", "CrossNCL"])
def test_a_new_fit_forgets_the_old_one(estimator):
    once = clone(estimator).fit(X, np.eye(4)[KIND])
    again = clone(estimator).fit(X[::2, :7], X[::2, :3]).fit(X, np.eye(4)[KIND])
    np.testing.assert_array_equal(again.transform(X), once.transform(X))
    assert again.n_features_in_ == 10


def test_rows_of_a_data_frame_are_explained_by_name(recwarn):
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(X, columns=[f"column {i}" for i in range(10)])
    ncl = clone(ESTIMATORS[0]).fit(frame)
    expected = NCL.explain(clone(ESTIMATORS[0]).fit(X), X[0], X[4])
    for a, b in ((frame.iloc[0], frame.iloc[4]), (frame.iloc[:1], frame.iloc[4:5])):
        assert ncl.explain(a, b) == expected
    assert not recwarn.list


def test_missing_labels_of_pandas_are_refused():
    pandas = pytest.importorskip("pandas")
    labels = pandas.Series(["a", pandas.NA, *["b"] * 198], dtype="string", index=np.arange(200) + 7)
    with pytest.raises(ValueError, match=r"y has no label \(NaN or None\) in 1 of 200 rows: 1;"):
        NCL(**QUICK, pairs="labels").fit(X, labels)
    with pytest.raises(ValueError, match=r"labels has no label \(NaN or None\) in 1 of 200 rows"):
        NCL(**QUICK).fit(X).describe(X, labels=labels)
