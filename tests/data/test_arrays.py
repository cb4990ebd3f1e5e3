import pickle
import tracemalloc
import zipfile

import numpy as np
import pytest
import torch

from nonneg.data import check, load, numbered, read_array, read_features, read_labels
from nonneg.data.arrays import NpzFile
from nonneg.data.vectors import read_vectors


def failure(path):
    with pytest.raises(ValueError, match=r".") as caught:
        load(path)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def save(path, array):
    np.save(path, array)
    return path


@pytest.mark.parametrize("dtype", ["f2", "f4", "f8", ">f4", ">f8"])
@pytest.mark.parametrize("order", ["C", "F"])
def test_vectors(tmp_path, dtype, order):
    inputs = np.asarray([[0.5, 1, 2], [3, 4, -5]], dtype=dtype, order=order)
    data = read_array(save(tmp_path / "mine.npy", inputs))
    assert (data.name, data.labels, data.sample_shape, len(data)) == ("mine", None, (3,), 2)
    fetched = data.fetch(torch.tensor([1, 0]))
    assert fetched.dtype == torch.float32
    assert fetched.tolist() == [[3, 4, -5], [0.5, 1, 2]]
    check(data)


def test_images_and_grey_images_without_a_channel(tmp_path):
    colour = np.arange(2 * 3 * 4 * 5, dtype=np.uint8).reshape(2, 3, 4, 5)
    assert torch.equal(
        read_array(save(tmp_path / "c.npy", colour)).inputs, torch.from_numpy(colour)
    )
    grey = read_array(save(tmp_path / "g.npy", colour[:, 0]))
    assert grey.sample_shape == (1, 4, 5)
    assert torch.equal(grey.inputs[:, 0], torch.from_numpy(colour[:, 0].copy()))


def test_a_large_file_is_mapped_and_never_changed(tmp_path, monkeypatch):
    path = save(tmp_path / "large.npy", np.arange(4000, dtype=np.float32).reshape(1000, 4))
    monkeypatch.setattr("nonneg.data.arrays._MAPPED_FROM", 1000)
    before = path.read_bytes()
    data = read_array(path)
    check(data)
    assert data.fetch(torch.tensor([999])).tolist() == [[3996, 3997, 3998, 3999]]
    # What is mapped, and only that, shows a later change of the file.
    with path.open("r+b") as file:
        file.seek(-4, 2)
        file.write(np.float32(-1).tobytes())
    assert float(data.inputs[999, 3]) == -1
    path.write_bytes(before)
    data.inputs.zero_()
    assert path.read_bytes() == before


def test_npz_with_labels_and_names(tmp_path):
    path = tmp_path / "mine.npz"
    np.savez(
        path,
        inputs=np.eye(3, dtype=np.float32),
        labels=np.array([1, 0, 1], dtype=np.uint8),
        class_names=np.array(["cat", "dog"]),
    )
    data = read_array(path)
    assert data.labels.tolist() == [1, 0, 1]
    assert data.labels.dtype == torch.int64
    assert data.class_names == ("cat", "dog")
    check(data)


def test_words_as_labels_are_numbered_in_sorted_order(tmp_path):
    path = tmp_path / "mine.npz"
    np.savez(path, inputs=np.eye(3, dtype=np.float32), labels=np.array(["dog", "ant", "dog"]))
    data = read_array(path)
    assert data.labels.tolist() == [1, 0, 1]
    assert data.class_names == ("ant", "dog")
    check(data)


def test_the_only_array_of_an_npz_serves_as_inputs(tmp_path):
    np.savez_compressed(tmp_path / "a.npz", np.eye(2))
    assert len(read_array(tmp_path / "a.npz")) == 2
    np.savez(tmp_path / "b.npz", X=np.eye(2), labels=np.array([0, 1]))
    assert read_array(tmp_path / "b.npz").labels.tolist() == [0, 1]


@pytest.mark.parametrize("arrays", [{}, {"a": np.eye(2), "b": np.eye(2)}, {"labels": np.eye(2)}])
def test_an_npz_without_clear_inputs(tmp_path, arrays):
    path = tmp_path / "x.npz"
    np.savez(path, **arrays)
    held = ", ".join(arrays) or "none"
    assert failure(path) == f"{path} must hold an array called inputs; it holds {held}"


@pytest.mark.parametrize(
    ("array", "sentence"),
    [
        (np.zeros((0, 3)), "holds no samples"),
        (np.float32(3), "has inputs of shape (); give images (n, c, h, w) or vectors (n, d)"),
        (
            np.zeros((2, 3, 4)),
            "has inputs of shape (2, 3, 4); give images (n, c, h, w) or vectors (n, d)",
        ),
        (np.zeros((2, 3), dtype=np.int64), "has vectors of type int64; give them as float32"),
        (np.zeros((2, 3), dtype=bool), "has vectors of type bool; give them as float32"),
        (np.zeros((2, 3), dtype=complex), "has vectors of type complex128; give them as float32"),
        (np.array([["a", "b"]]), "has vectors of type str32; give them as float32"),
        (
            np.zeros((2, 3, 4, 4), dtype=np.uint16),
            "has images of type uint16; give them as uint8 or as float32 in [0, 1]",
        ),
        (
            np.zeros((2, 8, 8, 3), dtype=np.uint8),
            "has inputs of shape (2, 8, 8, 3), channels last; give (n, c, h, w)",
        ),
    ],
)
def test_arrays_that_no_data_set_can_have(tmp_path, array, sentence):
    path = save(tmp_path / "bad.npy", array)
    assert failure(path) == f"{path} {sentence}"


@pytest.mark.parametrize(
    ("labels", "sentence"),
    [
        (np.array([0, 1]), "has labels of shape (2,) for 3 samples; give one per sample, (3,)"),
        (np.array([0, 1.5, 2]), "has labels of type float64; give whole numbers or words"),
        (np.array([b"a", b"b", b"a"]), "has labels of type bytes8; give whole numbers or words"),
        (
            np.array(["a", "b", "c"]),
            "has the label 'c', which is none of its class_names; add it there",
        ),
        (np.array([True, False, True]), "has labels of type bool; give whole numbers or words"),
        (np.array([0, -3, 2]), "has the label -3; labels count from 0"),
        (np.array([0, 1, 2]), "has the label 2 but names only for classes 0 to 1"),
    ],
)
def test_labels_that_no_data_set_can_have(tmp_path, labels, sentence):
    path = tmp_path / "bad.npz"
    np.savez(path, inputs=np.eye(3), labels=labels, class_names=np.array(["a", "b"]))
    assert failure(path) == f"{path} {sentence}"


class Bomb:
    def __reduce__(self):
        return (pytest.fail, ("a file was unpickled",))


def test_nothing_is_ever_unpickled(tmp_path):
    objects = np.array([Bomb(), Bomb()], dtype=object)
    path = save(tmp_path / "bomb.npy", objects)
    assert failure(path).startswith(f"{path} is not a readable .npy file: ")
    np.savez(tmp_path / "bomb.npz", inputs=objects)
    assert failure(tmp_path / "bomb.npz").startswith(f"{tmp_path}/bomb.npz is not a readable .npz")
    for ending in ("npy", "npz"):
        path = tmp_path / f"plain.{ending}"
        path.write_bytes(pickle.dumps(Bomb()))
        assert failure(path).startswith(f"{path} is not a readable .{ending} file: ")


@pytest.mark.parametrize("mapped_from", [0, 1 << 20])
def test_files_of_python_objects_say_what_to_save(tmp_path, monkeypatch, mapped_from):
    monkeypatch.setattr("nonneg.data.arrays._MAPPED_FROM", mapped_from)
    objects = np.array([["1", 2], [None, 4]], dtype=object)
    path = save(tmp_path / "x.npy", objects)
    assert failure(path) == (
        f"{path} is not a readable .npy file: it holds Python objects; save them as numbers, "
        "such as array.astype('float32')"
    )
    path = tmp_path / "x.npz"
    np.savez(path, inputs=np.eye(2), labels=objects[:, 0])
    assert failure(path) == (
        f"{path} is not a readable .npz file: it holds Python objects; save labels as text, "
        "labels.astype(str), and all else as numbers"
    )


@pytest.mark.parametrize("mapped", [False, True])
@pytest.mark.parametrize("keep", [0, 5, 100, 300])
def test_npy_files_that_are_cut_off(tmp_path, monkeypatch, mapped, keep):
    path = save(tmp_path / "cut.npy", np.random.default_rng(0).random((20, 5)))
    path.write_bytes(path.read_bytes()[:keep])
    monkeypatch.setattr("nonneg.data.arrays._MAPPED_FROM", 0 if mapped else 1 << 20)
    assert failure(path).startswith(f"{path} is not a readable .npy file: ")


@pytest.mark.parametrize("keep", [0, 40, 300])
def test_npz_files_that_are_cut_off(tmp_path, keep):
    path = tmp_path / "cut.npz"
    np.savez_compressed(path, inputs=np.random.default_rng(0).random((20, 5)))
    whole = path.read_bytes()
    for content in (whole[:keep], whole[-keep:][:-1], b"no archive"):
        path.write_bytes(content)
        said = "it is no whole zip file" if content else "it is empty"
        assert failure(path) == f"{path} is not a readable .npz file: {said}; write it again"


def test_npz_files_with_changed_bytes(tmp_path):
    path = tmp_path / "changed.npz"
    np.savez_compressed(path, inputs=np.random.default_rng(0).random((20, 5)))
    content = bytearray(path.read_bytes())
    content[200:210] = bytes(255 - byte for byte in content[200:210])
    path.write_bytes(content)
    assert failure(path).startswith(f"{path} is not a readable .npz file: it may be damaged; write")


def test_an_archive_and_an_array_under_each_others_name(tmp_path):
    np.savez(tmp_path / "a.npz", inputs=np.eye(2))
    path = (tmp_path / "a.npz").rename(tmp_path / "a.npy")
    assert failure(path).startswith(f"{path} is not a readable .npy file: ")
    path = save(tmp_path / "b.npy", np.eye(2)).rename(tmp_path / "b.npz")
    assert failure(path).startswith(f"{path} is not a readable .npz file: ")


def npy_with(header, body=b""):
    """An npy file with any header."""
    text = header.encode("latin1").ljust(118) + b"\n"
    return b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text + body


HEADERS = {
    "a long array": "{'descr': '<f4', 'fortran_order': False, 'shape': (99999999999, 3)}",
    "wide strings": "{'descr': '<U99999999', 'fortran_order': False, 'shape': (3,)}",
    "a negative shape": "{'descr': '<f4', 'fortran_order': False, 'shape': (-1,)}",
    "truth for a length": "{'descr': '<f4', 'fortran_order': False, 'shape': (True,)}",
    "half a string": "{'descr': '<f4', 'fortran_order': False, 'shape': ('''",
    "many brackets": "{'descr': '<f4', 'fortran_order': False, 'shape': " + "(" * 60,
    "a type of its own": "{'descr': [('a', '<f4', (9, 9)), ('b', 'V999999999')], 'shape': (1,)}",
    "no table": "3 + 4",
}


@pytest.mark.parametrize("read", [read_array, read_vectors, read_features])
@pytest.mark.parametrize("what", HEADERS)
def test_forged_headers_are_refused_before_memory_is_taken(tmp_path, what, read):
    path = tmp_path / "x.npz"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("features.npy", npy_with(HEADERS[what], b"1234"))
    plain = tmp_path / "x.npy"
    plain.write_bytes(npy_with(HEADERS[what], b"1234"))
    tracemalloc.start()
    try:
        for file in [path] if read is read_features else [path, plain]:
            with pytest.raises(ValueError, match=rf"{file.name} is not a readable .np[yz] file: "):
                read(file)
        assert tracemalloc.get_traced_memory()[1] < 5e6
    finally:
        tracemalloc.stop()


def test_only_what_is_needed_is_read_of_an_archive(tmp_path):
    """Beside it there may be anything, however large it says that it is."""
    path = tmp_path / "x.npz"
    np.savez(path, inputs=np.eye(3, dtype=np.float32), labels=np.array([0, 1, 0]))
    with zipfile.ZipFile(path, "a") as archive:
        archive.writestr("hidden.npy", npy_with(HEADERS["wide strings"]))
        archive.writestr("readme.txt", "not an array")
    assert read_vectors(path).labels.tolist() == [0, 1, 0]
    with pytest.raises(ValueError, match=r"is not a readable \.npz file"):
        NpzFile(path)["hidden"]


def test_an_archive_that_promises_more_than_it_can_hold(tmp_path):
    path = tmp_path / "x.npz"
    np.savez_compressed(path, inputs=np.zeros((1000, 10), dtype=np.float32))
    assert read_array(path).inputs.shape == (1000, 10)
    content = bytearray(path.read_bytes())
    with zipfile.ZipFile(path) as archive:
        size = archive.getinfo("inputs.npy").file_size.to_bytes(4, "little")
    content[content.rindex(size) : content.rindex(size) + 4] = b"\xff\xff\xff\x7f"
    path.write_bytes(content)
    with pytest.raises(ValueError, match=r"inputs\.npy in it promises 2,147,483,647 bytes, more"):
        read_array(path)


def test_long_labels_take_the_room_of_their_own_letters(tmp_path):
    """One line of 60,000 characters among 5,000 took 1.2 GB as an array of words."""
    path = tmp_path / "labels.txt"
    path.write_text("\n".join(["tea", "x" * 60_000, *["ale", "tea"] * 2_500]))
    tracemalloc.start()
    try:
        numbers, names = numbered(read_labels(path))
        assert tracemalloc.get_traced_memory()[1] < 5e6
    finally:
        tracemalloc.stop()
    assert names == ("ale", "tea", "x" * 60_000)
    assert numbers[0][:4].tolist() == [1, 2, 0, 1]


def test_words_and_numbers_are_numbered_as_words_together():
    numbers, names = numbered(np.array([10, 2]), np.array(["2", "a"], dtype=object))
    assert [part.tolist() for part in numbers] == [[0, 1], [1, 2]]
    assert names == ("10", "2", "a")
