"""All benchmarks in one run: prints ratios and writes them to ``benchmarks/results.md``.

make bench
"""

import platform
from datetime import date
from pathlib import Path

import torch

from benchmarks import metrics, training, views

RESULTS = Path(__file__).with_name("results.md")


def main() -> None:
    """Measure everything and write the results file."""
    text = "\n\n".join([_head(), _views(), _training(), _metrics()]) + "\n"
    RESULTS.write_text(text)
    print(text)


def _head() -> str:
    return (
        "# Benchmarks\n\n"
        "Ratios were measured in one run, interleaved; absolute figures depend on the machine.\n\n"
        f"Machine: {platform.machine()}, {torch.get_num_threads()} threads, "
        f"PyTorch {torch.__version__}, {date.today().isoformat()}. Made by `make bench`."
    )


def _views() -> str:
    measured = views.measure()
    table = _table(
        ["two SimCLR views of 32×32 images", "images/s", "µs a view"],
        [
            [name, f"{speed:,.0f}", f"{measured['microseconds_per_view'][name]:.1f}"]
            for name, speed in measured["images_per_second"].items()
        ],
    )
    kornia = measured["times_kornia"]
    ratio = "kornia is not installed" if kornia is None else f"{kornia:.1f} × kornia"
    return f"## Views\n\n{table}\n\n{ratio}, {measured['times_pillow']:.1f} × a loop over Pillow."


def _training() -> str:
    heads = ["preset", "images/s, whole loop", "images/s, bare steps", "loop : bare"]
    table = _table([*heads, "step time NCL : CL"], training.rows(training.measure()))
    return f"## Training\n\n{table}"


def _metrics() -> str:
    parts = ["## Metrics", f"{metrics.N_SAMPLES:,} × {metrics.N_FEATURES:,} features."]
    for name, ratios in metrics.measure().items():
        heads = [name, metrics.MEANINGS[name]]
        parts.append(_table(heads, [[case, f"{ratio:.2f}"] for case, ratio in ratios.items()]))
    return "\n\n".join(parts)


def _table(heads: list[str], rows: list[list[str]]) -> str:
    lines = [heads, ["---"] * len(heads), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


if __name__ == "__main__":
    main()
