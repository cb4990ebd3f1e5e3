import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from nonneg.losses._tiled import KEPT_BYTES, Keys, Tile, n_kept, slots, tile_size, tiles


@settings(deadline=None, max_examples=60)
@given(
    n_rows=st.integers(1, 30),
    n_columns=st.none() | st.integers(1, 30),
    height=st.integers(1, 8),
    width=st.integers(1, 8),
    seed=st.integers(0, 1000),
)
def test_every_entry_counts_once_for_its_row_and_once_for_its_column(
    n_rows, n_columns, height, width, seed
):
    is_triangle = n_columns is None
    generator = torch.Generator().manual_seed(seed)
    of_rows = torch.randint(5, (n_rows,), generator=generator).sort().values
    of_columns = (
        of_rows
        if is_triangle
        else torch.randint(5, (n_columns,), generator=generator).sort().values
    )
    keys = Keys(of_rows, of_columns)
    for_rows = torch.zeros(n_rows, n_rows if is_triangle else n_columns)
    for_columns = for_rows if is_triangle else torch.zeros_like(for_rows)
    for tile in tiles(n_rows, n_columns, size=(height, width), keys=keys):
        for_rows[tile.rows, tile.columns] += 1
        assert for_rows[tile.rows, tile.columns].shape == tile.shape
        if tile.is_mirrored and is_triangle:
            for_rows[tile.columns, tile.rows] += 1
        elif tile.is_mirrored:
            for_columns[tile.rows, tile.columns] += 1
        assert tile.is_masked or not keys.equal(tile).any()
    assert (for_rows == 1).all()
    assert (for_columns == 1).all()


def test_only_tiles_near_the_diagonal_are_masked():
    numbers = torch.arange(100).repeat_interleave(2)
    found = tiles(200, None, size=(20, 20), keys=Keys(numbers, numbers))
    assert [tile.rows == tile.columns for tile in found] == [tile.is_masked for tile in found]
    assert not any(tile.is_masked for tile in tiles(200, None, size=(20, 20)))


def test_keys_rise_or_not():
    rising, falling = torch.tensor([0, 0, 3]), torch.tensor([1, 0])
    assert Keys(rising, rising).are_rising()
    assert not Keys(rising, falling).are_rising()
    assert not Keys(falling, rising).are_rising()


def test_slots_hold_the_first_tiles_one_after_the_other():
    found = tiles(4, 5, size=(2, 3))
    assert [tile.shape for tile in found] == [(2, 3), (2, 2), (2, 3), (2, 2)]
    first, second, third, fourth = slots(found, torch.arange(10))
    assert first.tolist() == [[0, 1, 2], [3, 4, 5]]
    assert second.tolist() == [[6, 7], [8, 9]]
    assert third is None
    assert fourth is None


@pytest.mark.parametrize(("itemsize", "n_tiles"), [(4, 4), (8, 2)])
def test_what_is_kept_has_a_limit(itemsize, n_tiles):
    quarter = Tile(slice(0, KEPT_BYTES // 16), slice(0, 1), is_mirrored=True, is_masked=False)
    assert n_kept([quarter] * 9, itemsize=itemsize) == n_tiles * KEPT_BYTES // 16


def test_accelerators_get_larger_tiles():
    assert tile_size(10_000, on_cpu=False) > tile_size(10_000, on_cpu=True)
