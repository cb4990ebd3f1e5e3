import gzip
import struct
import tracemalloc

import pytest
import torch

from nonneg.data import idx_images, load, read_idx

IMAGES, LABELS = "train-images-idx3-ubyte", "train-labels-idx1-ubyte"


def idx_bytes(shape, body):
    return struct.pack(f">4B{len(shape)}I", 0, 0, 8, len(shape), *shape) + bytes(body)


@pytest.fixture
def folder(tmp_path):
    """Three images of 2 x 4 pixels, plain, and two test images, gzipped."""
    made = tmp_path / "mnist"
    made.mkdir()
    (made / IMAGES).write_bytes(idx_bytes((3, 2, 4), range(24)))
    (made / LABELS).write_bytes(idx_bytes((3,), (9, 0, 4)))
    test_images = gzip.compress(idx_bytes((2, 2, 4), range(100, 116)))
    (made / "t10k-images-idx3-ubyte.gz").write_bytes(test_images)
    (made / "t10k-labels-idx1-ubyte.gz").write_bytes(gzip.compress(idx_bytes((2,), (1, 2))))
    return made


def failure(folder, **settings):
    with pytest.raises((ValueError, FileNotFoundError)) as caught:
        load("mnist", data_dir=folder.parent, **settings)
    return type(caught.value), str(caught.value)


def test_plain_and_gzipped_files_are_read(folder):
    train = load("mnist", data_dir=folder.parent)
    assert train.inputs.tolist() == torch.arange(24).view(3, 1, 2, 4).tolist()
    assert train.inputs.dtype == torch.uint8
    assert train.labels.tolist() == [9, 0, 4]
    assert train.labels.dtype == torch.int64
    assert train.class_names == tuple("0123456789")
    test = load("mnist", split="test", data_dir=folder.parent)
    assert test.inputs[1, 0].tolist() == [[108, 109, 110, 111], [112, 113, 114, 115]]
    assert test.labels.tolist() == [1, 2]


def test_images_can_be_changed_without_a_warning(folder):
    images = load("mnist", data_dir=folder.parent).inputs
    before = images.clone()
    assert torch.equal(images.add_(1), before + 1)


def test_one_file_of_any_number_of_dimensions(tmp_path):
    path = tmp_path / "cube"
    path.write_bytes(idx_bytes((2, 1, 2, 2), range(8)))
    assert read_idx(path, n_dims=4).tolist() == [[[[0, 1], [2, 3]]], [[[4, 5], [6, 7]]]]
    path.write_bytes(idx_bytes((0,), ()))
    assert read_idx(path, n_dims=1).shape == (0,)


def test_missing_files_are_named_with_the_way_to_get_them(folder):
    (folder / IMAGES).unlink()
    (folder / LABELS).unlink()
    assert failure(folder) == (
        FileNotFoundError,
        f"{IMAGES} and {LABELS} not found in {folder}; put the four official idx files (train and"
        " t10k, images and labels, plain or .gz) there, or name the folder that holds mnist with"
        " --data-dir (data_dir in Python) or the variable NONNEG_DATA",
    )
    load("mnist", split="test", data_dir=folder.parent)


def test_a_folder_that_is_not_there_is_named(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"not found in .*/fashion-mnist; put the four"):
        load("fashion-mnist", data_dir=tmp_path)


def test_a_wrong_magic_number(folder):
    path = folder / IMAGES
    path.write_bytes(b"\x89PNG....")
    assert failure(folder) == (
        ValueError,
        f"{path} is not an idx file of bytes with 3 dimensions: it starts with 89 50 4e 47, not"
        " 00 00 08 03",
    )


def test_an_empty_file(folder):
    path = folder / LABELS
    path.write_bytes(b"")
    assert failure(folder)[1] == (
        f"{path} is not an idx file of bytes with 1 dimensions: it starts with nothing, not"
        " 00 00 08 01"
    )


def test_a_header_that_is_cut_off(folder):
    path = folder / IMAGES
    path.write_bytes(path.read_bytes()[:10])
    assert failure(folder)[1] == f"{path} is cut off in its header: 10 of 16 bytes"


@pytest.mark.parametrize(("change", "n"), [(lambda b: b[:-1], 23), (lambda b: b + b"xy", 26)])
def test_a_body_of_the_wrong_length(folder, change, n):
    path = folder / IMAGES
    path.write_bytes(change(path.read_bytes()))
    assert failure(folder) == (
        ValueError,
        f"{path} is damaged: its header says 3 x 2 x 4 bytes, but {n} follow",
    )


def test_labels_for_another_number_of_images(folder):
    (folder / LABELS).write_bytes(idx_bytes((2,), (1, 2)))
    assert failure(folder) == (
        ValueError,
        f"{folder / IMAGES} holds 3 images, but {LABELS} 2 labels",
    )


def test_a_label_out_of_range(folder):
    (folder / LABELS).write_bytes(idx_bytes((3,), (1, 10, 2)))
    assert failure(folder) == (
        ValueError,
        f"{folder / LABELS} has the label 10, but mnist has classes 0 to 9",
    )


@pytest.mark.parametrize(
    "damage",
    [
        lambda b: b[: len(b) // 2],
        lambda b: b"not gzip at all",
        lambda b: b[:10] + b"\xff" + b[11:],
        lambda b: b[:-6] + b"\0\0\0\0\0\0",
    ],
    ids=["cut", "other", "block", "checksum"],
)
def test_damaged_gzip_files(folder, damage):
    path = folder / "t10k-images-idx3-ubyte.gz"
    path.write_bytes(damage(path.read_bytes()))
    kind, sentence = failure(folder, split="test")
    assert kind is ValueError
    assert sentence.startswith(f"{path} cannot be unpacked: ")
    assert "\n" not in sentence


def test_an_unknown_split_is_refused(folder):
    with pytest.raises(ValueError, match=r"^unknown split 'dev'; known: train, test$"):
        idx_images(folder, split="dev", name="mnist", class_names=("a",))


def test_a_packed_file_is_unpacked_no_further_than_it_says(folder):
    """A bomb of 100 MB in 0.1 MB; its header speaks of 24 bytes."""
    path = folder / IMAGES
    content = path.read_bytes()
    path.unlink()
    packed = folder / f"{IMAGES}.gz"
    packed.write_bytes(gzip.compress(content))
    assert len(load("mnist", data_dir=folder.parent)) == 3
    packed.write_bytes(gzip.compress(content + bytes(100_000_000), 1))
    tracemalloc.start()
    try:
        assert failure(folder) == (
            ValueError,
            f"{packed} is damaged: its header says 3 x 2 x 4 bytes, but more follow",
        )
        assert tracemalloc.get_traced_memory()[1] < 5e6
    finally:
        tracemalloc.stop()
    packed.write_bytes(gzip.compress(content[:4] + b"\xff" * 12 + content[16:]))
    assert failure(folder)[1].endswith("bytes, but 24 follow")
