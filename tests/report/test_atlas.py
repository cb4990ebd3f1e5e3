"""What goes into an atlas: lengths are checked, rows that are not finite are left out."""

import numpy as np
import pytest
import torch
from scipy import sparse

from nonneg.report import Atlas, Samples
from nonneg.report.samples import finite_rows, random_draw

Z = np.eye(4, 3)


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ({"texts": ["a"]}, "texts has 1 entries for 4 samples; give one each"),
        ({"ids": range(5)}, "ids has 5 entries for 4 samples; give one each"),
        ({"numbers": np.arange(3)}, "numbers has 3 entries for 4 samples; give one each"),
        ({"numbers": np.array([1, 2, 2, 3])}, "numbers has some twice; give each sample its own"),
        (
            {"images": np.zeros((3, 8, 8), np.uint8)},
            "images has 3 entries for 4 samples; give one each",
        ),
        ({"labels": [0, 1]}, "labels has 2 labels for 4 samples"),
        (
            {"labels": [0, 1, 2, 3], "class_names": ["a", "b"]},
            "labels go up to 3, but there are only 2 class names",
        ),
        ({"features": np.zeros((0, 3))}, r"the features have shape \(0, 3\)"),
        ({"features": np.zeros(3)}, r"the features have shape \(3,\)"),
    ],
)
def test_samples_of_another_length_are_one_sentence(given, sentence):
    with pytest.raises(ValueError, match=sentence):
        Samples(**({"features": Z} | given))


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ({"against": Z[:2]}, "against has 2 rows for 4 samples"),
        ({"other_seed": Z[:3]}, "other_seed has 3 rows for 4 samples"),
        ({"reference": [[1.0]]}, "reference has 1 rows for 4 samples"),
        ({"sepin": np.zeros(2)}, "sepin has 2 numbers for 3 features; give one each"),
        ({"against_sepin": np.zeros(2)}, "against_sepin has 2 numbers for 0 features"),
        (
            {"captions": Samples(features=np.eye(2))},
            "the captions have 2 features, the samples 3; both must come from one model",
        ),
        ({"caption_of": np.array([0])}, "caption_of has 1 numbers for 0 captions"),
        (
            {"captions": Samples(features=Z), "caption_of": np.array([0, 1, 2, 4])},
            "caption_of holds numbers from 0 to 4; samples are numbered from 0 to 3",
        ),
        ({"against": Z, "against_method": "features"}, "both methods are called 'features'"),
    ],
)
def test_an_atlas_of_parts_that_do_not_fit_is_one_sentence(given, sentence):
    with pytest.raises(ValueError, match=sentence):
        Atlas(samples=Samples(features=Z), **given)


def test_classes_without_names_are_called_by_their_numbers():
    samples = Samples(features=Z, labels=[7, 900_000, 7, 3])
    assert samples.classes.tolist() == [1, 2, 1, 0]
    assert samples.class_names == ["3", "7", "900000"]
    assert samples.take(np.array([1])).class_names == ["3", "7", "900000"]


def test_samples_keep_their_numbers_when_some_are_taken():
    few = Samples(features=Z).take(np.array([1, 3]))
    assert few.own_numbers.tolist() == [1, 3]
    rows = Samples(features=Z, numbers=np.array([10, 20, 30, 40]))
    assert rows.take(np.array([3, 0])).own_numbers.tolist() == [40, 10]


@pytest.mark.parametrize("kind", [list, sparse.coo_array, torch.as_tensor, sparse.csr_matrix])
def test_features_of_any_kind_are_taken(kind):
    samples = Samples(features=kind(Z))
    rows = samples.take(np.array([2, 0])).features
    assert np.asarray(rows.todense() if sparse.issparse(rows) else rows).tolist() == [
        [0, 0, 1],
        [1, 0, 0],
    ]


@pytest.mark.parametrize("kind", [np.asarray, torch.as_tensor, sparse.csr_array])
def test_rows_that_are_not_finite_are_found(kind):
    rows = np.eye(4)
    rows[1, 2], rows[3, 0] = np.nan, np.inf
    assert finite_rows(kind(rows)).tolist() == [True, False, True, False]


def test_rows_that_are_not_finite_are_left_out_everywhere():
    features, other = np.eye(5, 3), np.eye(5, 2)
    features[1, 0], other[3, 1] = np.nan, np.inf
    captions = np.ones((6, 3))
    captions[0, 0] = np.nan
    atlas = Atlas(
        samples=Samples(
            features=features,
            labels=[0, 1, 2, 3, 4],
            texts=list("abcde"),
            images=lambda numbers: np.stack([np.full((2, 2), n, np.uint8) for n in numbers]),
        ),
        against=other,
        captions=Samples(features=captions, texts=list("uvwxyz")),
        caption_of=np.array([0, 1, 2, 3, 4, 0]),
    ).finite()
    assert list(atlas.samples.texts) == ["a", "c", "e"]
    assert atlas.samples.classes.tolist() == [0, 2, 4]
    assert atlas.samples.images(np.array([2, 1]))[:, 0, 0].tolist() == [4, 2]
    assert atlas.against.shape == (3, 2)
    assert list(atlas.captions.texts) == ["w", "y", "z"]
    assert atlas.caption_of.tolist() == [1, 2, 0]
    assert atlas.run_info.notes == [
        "1 of 6 captions have NaN or infinite features and are left out.",
        "2 of 5 samples have NaN or infinite features and are left out.",
    ]


def test_a_finite_atlas_stays_as_it_is():
    atlas = Atlas(samples=Samples(features=Z), against=2 * Z)
    assert atlas.finite().samples is atlas.samples
    assert atlas.finite().run_info.notes == []


def test_nothing_finite_is_an_error():
    with pytest.raises(ValueError, match="all 2 samples have NaN or infinite features"):
        Atlas(samples=Samples(features=np.full((2, 2), np.nan))).finite()


def test_a_draw_is_the_same_each_time_and_rises():
    one = random_draw(1000, 50, seed=3)
    np.testing.assert_array_equal(one, random_draw(1000, 50, seed=3))
    assert (np.diff(one) > 0).all()
    assert len(one) == 50
    assert one.tolist() != random_draw(1000, 50, seed=4).tolist()
