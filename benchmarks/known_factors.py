"""The study of known factors: do features become the values that the samples of a pair share?

    python -m benchmarks.known_factors --seeds 0,1,2    # trains and measures what is missing
    python -m benchmarks.known_factors --table          # what is there so far, also in docs/history
    python -m benchmarks.known_factors --picture        # features against values, of the first seed

Every representation of a seed is a line of ``results/studies/known-factors.jsonl``. Runs are kept
in ``runs/known-factors`` with their checkpoints, so that a killed one goes on. All figures are of
sprites that are not in the training set.
"""

import argparse
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from rich.console import Console
from sklearn.decomposition import NMF, PCA, FastICA
from torch import Tensor, nn

from benchmarks.studies import Record, append, as_markdown, between_marks, folder_name, read
from nonneg import metrics
from nonneg.backbones.building import BackboneSettings
from nonneg.data.dataset import ArrayData, Data, permutation
from nonneg.data.sprites import N_SPRITES, SpriteArray, Sprites, sprite_factors
from nonneg.encoder import Encoder, EncoderSettings
from nonneg.factorization.identification import identification_score
from nonneg.metrics.figures import Figure
from nonneg.pairs.image_views import ImageViews
from nonneg.pairs.protocol import Batch, Draws
from nonneg.pairs.relations import LabelPairs
from nonneg.pairs.view_settings import recipe
from nonneg.runs.comparing import Difference, Spread, comparison_rows
from nonneg.training.contrastive import train
from nonneg.training.run_folder import RunFolder
from nonneg.training.settings import TrainConfig

RESULTS = Path(__file__).parents[1] / "results" / "studies" / "known-factors.jsonl"
PAGE = Path(__file__).parents[1] / "docs" / "history" / "known-factors.md"
PICTURE = PAGE.parents[1] / "images" / "known-factors.png"
RUNS = Path("runs/known-factors")

# Each shared factor: its column among the five, and into how many equal parts it is cut.
SHARED = {"shape": (0, 3), "scale": (1, 3), "posX": (3, 4), "posY": (4, 4)}
N_HELD_OUT = 4000
N_DCI = 3000  # a quarter of which its forests do not see
TEMPERATURE = 0.5
HIDDEN, NETWORK, VIEWS = "the same hidden", "whole network", "whole network, plain views"
EXPECTED = "what the theory expects"

Array = NDArray[Any]


@dataclass(frozen=True)
class Arm:
    """What makes features: CL or NCL, or a decomposition of the same hidden.

    Args:
        set_up: What learns, and from which pairs.
        method: CL or NCL; PCA, ICA or NMF of what they read; PCA or ICA of CL's features.
        loss: Of CL and NCL.
        n_features: How many there are.
    """

    set_up: str
    method: str
    loss: str = "spectral"
    n_features: int = 64

    @property
    def group(self) -> str:
        """What differs by the method only."""
        loss = "" if self.loss == "spectral" else ", InfoNCE"
        return f"{self.set_up}{loss}, {self.n_features} features"

    @property
    def title(self) -> str:
        """What its lines are called."""
        return f"{self.group}: {self.method}"


BOTH, OF_CL = ("CL", "NCL"), ("PCA of CL", "ICA of CL")
# The network whose hidden all others read comes first.
ARMS = (
    *(Arm(NETWORK, method) for method in BOTH),
    *(Arm(HIDDEN, method, n_features=16) for method in (*BOTH, "PCA", "ICA", "NMF", *OF_CL)),
    *(Arm(HIDDEN, method, n_features=64) for method in (*BOTH, "PCA", "ICA", "NMF")),
    *(Arm(HIDDEN, method, n_features=256) for method in BOTH),
    *(Arm(HIDDEN, method, "info_nce") for method in BOTH),
    *(Arm(VIEWS, method, "info_nce") for method in BOTH),
    Arm(EXPECTED, "indicators", n_features=14),
)
_DECOMPOSITIONS: dict[str, Callable[[int], Any]] = {
    "PCA": lambda n: PCA(n, random_state=0),
    "ICA": lambda n: FastICA(n, random_state=0, max_iter=400),
    "NMF": lambda n: NMF(n, random_state=0),
}


def upright_sprites() -> tuple[SpriteArray, SpriteArray]:
    """Sprites to train on and others to measure, of all 18,432 that are not turned."""
    numbers = torch.arange(N_SPRITES)
    numbers = numbers[sprite_factors(numbers)[:, 2] == 0]
    order = numbers[permutation(len(numbers), seed=0)]
    return Sprites(order[N_HELD_OUT:]).cached(), Sprites(order[:N_HELD_OUT]).cached()


def values(data: SpriteArray) -> Tensor:
    """The value of each shared factor, int64 ``(n, 4)``."""
    sizes = data.factor_sizes
    return torch.stack([data.factors[:, i] * n // sizes[i] for i, n in SHARED.values()], dim=1)


def indicators(table: Tensor) -> Array:
    """One column for each value of each factor, ``(n, 14)``: what the theory expects."""
    known = zip(SHARED.values(), table.numpy().T, strict=True)
    return np.concatenate([np.eye(n)[column] for (_, n), column in known], axis=1)


class Backbone(nn.Module):
    """Three convolutions of the image at half its size, and one layer; 256 numbers.

    That layer reads the last maps place by place, and of all three the mean and the maximum: what
    does not depend on the place is there from the start.
    """

    hidden_size = 256

    def __init__(self) -> None:
        super().__init__()
        self.convolutions = nn.ModuleList(
            nn.Sequential(
                nn.Conv2d(n_in, n_out, kernel, 2, kernel // 2, bias=False),
                nn.BatchNorm2d(n_out),
                nn.ReLU(),
            )
            for n_in, n_out, kernel in ((1, 16, 5), (16, 32, 3), (32, 64, 3))
        )
        n_read = 64 * 4 * 4 + 2 * (16 + 32 + 64)
        last = (nn.BatchNorm1d(n_read), nn.Linear(n_read, 256), nn.BatchNorm1d(256), nn.ReLU())
        self.last = nn.Sequential(*last)
        self.to(memory_format=torch.channels_last)

    def forward(self, images: Tensor) -> Tensor:
        """Hidden vectors ``(n, 256)`` of images ``(n, 1, 64, 64)``."""
        maps, pooled = nn.functional.avg_pool2d(images, 2), []
        for convolution in self.convolutions:
            maps = convolution(maps)
            pooled += [maps.mean((2, 3)), maps.amax((2, 3))]
        return self.last(torch.cat([maps.flatten(1), *pooled], dim=1))


class Study:
    """One seed: its data, and the hidden that the methods share.

    Args:
        seed: Of all runs.
    """

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.both = self.data, self.held_out = upright_sprites()
        self.table, self.shown = values(self.data), values(self.held_out)
        self._hidden: tuple[Tensor, ...] = ()

    def hidden(self) -> tuple[Tensor, ...]:
        """What the backbone of CL with the spectral loss gives for train and held-out sprites."""
        if not self._hidden:
            encoder = self._trained(ARMS[0], *self.both)
            self._hidden = tuple(encoder.encode(data).hidden for data in self.both)
        return self._hidden

    def features(self, arm: Arm) -> Array:
        """Features of the held-out sprites, ``(n, d)``; trains what is not trained yet."""
        if arm.set_up == EXPECTED:
            return indicators(self.shown)
        if arm.set_up != HIDDEN:
            return self._trained(arm, *self.both).encode(self.held_out).features.numpy()
        read = tuple(ArrayData(part) for part in self.hidden())
        if arm.method in BOTH:
            return self._trained(arm, *read).encode(read[1]).features.numpy()
        method, _, of_cl = arm.method.partition(" of ")
        if of_cl:
            encoder = self._trained(replace(arm, method="CL"), *read)
            read = tuple(ArrayData(encoder.encode(part).features) for part in read)
        fitted = _DECOMPOSITIONS[method](arm.n_features)
        with warnings.catch_warnings(action="ignore"):  # not converged: as good as it gets
            fitted.fit(read[0].inputs.numpy())
        return np.asarray(fitted.transform(read[1].inputs.numpy()))

    def _trained(self, arm: Arm, data: Data, held_out: Data) -> Encoder:
        reads_hidden = arm.set_up == HIDDEN
        settings = EncoderSettings(
            backbone=BackboneSettings(name="identity") if reads_hidden else None,
            frozen=reads_hidden,
            projector={"hidden": [], "n_features": arm.n_features},
            nonnegative="identity" if arm.method == "CL" else "relu",
        )
        torch.manual_seed(self.seed)
        backbone = None if reads_hidden else Backbone()
        encoder = Encoder(settings, data.sample_shape, backbone=backbone)
        config = TrainConfig(seed=self.seed).changed(
            loss=arm.loss, temperature=TEMPERATURE, lr=5e-3, epochs=20, batch_size=256
        )
        folder = folder_of(arm, self.seed)
        if RunFolder(folder).is_finished:
            return Encoder.load(folder, backbone=backbone)
        result = train(
            encoder,
            data,
            ImageViews(recipe("sprites")) if arm.set_up == VIEWS else LabelPairs(self.table),
            config,
            out=folder,
            held_out=held_out,
            resume=True,
            console=Console(quiet=True),
        )
        if result.interrupted_by is not None:
            raise KeyboardInterrupt
        return encoder

    def record(self, arm: Arm) -> dict[str, Any]:
        """The line of an arm."""
        began = time.process_time()
        found = figures(self.features(arm), self.shown)
        spent = round(time.process_time() - began, 1)
        return {"arm": arm.title, "seed": self.seed, **found, "core_seconds": spent}


def figures(Z: Array, table: Tensor) -> dict[str, float | int | None]:
    """All figures of features ``(n, d)`` of samples with these values of factors ``(n, k)``."""
    dci = metrics.dci(Z[:N_DCI], table[:N_DCI])
    sparsity = metrics.sparsity(Z)
    numbers = torch.arange(len(table))
    batch = Batch(numbers, numbers, Draws(0, 0, numbers), numbers.__getitem__)
    _, partners = LabelPairs(table)(batch)
    return {
        "dci_disentanglement": dci.value,
        "dci_completeness": dci.completeness,
        "dci_informativeness": dci.informativeness,
        "correlation": identification_score(Z, indicators(table)).correlation,
        "mig": metrics.mig(Z, table).value,
        "sap": metrics.sap(Z, table).value,
        "factor_vae": metrics.factor_vae_score(Z, table, random_state=0).value,
        "beta_vae": metrics.beta_vae_score(Z, table, random_state=0).value,
        "sepin_1": metrics.sepin(Z, Z[partners], temperature=TEMPERATURE).at[1],
        "sparsity_alive": sparsity.value_alive,
        "n_alive": sparsity.n_alive,
    }


def lines() -> list[Record]:
    """The records so far; of a repeated one the last."""
    return read(RESULTS, "arm", "seed")


def folder_of(arm: Arm, seed: int) -> Path:
    """Where a run is, or will be."""
    return RUNS / folder_name(arm.title, seed)


def main() -> None:
    """Train what is missing, or print what is there."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument(
        "--table", action="store_true", help="print what is there so far, also to the page"
    )
    parser.add_argument("--arm", action="append", help="only this one; may be repeated")
    parser.add_argument("--seeds", default="0,1,2")
    parser.add_argument("--picture", action="store_true", help="draw it into docs/images")
    options = parser.parse_args()
    if options.picture:
        draw(Study(0))
        return
    if options.table:
        PAGE.write_text(with_table(PAGE.read_text()))
        print(table())
        return
    torch.set_num_threads(1)
    chosen = [arm for arm in ARMS if not options.arm or arm.title in options.arm]
    if unknown := set(options.arm or ()) - {arm.title for arm in ARMS}:
        parser.error(f"no such arm: {', '.join(sorted(unknown))}")
    for seed in map(int, options.seeds.split(",")):
        study = Study(seed)
        for arm in chosen:
            if (arm.title, seed) not in {(line["arm"], line["seed"]) for line in lines()}:
                print(f"{time.strftime('%H:%M:%S')} {arm.title}, seed {seed}", flush=True)
                append(RESULTS, study.record(arm))


_SHOWN = {
    "dci_disentanglement": ("DCI", 3),
    "dci_completeness": ("completeness", 3),
    "dci_informativeness": ("informativeness", 3),
    "correlation": ("correlation with values", 3),
    "mig": ("MIG", 3),
    "sap": ("SAP", 3),
    "factor_vae": ("FactorVAE", 2),
    "beta_vae": ("BetaVAE", 2),
    "sepin_1": ("SEPIN@1", 4),
    "sparsity_alive": ("sparsity", 2),
    "n_alive": ("alive", 0),
}


def table() -> str:
    """All that was measured, mean ± standard deviation over seeds, as Markdown."""
    records = lines()
    rows = [["", "", "seeds", *(title for title, _ in _SHOWN.values())]]
    for group in dict.fromkeys(arm.group for arm in sorted(ARMS, key=lambda a: a.set_up)):
        found: dict[str, dict[int, dict[str, Figure]]] = {}
        for arm in (arm for arm in ARMS if arm.group == group):
            runs = {r["seed"]: r for r in records if r["arm"] == arm.title}
            if runs:
                found[arm.method] = {
                    seed: {key: Figure(r[key]) for key in _SHOWN} for seed, r in runs.items()
                }
        by_key = {row.name: row for row in comparison_rows(found)} if found else {}
        for method, seeds in found.items():
            cells = [
                _cell(by_key[key].spreads[method], by_key[key].differences.get(method), n_digits)
                for key, (_, n_digits) in _SHOWN.items()
            ]
            rows.append([group, method, str(len(seeds)), *cells])
    spent = sum(record["core_seconds"] for record in records) / 60
    return f"{as_markdown(rows)}\n\n{spent:.0f} core-minutes."


def _cell(spread: Spread | None, beside: Difference | None, n_digits: int) -> str:
    if spread is None:
        return "–"
    mark = " *" if beside is not None and beside.is_significant else ""
    std = "" if spread.std is None else f" ± {spread.std:.{n_digits}f}"
    return f"{spread.mean:.{n_digits}f}{std}{mark}"


def with_table(page: str) -> str:
    """The page of the study with the table as it now is, between its marks."""
    return between_marks(page, table())


def draw(study: Study) -> None:
    """How features of four methods correlate with the values, as a picture beside the page."""
    from matplotlib import pyplot as plt

    methods = ("CL", "PCA of CL", "PCA", "NCL")
    arms = {arm.method: arm for arm in ARMS if arm.group == f"{HIDDEN}, 16 features"}
    known = indicators(study.shown)
    names = [f"{name} {value + 1}" for name, (_, n) in SHARED.items() for value in range(n)]
    figure, axes = plt.subplots(1, len(methods), figsize=(10, 3.2), sharey=True)
    for axis, method in zip(axes, methods, strict=True):
        Z = study.features(arms[method])
        found = np.abs(np.corrcoef(Z.T, known.T)[: Z.shape[1], Z.shape[1] :])
        order = found.argmax(axis=1).argsort(kind="stable")
        axis.imshow(found[order].T, cmap="Greys", vmin=0, vmax=1, aspect="auto")
        axis.set(title=method, xlabel="feature", xticks=[], yticks=range(len(names)))
        for place in np.cumsum([n for _, n in SHARED.values()])[:-1]:
            axis.axhline(place - 0.5, color="tab:red", linewidth=0.8)
    axes[0].set_yticklabels(names, fontsize=8)
    figure.savefig(PICTURE, dpi=120, bbox_inches="tight")


if __name__ == "__main__":
    main()
