import pytest
import torch

from nonneg.data import load


def record(*labels, first=0):
    """One record whose pixel bytes count up from ``first``."""
    return bytes(labels) + bytes((first + i) % 256 for i in range(3072))


@pytest.fixture
def ten(tmp_path):
    folder = tmp_path / "cifar-10-batches-bin"
    folder.mkdir()
    for i in range(1, 6):
        (folder / f"data_batch_{i}.bin").write_bytes(record(i, first=i) + record(9, first=100 + i))
    (folder / "test_batch.bin").write_bytes(record(3))
    return folder


@pytest.fixture
def hundred(tmp_path):
    folder = tmp_path / "cifar-100-binary"
    folder.mkdir()
    (folder / "train.bin").write_bytes(record(4, 30) + record(19, 99, first=7))
    (folder / "test.bin").write_bytes(record(0, 1))
    return folder


def failure(name, folder):
    with pytest.raises((ValueError, FileNotFoundError)) as caught:
        load(name, data_dir=folder.parent)
    return type(caught.value), str(caught.value)


def test_cifar10_is_read_batch_after_batch(ten):
    data = load("cifar10", data_dir=ten.parent)
    assert data.labels.tolist() == [1, 9, 2, 9, 3, 9, 4, 9, 5, 9]
    assert data.sample_shape == (3, 32, 32)
    assert data.inputs.dtype == torch.uint8
    # Planes of red, green and blue, each row by row.
    for c, y, x in ((0, 0, 0), (0, 0, 31), (0, 1, 0), (1, 0, 0), (2, 31, 30)):
        assert int(data.inputs[2, c, y, x]) == (2 + c * 1024 + y * 32 + x) % 256
        assert int(data.inputs[9, c, y, x]) == (105 + c * 1024 + y * 32 + x) % 256
    assert load("cifar10", split="test", data_dir=ten.parent).labels.tolist() == [3]


def test_cifar100_has_fine_and_coarse_labels(hundred):
    data = load("cifar100", data_dir=hundred.parent)
    assert data.labels.tolist() == [30, 99]
    assert data.coarse_labels.tolist() == [4, 19]
    assert int(data.inputs[1, 0, 0, 0]) == 7
    assert load("cifar100", split="test", data_dir=hundred.parent).coarse_labels.tolist() == [0]


def test_class_names_come_from_the_official_files_where_they_are(ten, hundred):
    assert load("cifar10", data_dir=ten.parent).class_names == ()
    (ten / "batches.meta.txt").write_text("\n".join("abcdefghij") + "\n\n")
    assert load("cifar10", data_dir=ten.parent).class_names == tuple("abcdefghij")
    (hundred / "fine_label_names.txt").write_text("\n".join(f"f{i}" for i in range(100)))
    (hundred / "coarse_label_names.txt").write_text("\n".join(f"c{i}" for i in range(20)))
    data = load("cifar100", data_dir=hundred.parent)
    assert (data.class_names[99], data.coarse_class_names[19]) == ("f99", "c19")


def test_a_number_of_records_that_is_not_official_shows_in_the_name(ten, hundred):
    assert load("cifar10", data_dir=ten.parent).name == "cifar10-part"
    assert load("cifar100", data_dir=hundred.parent).name == "cifar100-part"


def test_a_wrong_number_of_names(ten):
    path = ten / "batches.meta.txt"
    path.write_text("cat\ndog\n")
    assert failure("cifar10", ten) == (
        ValueError,
        f"{path} is damaged: it names 2 classes, not 10",
    )


def test_missing_files_are_named_with_the_way_to_get_them(ten, tmp_path):
    (ten / "data_batch_2.bin").unlink()
    (ten / "data_batch_5.bin").unlink()
    assert failure("cifar10", ten) == (
        FileNotFoundError,
        f"data_batch_2.bin and data_batch_5.bin not found in {ten}; put the *.bin files of the"
        " official CIFAR-10 binary version there, or name the folder that holds"
        " cifar-10-batches-bin with --data-dir (data_dir in Python) or the variable NONNEG_DATA",
    )
    missing = tmp_path / "cifar-100-binary"
    assert failure("cifar100", missing) == (
        FileNotFoundError,
        f"train.bin not found in {missing}; put train.bin and test.bin of the official CIFAR-100"
        " binary version there, or name the folder that holds cifar-100-binary with --data-dir"
        " (data_dir in Python) or the variable NONNEG_DATA",
    )


def test_a_file_that_is_cut_off(ten):
    path = ten / "data_batch_3.bin"
    path.write_bytes(path.read_bytes()[:-1])
    assert failure("cifar10", ten) == (
        ValueError,
        f"{path} is damaged: its 6145 bytes are not a whole number of records of 3073",
    )


def test_an_empty_file(hundred):
    path = hundred / "train.bin"
    path.write_bytes(b"")
    assert failure("cifar100", hundred)[1] == (
        f"{path} is damaged: its 0 bytes are not a whole number of records of 3074"
    )


@pytest.mark.parametrize(("labels", "wrong", "last"), [((20, 5), 20, 19), ((5, 100), 100, 99)])
def test_a_label_out_of_range(hundred, labels, wrong, last):
    path = hundred / "train.bin"
    path.write_bytes(record(1, 1) + record(*labels))
    assert failure("cifar100", hundred) == (
        ValueError,
        f"{path} is damaged: record 1 has the label {wrong}, but classes go from 0 to {last}",
    )
