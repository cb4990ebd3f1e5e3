import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from nonneg.data import ArrayData, ImageFolder, Sprites, Subset, digits, split_off, subset
from nonneg.data.dataset import permutation


@given(st.integers(2, 200), st.data(), st.integers(0, 2**32))
@settings(deadline=None, max_examples=40)
def test_every_sample_is_in_exactly_one_part_in_its_first_order(n, draw, seed):
    n_held = draw.draw(st.integers(1, n - 1))
    data = ArrayData(torch.arange(n).float()[:, None], labels=torch.arange(n))
    rest, held_out = split_off(data, n_held, seed=seed)
    assert (len(rest), len(held_out)) == (n - n_held, n_held)
    for part in (rest, held_out):
        assert (part.labels.diff() > 0).all()
        assert torch.equal(part.fetch(torch.arange(len(part)))[:, 0].long(), part.labels)
    assert sorted(rest.labels.tolist() + held_out.labels.tolist()) == list(range(n))


def test_the_order_never_changes():
    # The first uniform numbers of NumPy's seed 0, as printed in many places, sorted by hand:
    # .637 .270 .041 .017 .813 .913 .607 .729 .544 .935
    assert permutation(10, seed=0).tolist() == [3, 2, 1, 8, 6, 0, 7, 4, 5, 9]


def test_the_split_depends_on_its_seed_and_on_no_global_state():
    data = digits()
    torch.manual_seed(1)
    first = split_off(data, 100)[1].labels
    torch.manual_seed(2)
    assert torch.equal(first, split_off(data, 100)[1].labels)
    assert not torch.equal(first, split_off(data, 100, seed=1)[1].labels)


def test_a_permutation_is_fair():
    # The mean place of each of 20 samples over 2,000 seeds: 9.5, standard error 0.13.
    total = sum(permutation(20, seed=seed) for seed in range(2000)) / 2000
    assert (total - 9.5).abs().max() < 0.6


@pytest.mark.parametrize("n", [0, -1, 5, 6])
def test_an_impossible_split_is_refused(n):
    data = ArrayData(torch.eye(5), name="mine")
    expected = f"cannot split {n} samples off the 5 of mine; n must lie between 1 and 4"
    with pytest.raises(ValueError, match=f"^{expected}$"):
        split_off(data, n)


def test_a_view_shares_the_facts_of_the_whole():
    data = digits()
    view = subset(data, torch.tensor([5, 3]))
    assert isinstance(view, Subset)
    assert (view.name, view.class_names, view.sample_shape, len(view)) == (
        data.name,
        data.class_names,
        data.sample_shape,
        2,
    )
    assert torch.equal(view.labels, data.labels[[5, 3]])
    assert torch.equal(view.fetch(torch.tensor([1])), data.fetch(torch.tensor([3])))


def test_a_view_of_unlabelled_data_has_no_labels():
    assert subset(ArrayData(torch.eye(3)), torch.tensor([1])).labels is None


def test_lazy_sets_keep_their_class(tmp_path):
    for colour in range(6):
        folder = tmp_path / str(colour % 2)
        folder.mkdir(exist_ok=True)
        Image.new("RGB", (8, 8), (colour * 40, 0, 0)).save(folder / f"{colour}.png")
    whole = ImageFolder(tmp_path, image_size=4)
    rest, held_out = split_off(whole, 2)
    assert isinstance(rest, ImageFolder)
    assert len(rest) == 4
    numbers = permutation(6, seed=0)[:2].sort().values
    assert torch.equal(held_out.fetch(torch.arange(2)), whole.fetch(numbers))
    assert torch.equal(held_out.labels, whole.labels[numbers])
    assert len(whole) == len(whole.labels) == 6

    sprites = split_off(Sprites(torch.arange(100), label="posY"), 10)[1]
    assert isinstance(sprites, Sprites)
    assert torch.equal(sprites.labels, sprites.factors[:, 4])
