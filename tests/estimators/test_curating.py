"""Features that a person renames, merges and hides: what changes, what stays, what is refused."""

import json
import pickle

import numpy as np
import pytest
import torch
from twelve_kinds import QUICK, X_NEW, X, Y

from nonneg import NCL, CrossNCL, Encoder
from nonneg.head.curation import Curation


@pytest.fixture(scope="module")
def fitted():
    ncl = NCL(max_steps=60, batch_size=128, random_state=0).fit(X)
    ncl.describe(X, labels=[f"kind {y}" for y in Y])
    return ncl


@pytest.fixture
def ncl(fitted):
    return pickle.loads(pickle.dumps(fitted))


def curated_by_loops(encoder, vectors, merged, hidden):
    """The definition, entry by entry: hidden ones off, the largest kept, groups as one."""
    rows = []
    for scores in encoder.encode(torch.tensor(vectors)).scores.tolist():
        row = [max(score, 0.0) if j not in hidden else 0.0 for j, score in enumerate(scores)]
        limit = sorted(row, reverse=True)[(encoder.settings.max_active or len(row)) - 1]
        row = [value if value >= limit else 0.0 for value in row]
        for group in merged:
            length = sum(row[j] ** 2 for j in group) ** 0.5
            for j in group:
                row[j] = 0.0
            row[group[0]] = length
        rows.append(row)
    return np.array(rows)


def strongest(ncl, n=6):
    return [int(i) for i in ncl.rank_[:n]]


class TestValues:
    def test_are_the_definition(self, ncl):
        a, b, c, d, e, f = strongest(ncl)
        ncl.set_params(max_active=3).merge([[b, a], [c, d, e]]).hide([f])
        Z = ncl.transform(X_NEW)
        expected = curated_by_loops(ncl.encoder_, X_NEW, [[b, a], [c, d, e]], [f])
        np.testing.assert_allclose(Z, expected, atol=1e-5)

    def test_another_feature_takes_the_place_of_a_hidden_one(self, ncl):
        ncl.set_params(max_active=1)
        before = ncl.transform(X_NEW)
        first = int(before[0].argmax())
        after = ncl.hide([first]).transform(X_NEW)
        assert after[0, first] == 0
        assert after[0].any()

    def test_a_merge_keeps_row_lengths_and_what_others_add(self, ncl):
        before, first = ncl.transform(X_NEW), ncl.explain(X_NEW[0], X_NEW[1])
        a, b = strongest(ncl, 2)
        after = ncl.merge([[a, b]]).transform(X_NEW)
        np.testing.assert_allclose(
            np.linalg.norm(after, axis=1), np.linalg.norm(before, axis=1), rtol=1e-5
        )
        second = ncl.explain(X_NEW[0], X_NEW[1])
        others = {s.feature: s.contribution for s in first.shared if s.feature not in (a, b)}
        found = {s.feature: s.contribution for s in second.shared if s.feature not in (a, b)}
        assert found == pytest.approx(others, abs=1e-6)

    def test_explanations_still_add_up(self, ncl):
        a, b, c = strongest(ncl, 3)
        ncl.merge([[a, b]]).hide([c])
        z = ncl.transform(X_NEW[:2]).astype(float)
        cosine = z[0] @ z[1] / np.linalg.norm(z[0]) / np.linalg.norm(z[1])
        told = ncl.explain(X_NEW[0], X_NEW[1])
        assert told.cosine == pytest.approx(cosine, abs=1e-6)
        assert sum(s.contribution for s in told.shared) == pytest.approx(cosine, abs=1e-6)

    def test_the_encoder_and_sparse_output_agree(self, ncl):
        a, b, c = strongest(ncl, 3)
        ncl.merge([[a, b]]).hide([c])
        Z = ncl.transform(X_NEW)
        encoded = ncl.encoder_.encode(torch.tensor(X_NEW)).features.numpy()
        np.testing.assert_allclose(encoded, Z, atol=1e-6)
        np.testing.assert_array_equal(
            ncl.set_params(sparse_output=True).transform(X_NEW).toarray(), Z
        )

    def test_gradients_pass(self):
        features = torch.tensor([[3.0, 7.0, 4.0]], requires_grad=True)
        Curation(merged=((0, 2),)).with_merged(features).sum().backward()
        torch.testing.assert_close(features.grad, torch.tensor([[0.6, 1.0, 0.8]]))

    def test_a_merge_can_go_on(self, ncl):
        a, b, c = strongest(ncl, 3)
        ncl.merge([[a, b]]).merge([[c, a]])
        assert ncl.curation_.merged == ((c, a, b),)

    def test_learnt_figures_stay(self, ncl, fitted):
        a, b, c = strongest(ncl, 3)
        ncl.merge([[a, b]]).hide([c])
        np.testing.assert_array_equal(ncl.expected_activation_, fitted.expected_activation_)
        np.testing.assert_array_equal(ncl.novelty(X_NEW), fitted.novelty(X_NEW))


class TestNames:
    def test_are_taken_over_and_given_back(self, ncl, fitted):
        a, b = strongest(ncl, 2)
        ncl.rename({a: "refunds"}).rename({a: " returns ", b: "cards"})
        assert (ncl.feature_names_[a], ncl.feature_names_[b]) == ("returns", "cards")
        assert "returns" in str(ncl.explain(X[ncl.transform(X)[:, a].argmax()]))
        ncl.restore([a])
        assert ncl.feature_names_[a] == fitted.feature_names_[a]
        assert ncl.feature_names_[b] == "cards"
        assert ncl.restore().feature_names_ == fitted.feature_names_

    def test_a_present_name_stands_for_its_feature(self, ncl):
        (a,) = strongest(ncl, 1)
        ncl.rename({a: "refunds"}).rename({"refunds": "returns"}).hide(["returns"])
        assert ncl.feature_names_[a] == "returns"
        assert ncl.curation_.hidden == (a,)

    def test_stay_when_features_are_described_again(self, ncl, fitted):
        a, b = strongest(ncl, 2)
        ncl.rename({a: "mine"}).describe(X, labels=[f"sort {y}" for y in Y])
        assert ncl.feature_names_[a] == "mine"
        assert ncl.feature_names_[b].startswith("sort")
        assert ncl.restore().feature_names_[a].startswith("sort")

    def test_an_estimator_without_names(self):
        ncl = NCL(**QUICK).fit(X)
        (a,) = strongest(ncl, 1)
        ncl.rename({a: "mine"})
        assert [name for name in ncl.feature_names_ if name] == ["mine"]
        assert ncl.restore().feature_names_ == []

    def test_a_merged_feature_is_named_by_all_its_samples(self, ncl):
        a, b = strongest(ncl, 2)
        ncl.merge([[a, b]])
        described = ncl.describe(X, labels=list(Y))
        assert described[b].name == ""
        assert described[a].name


class TestRoundTrips:
    def test_restore_undoes_all(self, ncl, fitted):
        a, b, c = strongest(ncl, 3)
        ncl.merge([[a, b]]).hide([c]).rename({a: "mine"}).restore()
        assert not ncl.curation_
        np.testing.assert_array_equal(ncl.transform(X_NEW), fitted.transform(X_NEW))

    def test_restoring_a_member_takes_its_merge_apart(self, ncl):
        a, b, c, d, e = strongest(ncl, 5)
        ncl.merge([[a, b], [c, d]]).hide([e]).restore([b])
        assert ncl.curation_ == Curation(merged=((c, d),), hidden=(e,))

    def test_saved_and_loaded(self, ncl, tmp_path):
        a, b, c = strongest(ncl, 3)
        ncl.merge([[a, b]]).hide([c]).rename({a: "mine"}).save(tmp_path)
        again = NCL.load(tmp_path)
        np.testing.assert_array_equal(again.transform(X_NEW), ncl.transform(X_NEW))
        assert again.feature_names_ == ncl.feature_names_
        alone = Encoder.load(tmp_path).encode(torch.tensor(X_NEW)).features
        np.testing.assert_allclose(alone, ncl.transform(X_NEW), atol=1e-6)
        assert again.restore().feature_names_ == ncl.restore().feature_names_

    def test_a_selection_keeps_what_it_can(self, ncl):
        a, b, c, d = strongest(ncl, 4)
        ncl.rename({b: "mine"}).merge([[b, a], [c, int(ncl.rank_[-1])]]).hide([d])
        with pytest.warns(UserWarning, match="hold"):
            small = ncl.select(4)
        assert small.curation_ == Curation(merged=((1, 0),), hidden=(3,))
        assert small.feature_names_[1] == "mine"
        assert small.renamed_before_.keys() == {1}

    def test_growing_keeps_it(self, ncl):
        a, b = strongest(ncl, 2)
        ncl.merge([[a, b]])
        far = np.random.default_rng(0).normal(size=X.shape[1]) * 9
        ncl.partial_fit(far + np.random.default_rng(1).normal(size=(40, X.shape[1])) * 0.01)
        assert ncl.curation_.merged == ((a, b),)

    def test_a_new_fit_begins_without(self, ncl):
        a, b = strongest(ncl, 2)
        ncl.rename({a: "mine"}).hide([b]).fit(X)
        assert not ncl.curation_
        assert ncl.renamed_before_ == {}

    def test_both_sides_of_two_modalities(self):
        both = CrossNCL(16, temperature=0.2, max_steps=40, random_state=0).fit(X, X[:, ::-1])
        other = X[:, ::-1].copy()
        Z, Z_y = both.merge([[0, 1]]).hide([2]).transform(X, other)
        for encoder, vectors, found in ((both.encoder_x_, X, Z), (both.encoder_y_, other, Z_y)):
            expected = curated_by_loops(encoder, vectors, [[0, 1]], [2])
            np.testing.assert_allclose(found, expected, atol=1e-5)


class TestFiles:
    def test_apply_all_kinds_of_changes(self, ncl, tmp_path):
        a, b, c = strongest(ncl, 3)
        path = tmp_path / "changes.json"
        changes = {"nonneg": "changes", "rename": {str(a): "mine"}, "merge": [[a, b]], "hide": [c]}
        path.write_text(json.dumps(changes))
        ncl.curate(path)
        assert ncl.curation_ == Curation(merged=((a, b),), hidden=(c,))
        assert ncl.feature_names_[a] == "mine"

    def test_all_or_none(self, ncl, fitted):
        a, b = strongest(ncl, 2)
        with pytest.raises(ValueError, match="there is no feature 99999"):
            ncl.curate({"rename": {str(a): "mine"}, "merge": [[a, b]], "hide": [99999]})
        assert not ncl.curation_
        assert ncl.feature_names_ == fitted.feature_names_

    @pytest.mark.parametrize(
        ("changes", "sentence"),
        [
            ([], "changes are a table with rename, merge, hide, got list"),
            ({"renam": {}}, "changes have the key 'renam'; they may have rename, merge, hide"),
            ({"nonneg": "encoder"}, "changes have nonneg = 'encoder'"),
            ({"rename": []}, "rename gives each number a name"),
            ({"rename": {"x": "y"}}, "rename has the key 'x'; give the number of a feature"),
            ({"rename": {"0": 3}}, "a name is a text that is not empty, got 3"),
            ({"merge": {"0": 1}}, "merge is a list"),
            ({"merge": [[0, 0]]}, "a group needs at least two different features"),
            ({"hide": 3}, "hide is a list, got 3"),
        ],
    )
    def test_what_is_refused(self, ncl, changes, sentence):
        with pytest.raises(ValueError, match=sentence.replace("(", r"\(")):
            ncl.curate(changes)


class TestRefusals:
    @pytest.mark.parametrize(
        ("change", "error", "sentence"),
        [
            (lambda n: n.rename({0: ""}), ValueError, "a name is a text that is not empty"),
            (lambda n: n.rename(["x"]), TypeError, "rename takes a name for each feature"),
            (lambda n: n.rename({99999: "x"}), ValueError, "there is no feature 99999"),
            (lambda n: n.merge([3, 4]), TypeError, "merge takes groups of features"),
            (lambda n: n.merge([[0]]), ValueError, "at least two different features"),
            (lambda n: n.hide(3), TypeError, "hide takes a list of features"),
            (lambda n: n.hide([-1]), ValueError, "there is no feature -1"),
            (lambda n: n.restore(["x"]), TypeError, "a feature is given by its number"),
            (lambda n: n.merge([[0, 1]]).hide([1]), ValueError, "feature 1 is a part of feature 0"),
            (lambda n: n.merge([[0, 1]]).merge([[1, 2]]), ValueError, "is a part of feature 0"),
        ],
    )
    def test_one_sentence(self, ncl, change, error, sentence):
        with pytest.raises(error, match=sentence):
            change(ncl)

    @pytest.mark.parametrize(
        ("told", "sentence"),
        [
            ({"merged": [[1]]}, "at least two"),
            ({"merged": [[1, 2], [2, 3]]}, "merged twice"),
            ({"merged": [[1, 2]], "hidden": [2]}, "feature 2 is merged into another and hidden"),
            ({"hidden": [9]}, "there is no feature 9; they are numbered 0 to 8"),
            ({"hidden": [-1]}, "hidden"),
        ],
    )
    def test_of_a_damaged_folder(self, told, sentence):
        with pytest.raises(ValueError, match=sentence):
            Curation.of(told, 9)
