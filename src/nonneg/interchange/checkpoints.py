"""Checkpoints of other programs as encoders: NCL's authors, solo-learn, ResNets of torchvision.

All that a file says is checked against the network that it names before that is built.
"""

import math
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, cast

import torch
from torch import Tensor, nn

from nonneg.backbones.building import BackboneSettings
from nonneg.backbones.resnet import RESNETS, STEMS, Bottleneck, ResNet, StemName
from nonneg.encoder import Encoder, EncoderSettings
from nonneg.head.nonnegative import TRANSFORMS
from nonneg.head.projector import ProjectorSettings
from nonneg.interchange.restricted_reader import check_tensors, read_restricted
from nonneg.io import digest_of_file, read_json
from nonneg.settings import nearest
from nonneg.training.run_folder import IMPORT, RunFolder, locked

# What solo-learn writes beside a checkpoint.
SETTINGS_FILE = "args.json"
# How solo-learn calls the backbone, and called it before 2022.
_BACKBONES = ("backbone.", "encoder.")
_PROJECTOR = "projector."
_LONGEST_NAME = 200
_STAGE = re.compile(r"layer([1-4])\.(\d+)\.")


class Pixels(NamedTuple):
    """How images of a set were prepared for a network."""

    mean: tuple[float, ...]
    std: tuple[float, ...]
    size: int


_IMAGENET = Pixels((0.485, 0.456, 0.406), (0.229, 0.224, 0.225), 224)
# Means and deviations that solo-learn trains with; those of ImageNet are torchvision's too.
PIXELS: dict[str, Pixels | None] = {
    "cifar10": Pixels((0.4914, 0.4822, 0.4465), (0.2470, 0.2435, 0.2616), 32),
    "cifar100": Pixels((0.5071, 0.4865, 0.4409), (0.2673, 0.2564, 0.2762), 32),
    "stl10": Pixels((0.4914, 0.4823, 0.4466), (0.247, 0.243, 0.261), 96),
    "imagenet": _IMAGENET,
    "imagenet100": _IMAGENET,
    "none": None,
}
# Names of the authors' transforms that are others here; None is ordinary contrastive learning.
_TRANSFORMS = {None: "identity", "None": "identity", "leakyrelu": "leaky_relu"}


@dataclass(frozen=True)
class Imported:
    """An encoder with the weights of a checkpoint.

    Args:
        encoder: In evaluation mode, on the CPU.
        notes: What a reader should know: what was left out, what was taken from where.
        loss: The loss that it was trained with and its temperature, where the settings beside the
            checkpoint say so.
        seed: Likewise.
        digest: SHA-256 of the file.
    """

    encoder: Encoder
    notes: tuple[str, ...]
    loss: dict[str, Any]
    seed: int | None
    digest: str


class _Checkpoint(NamedTuple):
    """The tensors of a file by part, and the settings that came with them."""

    backbone: dict[str, Tensor]
    projector: dict[str, Tensor]
    others: Counter[str]
    """How many tensors other parts have."""
    is_solo: bool
    """Whether the backbone is called as solo-learn calls it, and not as torchvision."""
    told: dict[str, Any]
    """Settings of the training; empty where none are there."""


def import_checkpoint(
    path: str | Path,
    out: str | Path,
    **chosen: Any,  # noqa: ANN401
) -> Imported:
    """Write the encoder of a checkpoint into a run folder, as other commands read it.

    Args:
        path: The checkpoint.
        out: The run folder; new, empty, or with what an earlier import of the same has left.
        chosen: The other arguments of :func:`imported_encoder`.

    Raises:
        FileExistsError: ``out`` holds something else.
    """
    folder = RunFolder(out)
    folder.check_free()
    found = imported_encoder(path, **chosen)
    settings = {
        "task": IMPORT,
        "checkpoint": {"name": Path(path).name, "digest": found.digest},
        **found.encoder.identity(),
        "loss": found.loss,
        "seed": found.seed,
    }
    with locked(folder.path):
        folder.claim(settings, resume=True)
        if folder.is_finished:
            return found
        try:
            found.encoder.save(folder.path)
        except BaseException:
            for file in folder.path.glob("[!.]*"):  # there was nothing else in it
                file.unlink()
            raise
    return found


def imported_encoder(
    path: str | Path,
    *,
    nonnegative: str | None = None,
    stem: str | None = None,
    pixels: str | None = None,
) -> Imported:
    """The encoder whose weights a checkpoint holds.

    Read are checkpoints of NCL's authors and of solo-learn (``backbone.*``, or ``encoder.*`` of
    before 2022, and ``projector.*`` in ``state_dict``), with the settings in ``args.json`` beside
    them or in ``hyper_parameters``, and state dicts of a ResNet as torchvision names them. Without
    a projector the features are the backbone's output. What the settings do not say has to be
    given.

    Args:
        path: A file of ``torch.save``, such as ``ncl-ep=199.ckpt``.
        nonnegative: The transform of the scores, a key of ``nonneg.head.TRANSFORMS``.
        stem: ``small``, ``strided``, ``large`` or ``authors``; the weights tell the kernel only.
        pixels: The set whose mean and standard deviation images are scaled by: a key of
            ``PIXELS``, ``"none"`` for pixels in [0, 1].

    Raises:
        ValueError: The file is damaged or forged, holds something else, or does not say enough.
    """
    path = Path(path)
    checkpoint = _read(path)
    scaling = _pixels(path, checkpoint, pixels)
    width, in_channels, kernel, _ = checkpoint.backbone["conv1.weight"].shape
    if scaling is not None and len(scaling.mean) != in_channels:
        raise ValueError(f"{path} reads images of {in_channels} channels; give --pixels none")
    backbone = BackboneSettings(
        name=_name(path, checkpoint.backbone),
        width=width,
        stem=cast(StemName, _stem(path, checkpoint, kernel, stem)),
    )
    _check_fits(path, backbone, in_channels, checkpoint.backbone)
    head, weights = _projector(path, checkpoint)
    settings = EncoderSettings(
        backbone=backbone,
        projector=head,
        nonnegative=_transform(path, checkpoint, nonnegative),
        pixel_mean=() if scaling is None else scaling.mean,
        pixel_std=() if scaling is None else scaling.std,
    )
    size = scaling.size if scaling else (32 if kernel == 3 else 224)
    with torch.random.fork_rng(devices=[]):  # first weights are drawn, and replaced
        encoder = Encoder(settings, (in_channels, size, size))
    _fill(path, encoder, checkpoint.backbone, weights)
    loss, seed = _training(checkpoint.told)
    return Imported(encoder.eval(), _notes(checkpoint), loss, seed, digest_of_file(path))


def _check_fits(
    path: Path, settings: BackboneSettings, in_channels: int, weights: Mapping[str, Tensor]
) -> None:
    """Raise a sentence for other names or shapes, before a network of that size is built."""
    with torch.device("meta"):
        network = ResNet(
            settings.name, in_channels=in_channels, width=settings.width, stem=settings.stem
        )
    try:
        network.check_torchvision(weights)
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from error


def _fill(
    path: Path, encoder: Encoder, backbone: dict[str, Tensor], projector: dict[str, Tensor] | None
) -> None:
    network = encoder.backbone
    assert isinstance(network, ResNet)
    kinds = {weight.dtype for weight in backbone.values() if weight.is_floating_point()}
    if kinds == {torch.float64}:
        encoder.double()
    network.load_torchvision(backbone)
    if projector is None:  # features are what the backbone gives
        (last,) = encoder.projector
        assert isinstance(last, nn.Linear)
        nn.init.eye_(last.weight)
        nn.init.zeros_(last.bias)
        return
    try:
        encoder.projector.load_state_dict(projector)
    except RuntimeError as error:
        raise ValueError(
            f"the projector in {path} does not fit together: {str(error).splitlines()[-1].strip()}"
        ) from error


def _read(path: Path) -> _Checkpoint:
    """The parts of a checkpoint, of checked size and without NaN."""
    content = read_restricted(path)
    weights = content.get("state_dict", content) if isinstance(content, dict) else None
    if not isinstance(weights, dict) or not weights or not all(isinstance(n, str) for n in weights):
        raise ValueError(
            f"{path} holds no state dict; give a checkpoint of NCL's authors or of solo-learn, or "
            "the state dict of a ResNet"
        )
    if not all(name.isprintable() and len(name) <= _LONGEST_NAME for name in weights):
        raise ValueError(f"{path} is damaged: names of its tensors are no words")
    prefix = next((p for p in _BACKBONES if f"{p}conv1.weight" in weights), "")
    backbone, projector, others = {}, {}, Counter[str]()
    for name, value in weights.items():
        if name.startswith(_PROJECTOR):
            projector[name.removeprefix(_PROJECTOR)] = value
        elif name.startswith(prefix) and (prefix or _is_of_resnet(name)):
            backbone[name.removeprefix(prefix)] = value
        else:
            others[name.partition(".")[0]] += 1
    if "conv1.weight" not in backbone:
        raise ValueError(
            f"{path} holds no ResNet: there is neither backbone.conv1.weight, as in solo-learn, "
            f"nor conv1.weight, as in torchvision, but {next(iter(weights))!r}"
        )
    check_tensors(path, {**backbone, **{_PROJECTOR + n: t for n, t in projector.items()}})
    shape = backbone["conv1.weight"].shape
    if len(shape) != 4 or min(shape) < 1:
        raise ValueError(f"{path}: conv1.weight is no convolution of images, but {tuple(shape)}")
    told = _told(path, content)
    return _Checkpoint(backbone, projector, others, bool(prefix), told)


def _is_of_resnet(name: str) -> bool:
    return name.startswith(("conv1.", "bn1.", "fc.")) or _STAGE.match(name) is not None


def _told(path: Path, content: dict[str, Any]) -> dict[str, Any]:
    """The settings of the training, from the file beside the checkpoint or from inside."""
    beside = path.parent / SETTINGS_FILE
    told = read_json(beside) if beside.is_file() else content.get("hyper_parameters", {})
    return told if isinstance(told, dict) else {}


def _setting(told: Mapping[str, Any], group: str, key: str) -> tuple[bool, Any]:
    """Whether a setting is there, and its value: in its group, or among all in older files."""
    table = told.get(group)
    for place in (table if isinstance(table, dict) else {}, told):
        if key in place:
            return True, place[key]
    return False, None


def _name(path: Path, backbone: Mapping[str, Tensor]) -> str:
    """Which ResNet has such stages."""
    blocks: dict[str, set[str]] = {}
    for name in backbone:
        if stage := _STAGE.match(name):
            blocks.setdefault(stage[1], set()).add(stage[2])
    depths = tuple(len(blocks.get(stage, ())) for stage in "1234")
    is_deep = "layer1.0.conv3.weight" in backbone
    for name, (block, known) in RESNETS.items():
        if known == depths and (block is Bottleneck) == is_deep:
            return name
    raise ValueError(
        f"{path} holds a ResNet of {', '.join(map(str, depths))} blocks; known: "
        f"{', '.join(RESNETS)}"
    )


def _stem(path: Path, checkpoint: _Checkpoint, kernel: int, chosen: str | None) -> str:
    fitting = [name for name, stem in STEMS.items() if stem.kernel == kernel]
    if not fitting:
        raise ValueError(f"{path} begins with a {kernel}×{kernel} convolution; known: 3×3 and 7×7")
    if chosen is not None:
        if chosen not in fitting:
            raise ValueError(
                f"{path} begins with a {kernel}×{kernel} convolution, which stem {chosen!r} has "
                f"not; known: {', '.join(fitting)}"
            )
        return chosen
    if len(fitting) > 1 and checkpoint.is_solo:
        return "authors"  # the only small one of solo-learn
    if len(fitting) > 1:
        raise ValueError(
            f"{path} begins with a 3×3 convolution and does not say its stride and padding; give "
            f"--stem {' or '.join(fitting)}"
        )
    return fitting[0]


def _transform(path: Path, checkpoint: _Checkpoint, chosen: str | None) -> str:
    if chosen is not None:
        return _known_transform(chosen, f"unknown transform {chosen!r}")
    if not checkpoint.projector:
        return "relu"  # the backbone's output is not negative
    is_there, said = _setting(checkpoint.told, "method_kwargs", "non_neg")
    if is_there:
        name = _TRANSFORMS.get(said, said) if isinstance(said, str | None) else str(said)
        return _known_transform(
            str(name), f"{path} was trained with non_neg {said!r}; give --nonnegative"
        )
    if checkpoint.told:
        return "identity"  # solo-learn itself has no transform
    raise ValueError(
        f"{path} does not say which transform its features have: put {SETTINGS_FILE} beside it, or "
        "give --nonnegative rep_relu or relu for NCL, identity for ordinary contrastive learning"
    )


def _known_transform(name: str, otherwise: str) -> str:
    if name not in TRANSFORMS:
        raise ValueError(f"{otherwise}; {nearest(name, TRANSFORMS)}")
    return name


def _pixels(path: Path, checkpoint: _Checkpoint, chosen: str | None) -> Pixels | None:
    if chosen is None:
        is_there, chosen = _setting(checkpoint.told, "data", "dataset")
        if not isinstance(chosen, str) or chosen not in PIXELS:
            said = f"was trained on {chosen!r}" if is_there else "does not say what it learnt from"
            raise ValueError(
                f"{path} {said}, so that the scaling of pixels is unknown; give --pixels "
                f"{' or '.join(PIXELS)}"
            )
    elif chosen not in PIXELS:
        raise ValueError(f"unknown pixels {chosen!r}; {nearest(chosen, PIXELS)}")
    return PIXELS[chosen]


def _projector(
    path: Path, checkpoint: _Checkpoint
) -> tuple[ProjectorSettings, dict[str, Tensor] | None]:
    """The settings of the projector, and its weights by our names; None without one."""
    weights = checkpoint.projector
    n_hidden = 8 * checkpoint.backbone["conv1.weight"].shape[0] * _expansion(checkpoint)
    if not weights:
        return ProjectorSettings(hidden=(), n_features=n_hidden, norm="none"), None
    layers = list(_layers(path, weights))
    n_columns = n_hidden
    for start, _ in layers:
        n_rows, n_given = weights[f"{start}.weight"].shape
        if n_given != n_columns or n_rows < 1:
            raise ValueError(
                f"the projector in {path} does not fit together: layer {start} takes {n_given} "
                f"numbers, but gets {n_columns}"
            )
        n_columns = n_rows
    norms = {has_norm for _, has_norm in layers[:-1]}
    if layers[-1][1] or len(norms) > 1:
        raise ValueError(
            f"the projector in {path} is normalised at its end, or in some layers only, which no "
            "projector here is"
        )
    found: dict[str, Tensor] = {}
    for place, (start, has_norm) in enumerate(layers):
        for part, at in ((start, 3 * place), (start + 1, 3 * place + 1))[: 1 + has_norm]:
            of_part = f"{part}."
            found |= {
                f"{at}.{name.removeprefix(of_part)}": weight
                for name, weight in weights.items()
                if name.startswith(of_part)
            }
        if f"{3 * place}.bias" not in found:
            weight = found[f"{3 * place}.weight"]
            found[f"{3 * place}.bias"] = weight.new_zeros(weight.shape[0])
    widths = [weights[f"{start}.weight"].shape[0] for start, _ in layers]
    settings = ProjectorSettings(
        hidden=tuple(widths[:-1]),
        n_features=widths[-1],
        norm="batch" if norms == {True} else "none",
    )
    return settings, found


def _layers(path: Path, weights: Mapping[str, Tensor]) -> Iterator[tuple[int, bool]]:
    """The place of each linear map, and whether batch normalisation follows it.

    Between two there is one layer without weights, which is taken for a rectifier, as all these
    programs have it.
    """
    places = sorted({name.partition(".")[0] for name in weights}, key=lambda n: (len(n), n))
    unknown = f"the projector in {path} has another layout than linear maps with rectifiers between"
    if not all(place.isdecimal() and len(place) < 4 for place in places):
        raise ValueError(f"{unknown}: {_PROJECTOR}{next(iter(weights))}")
    left, expected = [int(place) for place in places], 0
    while left:
        place = left.pop(0)
        weight = weights.get(f"{place}.weight")
        if place != expected or weight is None or weight.ndim != 2:
            raise ValueError(f"{unknown}: layer {place}")
        has_norm = bool(left) and left[0] == place + 1
        if has_norm:
            following = left.pop(0)
            if f"{following}.running_mean" not in weights:
                raise ValueError(f"{unknown}: layer {following}")
        expected = place + 2 + has_norm
        yield place, has_norm


def _expansion(checkpoint: _Checkpoint) -> int:
    block, _ = RESNETS["resnet50" if "layer1.0.conv3.weight" in checkpoint.backbone else "resnet18"]
    return block.expansion


def _training(told: Mapping[str, Any]) -> tuple[dict[str, Any], int | None]:
    """The loss as runs record it, and the seed, where the settings tell them."""
    seed = told.get("seed")
    is_known, temperature = _setting(told, "method_kwargs", "temperature")
    loss: dict[str, Any] = {"name": "unknown"}
    is_number = isinstance(temperature, int | float) and math.isfinite(temperature)
    if told.get("method") == "simclr" and is_known and is_number and temperature > 0:
        loss = {"name": "info_nce", "temperature": float(temperature)}
    return loss, seed if type(seed) is int else None


def _notes(checkpoint: _Checkpoint) -> tuple[str, ...]:
    notes = []
    left = Counter(checkpoint.others)
    if n_classifier := sum(name.startswith("fc.") for name in checkpoint.backbone):
        left["fc"] += n_classifier
    if left:
        parts = ", ".join(f"{part} ({n})" for part, n in sorted(left.items()))
        notes.append(f"left out, with their number of tensors: {parts}")
    if not checkpoint.projector:
        notes.append("there is no projector: the features are the backbone's output")
    return tuple(notes)
