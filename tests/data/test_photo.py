import warnings

import numpy as np
import pytest
import torch
from PIL import EpsImagePlugin, Image

from nonneg.data.folder import FORMATS, Photo, aspect_ratio


def ramp(width, height):
    """Red grows from left to right, green from top to bottom, each from 0 to 255."""
    across = np.broadcast_to((np.arange(width) + 0.5) / width, (height, width))
    down = np.broadcast_to((np.arange(height)[:, None] + 0.5) / height, (height, width))
    pixels = np.stack([across, down, np.zeros((height, width))], axis=2) * 255
    return Image.fromarray(pixels.round().astype(np.uint8))


@pytest.fixture
def save(tmp_path):
    def saving(image, name, **settings):
        image.save(tmp_path / name, **settings)
        return tmp_path / name

    return saving


@pytest.mark.parametrize("name", ["a.png", "a.jpg"])
@pytest.mark.parametrize("size", [4, 16, 60, 200])
@pytest.mark.parametrize(
    "box", [(0.0, 0.0, 1.0, 1.0), (0.25, 0.5, 0.5, 0.25), (0.6, 0.1, 0.4, 0.9)]
)
def test_a_crop_shows_the_part_that_its_box_names(save, name, size, box):
    # The middle of pixel (i, j) shows place (top + (i + 1/2) height / size, …) of the image.
    path = save(ramp(300, 200), name, **({"quality": 100} if name == "a.jpg" else {}))
    crop = Photo(path).crop(box, size).float()
    assert crop.shape == (3, size, size)
    top, left, height, width = box
    places = (torch.arange(size) + 0.5) / size
    margin = max(1, size // 8)  # at the border of the image, bilinear weights are cut off
    inner = slice(margin, size - margin)
    red, green, blue = crop[:, inner, inner]
    assert (red - 255 * (left + places * width)[None, inner]).abs().max() < 5
    assert (green - 255 * (top + places * height)[inner, None]).abs().max() < 5
    assert blue.max() < 8


def test_the_middle_square_is_as_large_as_can_be(save):
    wide = Photo(save(ramp(400, 100), "wide.png")).centre(10).float()
    assert wide[0].mean() == pytest.approx(127.5, abs=1.5)
    assert wide[0, 0, 0] == pytest.approx(255 * (150 + 5) / 400, abs=2)
    assert wide[1, 9, 0] == pytest.approx(255 * 95 / 100, abs=4)
    tall = Photo(save(ramp(100, 400), "tall.png")).centre(10).float()
    assert torch.equal(tall[1].T, wide[0])


def test_a_jpeg_is_decoded_no_larger_than_needed(save, monkeypatch):
    photo = Photo(save(ramp(800, 800), "a.jpg"))
    sizes = []
    whole = Image.Image.resize

    def noting(image, *args, **settings):
        sizes.append(image.size)
        return whole(image, *args, **settings)

    monkeypatch.setattr(Image.Image, "resize", noting)
    for size in (50, 100, 101, 200, 201, 400, 401):
        photo.crop((0.0, 0.0, 1.0, 1.0), size)
    photo.crop((0.1, 0.1, 0.5, 0.5), 100)
    assert [width for width, _ in sizes] == [100, 100, 200, 200, 400, 400, 800, 200]


def test_a_shrunk_decoding_looks_like_the_full_one(save):
    noise = np.random.default_rng(0).integers(0, 256, (25, 33, 3), dtype=np.uint8)
    picture = Image.fromarray(noise).resize((1001, 757), Image.Resampling.BICUBIC)
    path = save(picture, "a.jpg", quality=95)
    box = (0.123, 0.05, 0.8, 0.9)
    shrunk = Photo(path).crop(box, 64).float()
    picture = Image.open(path)
    edges = (0.05 * 1001, 0.123 * 757, 0.95 * 1001, 0.923 * 757)
    full = np.array(picture.resize((64, 64), Image.Resampling.BILINEAR, box=edges))
    assert (shrunk.permute(1, 2, 0) - torch.from_numpy(full)).abs().mean() < 2


def test_a_crop_does_not_depend_on_the_crops_before_it(save):
    path = save(ramp(640, 480), "a.jpg")
    boxes = [(0.0, 0.0, 1.0, 1.0), (0.1, 0.2, 0.1, 0.3), (0.0, 0.0, 0.5, 0.5)]
    together = Photo(path)
    for box in boxes:
        assert torch.equal(together.crop(box, 48), Photo(path).crop(box, 48))


@pytest.mark.parametrize("mode", ["L", "LA", "RGBA", "P", "1", "CMYK"])
def test_every_mode_of_8_bits_becomes_colour(save, mode):
    ending = "tif" if mode == "CMYK" else "png"
    path = save(Image.new("RGB", (9, 9), (255, 255, 255)).convert(mode), f"a.{ending}")
    assert Photo(path).centre(5).float().mean() == 255


def test_transparent_palettes_give_no_warning(save):
    noise = Image.fromarray(np.random.default_rng(0).integers(0, 256, (9, 9), dtype=np.uint8))
    path = save(noise.convert("P"), "a.png", transparency=bytes(range(200)))
    assert Photo(path).centre(3).shape == (3, 3, 3)


def test_16_bit_images_are_refused(save):
    path = save(Image.fromarray(np.zeros((4, 4), dtype=np.uint16)), "deep.png")
    sentence = rf"^cannot read image {path}: its pixels are I;16, not 8 bits a channel$"
    with pytest.raises(ValueError, match=sentence):
        Photo(path)


@pytest.mark.parametrize("name", ["a.png", "a.jpg", "a.webp", "a.gif"])
@pytest.mark.parametrize("keep", [0, 10, 0.5, 0.9])
def test_damaged_files_are_named(save, name, keep):
    noise = np.random.default_rng(0).integers(0, 256, (64, 64, 3), dtype=np.uint8)
    path = save(Image.fromarray(noise), name)
    content = path.read_bytes()
    path.write_bytes(content[: keep if isinstance(keep, int) else int(len(content) * keep)])
    with pytest.raises(ValueError, match=rf"^cannot read image {path}: "):
        Photo(path).centre(32)


def test_a_file_that_has_gone_is_named(tmp_path):
    with pytest.raises(ValueError, match=rf"^cannot read image {tmp_path}/gone.png: "):
        Photo(tmp_path / "gone.png")


@pytest.mark.parametrize("kind", FORMATS)
def test_a_known_format_is_read_under_any_ending(tmp_path, kind):
    path = tmp_path / "a.jpg"
    Image.new("RGB", (12, 8), (255, 255, 255)).save(path, format=kind)
    assert Photo(path).centre(4).float().mean() == 255
    assert aspect_ratio(path) == 1.5


READINGS = {"pixels": lambda path: Photo(path).centre(4), "header": aspect_ratio}


@pytest.mark.parametrize("reading", READINGS)
@pytest.mark.parametrize("kind", ["EPS", "PPM", "ICO", "TGA", "text"])
def test_other_formats_are_refused_and_postscript_is_never_run(
    tmp_path, kind, reading, monkeypatch
):
    monkeypatch.setattr(EpsImagePlugin, "Ghostscript", lambda *_, **__: pytest.fail("was run"))
    path = tmp_path / "a.jpg"
    if kind == "text":
        path.write_text("not an image")
    else:
        Image.new("RGB", (16, 16)).save(path, format=kind)
    with pytest.raises(ValueError, match=r"^cannot read image") as error:
        READINGS[reading](path)
    assert str(error.value) == (
        f"cannot read image {path}: it is not a BMP, GIF, JPEG, PNG, TIFF or WEBP file, or it is "
        "damaged; convert or remove it"
    )


@pytest.mark.parametrize("reading", READINGS)
@pytest.mark.parametrize("limit", [100, 40])  # Pillow warns above it, and raises above its double
def test_an_image_of_too_many_pixels_is_one_sentence(save, reading, limit, monkeypatch):
    path = save(ramp(11, 10), "large.png")
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", limit)
    with pytest.raises(ValueError, match=r"^cannot read image") as error:
        READINGS[reading](path)
    assert str(error.value) == (
        f"cannot read image {path}: it has more than {limit} pixels; scale it down or remove it"
    )


def test_damaged_metadata_is_passed_over_without_a_warning(save):
    """As some photographs of ImageNet have it: an entry of EXIF that points beyond its end."""
    exif = b"Exif\0\0II*\0\x08\0\0\0\x01\0\x0e\x01\x02\0\xff\0\0\0\x1a\0\0\0\0\0\0\0short"
    whole, damaged = save(ramp(9, 9), "a.jpg"), save(ramp(9, 9), "b.jpg", exif=exif)
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        with Image.open(damaged) as image:
            image.getexif().get(0x010E)
    assert said  # this is a file that Pillow warns of
    assert torch.equal(Photo(damaged).centre(5), Photo(whole).centre(5))
