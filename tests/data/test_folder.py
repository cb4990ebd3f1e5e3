import pickle

import pytest
import torch
from PIL import Image

from nonneg.data import ImageFolder, check, load
from nonneg.data.folder import has_split


def paint(path, red, size=(12, 12)):
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.new("RGB", size, (red, 0, 0)).save(path)


def reds(data):
    return data.fetch(torch.arange(len(data)))[:, 0, 0, 0].tolist()


def failure(root, **settings):
    with pytest.raises((ValueError, FileNotFoundError)) as caught:
        ImageFolder(root, **settings)
    return str(caught.value)


@pytest.fixture
def split_root(tmp_path):
    root = tmp_path / "animals"
    paint(root / "train" / "dog" / "b.png", 40)
    paint(root / "train" / "dog" / "a.png", 30)
    paint(root / "train" / "cat" / "deep" / "z.png", 20)
    paint(root / "train" / "cat" / "y.PNG", 25)
    paint(root / "val" / "dog" / "q.png", 50)
    (root / "train" / "dog" / "notes.txt").write_text("no image")
    (root / "train" / ".cache").mkdir()
    (root / "train" / "dog" / "._a.png").write_text("no image")
    return root


def test_classes_and_files_are_sorted(split_root):
    data = ImageFolder(split_root, image_size=8)
    assert (data.name, len(data), data.sample_shape) == ("animals", 4, (3, 8, 8))
    assert data.class_names == ("cat", "dog")
    assert data.labels.tolist() == [0, 0, 1, 1]
    assert data.labels.dtype == torch.int64
    assert [data.path(i).name for i in range(4)] == ["z.png", "y.PNG", "a.png", "b.png"]
    assert reds(data) == [20, 25, 30, 40]
    check(data)


def test_the_test_split_keeps_the_class_numbers_of_train(split_root):
    data = load(split_root, split="test", image_size=8)
    assert data.class_names == ("cat", "dog")
    assert data.labels.tolist() == [1]
    paint(split_root / "test" / "cat" / "t.png", 60)
    assert reds(ImageFolder(split_root, split="test")) == [60]


def test_one_folder_of_classes(split_root):
    data = load(str(split_root / "train"), image_size=4)
    assert data.labels.tolist() == [0, 0, 1, 1]
    assert data.name == "train"


def test_a_flat_folder_has_no_labels(tmp_path):
    for red in (3, 1, 2):
        paint(tmp_path / f"{red}.png", red)
    data = load(tmp_path)
    assert data.labels is None
    assert data.class_names == ()
    assert data.sample_shape == (3, 224, 224)
    assert reds(data) == [1, 2, 3]
    assert data.take(torch.tensor([2])).labels is None


def test_a_folder_has_a_split_beside_its_train_folder(tmp_path):
    assert not has_split(tmp_path, "test")
    (tmp_path / "val").mkdir()
    assert not has_split(tmp_path, "test")
    (tmp_path / "train").mkdir()
    assert has_split(tmp_path, "test")
    (tmp_path / "val").rmdir()
    assert not has_split(tmp_path, "test")


def test_crops(tmp_path):
    halves = Image.new("RGB", (40, 20))
    halves.paste((200, 0, 0), (20, 0, 40, 20))
    halves.save(tmp_path / "halves.png")
    paint(tmp_path / "plain.png", 99)
    data = ImageFolder(tmp_path)
    numbers = torch.tensor([0, 0, 1, 0])
    boxes = torch.tensor([[0, 0, 1, 0.5], [0, 0.5, 1, 0.5], [0.2, 0.2, 0.1, 0.1], [0, 0, 1, 1]])
    crops = data.crops(numbers, boxes, 6)
    assert crops.dtype == torch.uint8
    assert crops.shape == (4, 3, 6, 6)
    # The last pixel before the edge of a box mixes in a little from beyond it.
    assert (crops[0, 0, :, :5] == 0).all()
    assert (crops[0, 0, :, 5] < 30).all()
    assert (crops[1, 0, :, 1:] == 200).all()
    assert (crops[1, 0, :, 0] > 170).all()
    assert (crops[2, 0] == 99).all()
    assert crops[3, 0].float().mean() == pytest.approx(100, abs=1)


def test_aspect_ratios_are_width_over_height(tmp_path):
    paint(tmp_path / "a.png", 1, size=(30, 20))
    paint(tmp_path / "b.png", 1, size=(10, 40))
    data = ImageFolder(tmp_path)
    assert data.aspect_ratios(torch.tensor([1, 0, 1])).tolist() == [0.25, 1.5, 0.25]
    (tmp_path / "b.png").write_bytes(b"this is no image")
    with pytest.raises(ValueError, match=rf"^cannot read image {tmp_path}/b.png: "):
        data.aspect_ratios(torch.tensor([0, 1]))


def test_neighbouring_crops_of_one_image_read_it_once(split_root, monkeypatch):
    data = ImageFolder(split_root)
    read = []
    original = type(split_root).read_bytes
    monkeypatch.setattr(
        type(split_root), "read_bytes", lambda path: read.append(path.name) or original(path)
    )
    data.crops(torch.tensor([3, 3, 2, 2, 3]), torch.tensor([[0, 0, 1, 1.0]]).expand(5, 4), 4)
    assert read == ["b.png", "a.png", "b.png"]


def test_boxes_that_touch_the_border_with_rounding_are_taken(split_root):
    top = torch.rand(200, 2, generator=torch.Generator().manual_seed(0))
    boxes = torch.cat([top, 1 - top], dim=1)
    crops = ImageFolder(split_root).crops(torch.zeros(200, dtype=torch.int64), boxes, 2)
    assert crops.shape == (200, 3, 2, 2)


@pytest.mark.parametrize(
    ("box", "shown"),
    [
        ([0.5, 0.0, 0.75, 1.0], "[0.5, 0.0, 0.75, 1.0]"),
        ([-0.5, 0.0, 1.0, 1.0], "[-0.5, 0.0, 1.0, 1.0]"),
        ([0.0, 0.0, 0.0, 1.0], "[0.0, 0.0, 0.0, 1.0]"),
        ([0.0, float("nan"), 1.0, 1.0], "[0.0, nan, 1.0, 1.0]"),
    ],
)
def test_boxes_outside_the_image_are_refused(split_root, box, shown):
    boxes = torch.tensor([[0.0, 0.0, 1.0, 1.0], box])
    with pytest.raises(ValueError, match=r"^box 1 is ") as caught:
        ImageFolder(split_root).crops(torch.tensor([0, 1]), boxes, 4)
    assert str(caught.value) == (
        f"box 1 is (top, left, height, width) = {shown}; it must have a positive size and lie in"
        " [0, 1]"
    )


def test_another_number_of_boxes_is_refused(split_root):
    sentence = r"^boxes must be \(n, 4\) for n = 2 images, got \(3, 4\)$"
    with pytest.raises(ValueError, match=sentence):
        ImageFolder(split_root).crops(torch.tensor([0, 1]), torch.rand(3, 4), 4)


def test_pickling_takes_no_pixels_and_gives_the_same(split_root):
    data = ImageFolder(split_root, image_size=8)
    data.fetch(torch.arange(4))
    content = pickle.dumps(data)
    assert len(content) < 1500
    assert reds(pickle.loads(content)) == reds(data)


def test_a_damaged_file_is_named_when_it_is_fetched(split_root):
    path = split_root / "train" / "dog" / "a.png"
    path.write_bytes(b"this is no image")
    data = ImageFolder(split_root, image_size=8)
    data.fetch(torch.tensor([0, 1, 3]))
    with pytest.raises(ValueError, match=rf"^cannot read image {path}: "):
        data.fetch(torch.tensor([1, 2]))
    with pytest.raises(ValueError, match=rf"^cannot read image {path}: "):
        data.crops(torch.tensor([2]), torch.tensor([[0, 0, 1, 1.0]]), 8)


def test_folders_that_cannot_be_read_say_why(split_root, tmp_path):
    empty = tmp_path / "empty"
    assert failure(empty).startswith(f"{empty} is not a folder; make it with {empty.name}/train/")
    empty.mkdir()
    assert failure(empty) == (
        f"{empty} holds no images; known endings: .bmp, .gif, .jpeg, .jpg, .png, .tif, .tiff, .webp"
    )
    train = split_root / "train"
    assert failure(train, split="test") == (
        f"{train} has no test split: its images do not lie in train/train and train/test"
    )
    assert failure(split_root, image_size=0) == "image_size must be at least 1, got 0"
    assert failure(split_root, split="val") == "unknown split 'val'; known: train, test"
    (train / "eel").mkdir()
    assert failure(split_root) == (f"{train}/eel is a class without images; fill or remove it")
    (train / "eel").rmdir()
    paint(split_root / "val" / "fox" / "f.png", 1)
    assert failure(split_root, split="test") == (
        f"{split_root}/val/fox is a class that the train folder does not have"
    )
    paint(train / "loose.png", 1)
    assert failure(split_root) == (
        f"{train} holds both class folders and loose images, such as loose.png; move the images"
        " into a class folder"
    )


def test_a_missing_part_of_a_split_is_named(split_root):
    (split_root / "val").rename(split_root.parent / "elsewhere")
    assert failure(split_root, split="test") == (
        f"{split_root} has a train folder, but none for the test split; looked for test and val"
    )
    (split_root / "train").rename(split_root / "val")
    assert failure(split_root) == f"{split_root} has a val folder, but no train folder"
