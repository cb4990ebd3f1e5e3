"""The speed of two views of an image: ours, kornia's chain and a loop over Pillow, in one run.

All make two SimCLR views (crop, flip, colour, grey, blur) of 32×32 colour images, from bytes to
floats. The methods take turns, so that a busy machine slows all of them; in its turn a method
runs once untimed, so that each is timed with the memory that it left itself, and medians are taken.

    python benchmarks/views.py
"""

import importlib
import statistics
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from PIL import Image, ImageEnhance, ImageFilter
from torch import Tensor

from nonneg.pairs import Batch, Draws, ImageViews, recipe

N_IMAGES = 512
N_PILLOW = 32  # The loop takes the same time for each image: a few are enough.
SETTINGS = recipe("colour")


def measure(*, n_turns: int = 15) -> dict[str, Any]:
    """Images a second (two views each) of every method, and ours as a multiple of the others.

    Args:
        n_turns: Of each method; the median turn counts.

    Returns:
        ``images_per_second`` and ``microseconds_per_view`` by method; ``times_kornia``, as it
        comes, and ``times_kornia_resample``, with its other way to crop (both None without
        kornia); ``times_pillow``; ``n_threads``.
    """
    colour = _random_images(3, 32)
    methods: dict[str, tuple[int, Callable[[], object]]] = {
        "nonneg": (N_IMAGES, _ours(colour, "colour")),
        "nonneg, 28×28 grey": (N_IMAGES, _ours(_random_images(1, 28), "grey")),
        "pillow": (N_PILLOW, _pillow(colour[:N_PILLOW])),
    }
    for name, cropping_mode in (("kornia", "slice"), ("kornia, resample", "resample")):
        chain = _kornia(colour, cropping_mode)
        if chain is not None:
            methods[name] = (N_IMAGES, chain)
    seconds: dict[str, list[float]] = {name: [] for name in methods}
    for _ in range(n_turns):
        for name, (n_images, make) in methods.items():
            make()
            started = time.perf_counter()
            make()
            seconds[name].append((time.perf_counter() - started) / n_images)
    each = {name: statistics.median(times) for name, times in seconds.items()}

    def times(name: str) -> float | None:
        return each[name] / each["nonneg"] if name in each else None

    return {
        "images_per_second": {name: 1 / time_each for name, time_each in each.items()},
        "microseconds_per_view": {name: 1e6 * time_each / 2 for name, time_each in each.items()},
        "times_kornia": times("kornia"),
        "times_kornia_resample": times("kornia, resample"),
        "times_pillow": times("pillow"),
        "n_threads": torch.get_num_threads(),
    }


def _random_images(channels: int, size: int) -> Tensor:
    # Smooth, as photographs are; what is in them does not change the time.
    noise = torch.rand(N_IMAGES, channels, 4, 4, generator=torch.Generator().manual_seed(0))
    smooth = torch.nn.functional.interpolate(noise, (size, size), mode="bilinear")
    return (smooth * 255).to(torch.uint8)


def _ours(images: Tensor, name: str) -> Callable[[], object]:
    pairs, numbers = ImageViews(recipe(name)), torch.arange(len(images))
    epoch = 0

    def make() -> object:
        nonlocal epoch
        epoch += 1
        return pairs(Batch(images, numbers, Draws(0, epoch, numbers), images.__getitem__))

    return make


def _kornia(images: Tensor, cropping_mode: str) -> Callable[[], object] | None:
    """The same chain in kornia; its blur sees only 3×3 pixels, which favours it."""
    try:
        augment = importlib.import_module("kornia.augmentation")
    except (ImportError, RuntimeError, OSError):
        return None
    chain = torch.nn.Sequential(
        augment.RandomResizedCrop(
            (32, 32),
            scale=SETTINGS.crop_scale,
            ratio=SETTINGS.crop_ratio,
            cropping_mode=cropping_mode,
            same_on_batch=False,
        ),
        augment.RandomHorizontalFlip(p=SETTINGS.flip_rate, same_on_batch=False),
        augment.ColorJitter(
            SETTINGS.brightness,
            SETTINGS.contrast,
            SETTINGS.saturation,
            SETTINGS.hue,
            p=SETTINGS.jitter_rate,
            same_on_batch=False,
        ),
        augment.RandomGrayscale(p=SETTINGS.grey_rate, same_on_batch=False),
        augment.RandomGaussianBlur(
            (3, 3), SETTINGS.blur_sigma, p=SETTINGS.blur_rate, same_on_batch=False
        ),
    )

    def make() -> object:
        with torch.no_grad():
            floats = images.float() / 255
            return chain(floats), chain(floats)

    return make


def _pillow(images: Tensor) -> Callable[[], object]:
    arrays = images.permute(0, 2, 3, 1).contiguous().numpy()
    generator = np.random.default_rng(0)

    def make() -> object:
        return [
            torch.from_numpy(
                np.stack([np.asarray(_pillow_view(array, generator)) for array in arrays])
            )
            .permute(0, 3, 1, 2)
            .float()
            .div_(255)
            for _ in range(2)
        ]

    return make


def _pillow_view(array: np.ndarray, generator: np.random.Generator) -> Image.Image:
    size = array.shape[0]
    area = generator.uniform(*SETTINGS.crop_scale)
    ratio = np.exp(generator.uniform(*np.log(SETTINGS.crop_ratio)))
    height, width = min(1.0, (area / ratio) ** 0.5) * size, min(1.0, (area * ratio) ** 0.5) * size
    top, left = generator.random() * (size - height), generator.random() * (size - width)
    box = (left, top, left + width, top + height)
    image = Image.fromarray(array).resize((size, size), Image.Resampling.BILINEAR, box)
    if generator.random() < SETTINGS.flip_rate:
        image = image.transpose(Image.Transpose.FLIP_LEFT_RIGHT)
    if generator.random() < SETTINGS.jitter_rate:
        image = _pillow_jitter(image, generator)
    if generator.random() < SETTINGS.grey_rate:
        image = image.convert("L").convert("RGB")
    if generator.random() < SETTINGS.blur_rate:
        image = image.filter(ImageFilter.GaussianBlur(generator.uniform(*SETTINGS.blur_sigma)))
    return image


def _pillow_jitter(image: Image.Image, generator: np.random.Generator) -> Image.Image:
    for enhance, strength in (
        (ImageEnhance.Brightness, SETTINGS.brightness),
        (ImageEnhance.Contrast, SETTINGS.contrast),
        (ImageEnhance.Color, SETTINGS.saturation),
    ):
        image = enhance(image).enhance(generator.uniform(1 - strength, 1 + strength))
    channels = np.array(image.convert("HSV"))
    channels[..., 0] += np.uint8(int(256 * generator.uniform(-SETTINGS.hue, SETTINGS.hue)) % 256)
    return Image.fromarray(channels, "HSV").convert("RGB")


def main() -> None:
    """Print what was measured."""
    measured = measure()
    print(f"two SimCLR views of {N_IMAGES} images of 32×32, {measured['n_threads']} threads")
    for name, speed in measured["images_per_second"].items():
        each = measured["microseconds_per_view"][name]
        print(f"  {name:20s} {speed:10.0f} images/s   {each:8.1f} µs per view")
    if measured["times_kornia"] is None:
        print("kornia is not installed, so nothing is compared with it: pip install kornia")
    else:
        print(
            f"nonneg is {measured['times_kornia']:.1f} × as fast as kornia as it comes, "
            f"{measured['times_kornia_resample']:.1f} × with its cropping_mode='resample'"
        )
    print(f"nonneg is {measured['times_pillow']:.1f} × as fast as a loop over Pillow")


if __name__ == "__main__":
    main()
