"""The table of other kinds of data: estimators, with the switch off and on, each fitted once."""

import hashlib
import json
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from nonneg.data.official import data_folder
from nonneg.evaluation import Figure
from nonneg.experiments.reproduction.filling import Filled
from nonneg.experiments.reproduction.modality_parts import PARTS, Part
from nonneg.experiments.reproduction.plan import Arm, Plan
from nonneg.io import digest_of_file, read_json, write_json

MODALITIES = Plan(
    name="modalities",
    about="The switch on other data than images: vectors that are there (MiniLM, CLINC150), two "
    "kinds of vectors (EfficientNet-Lite0 and MiniLM, Flickr8k), and planted graphs, for which "
    "CL's optimum is known: eigenvectors.",
    arms=(Arm("CL", signed=True), Arm("NCL")),
    figures={key: heading for part in PARTS for key, heading in part.figures.items()},
    sections=(),
)
N_FITS = len(PARTS) * len(MODALITIES.arms)
"""Of one seed."""
FOLDER = "vectors"


def filled_modalities(
    seeds: Sequence[int],
    runs: Path,
    *,
    data_dir: Path | None = None,
    may_begin: Callable[[], bool] = lambda: True,
    watch: Callable[[str], None] = lambda _: None,
) -> Filled:
    """Fit and measure what is missing, and gather all figures.

    Args:
        seeds: Of the estimators, and of the graphs.
        runs: Where figures of earlier fits are kept.
        data_dir: Where data sets lie; vectors are in its folder ``vectors``, as
            ``clinc150_train.npy``. A part whose files are absent is left out; the table says so.
        may_begin: Asked before each fit; False ends the work.
        watch: Told what is being done.
    """
    folder = data_folder(data_dir) / FOLDER
    table = Filled(
        MODALITIES,
        None,
        tuple(seeds),
        arms={arm.name: arm for arm in MODALITIES.arms},
        timed="fitting and measuring",
    )
    parts = [part for part in PARTS if _is_there(part, folder, table)]
    for seed in seeds:
        for arm in MODALITIES.arms:
            for part in parts:
                what = f"{arm.name}, {part.name}, seed {seed}"
                settings = part.settings(arm.signed)
                path = runs / f"modalities-{_digest(part, folder, settings)}-seed{seed}.json"
                if not path.exists():
                    if not may_begin():
                        table.missing.append(what)
                        continue
                    watch(f"{what}: training")
                    _measure(part, folder, arm.signed, seed, path)
                kept = read_json(path)
                figures = {key: Figure(**values) for key, values in kept["figures"].items()}
                table.figures.setdefault(arm.name, {}).setdefault(seed, {}).update(
                    {key: figure for key, figure in figures.items() if key in MODALITIES.figures}
                )
                seconds = table.seconds.setdefault(arm.name, {})
                seconds[seed] = seconds.get(seed, 0.0) + kept["seconds"]
                table.settings.setdefault(arm.name, {})[part.name] = settings
    return table


def _is_there(part: Part, folder: Path, table: Filled) -> bool:
    absent = [name for name in part.files if not (folder / name).exists()]
    if absent:
        table.missing.append(f"{part.name} ({folder} lacks {', '.join(absent)})")
    return not absent


def _measure(part: Part, folder: Path, signed: bool, seed: int, path: Path) -> None:
    began = time.perf_counter()
    figures = part.measure(folder, signed, seed)
    seconds = time.perf_counter() - began
    kept = {key: figure.as_json() for key, figure in figures.items()}
    write_json(path, {"figures": kept, "seconds": seconds})


def _digest(part: Part, folder: Path, settings: dict[str, Any]) -> str:
    """Of all that decides the figures: the part, its settings and its files."""
    files = [digest_of_file(folder / name) for name in part.files]
    text = json.dumps([part.name, settings, files], sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:8]
