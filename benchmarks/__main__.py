"""All benchmarks: prints ratios and writes them, section by section, to ``benchmarks/results.md``.

make bench
python -m benchmarks losses probe     # some of them; the other sections of the file stay
"""

import platform
import re
import sys
from collections.abc import Callable
from datetime import date
from pathlib import Path

import torch

from benchmarks import (
    embedding_speed,
    embeddings,
    losses,
    metrics,
    modalities,
    probe,
    processes,
    retrieval,
    search,
    topics,
    training,
    views,
)

RESULTS = Path(__file__).with_name("results.md")
HEAD = (
    "# Benchmarks\n\n"
    "Ratios within a table were measured in one run, interleaved; absolute figures depend on the "
    "machine.\nMade by `make bench`; embeddings, search, retrieval, modalities and topics want "
    "`NONNEG_EMBEDDINGS=folder`, which `python -m benchmarks.embedding_vectors` fills, and CSR the "
    'extra `pip install ".[peers]"`, topics `".[topics]"`.'
)


def main() -> None:
    """Measure the named sections, or all, and write each as soon as it is there."""
    names = sys.argv[1:] or list(SECTIONS)
    unknown = [name for name in names if name not in SECTIONS]
    if unknown:
        sys.exit(f"unknown benchmark {unknown[0]!r}; known: {', '.join(SECTIONS)}")
    for name in names:
        body = f"{_machine()}\n\n{SECTIONS[name]()}"
        print(f"## {name}\n\n{body}\n")
        _replace(name, body)


def _replace(name: str, body: str) -> None:
    """Put a section into the results file, and leave the others as they are."""
    text = RESULTS.read_text() if RESULTS.exists() else ""
    found = dict(re.findall(r"^## (\w+)\n\n(.*?)(?=\n+^## |\Z)", text, flags=re.M | re.S))
    found[name] = body
    parts = [f"## {key}\n\n{found[key].strip()}" for key in SECTIONS if key in found]
    RESULTS.write_text("\n\n".join([HEAD, *parts]) + "\n")


def _machine() -> str:
    return (
        f"{platform.machine()}, {torch.get_num_threads()} threads, PyTorch {torch.__version__}, "
        f"{date.today().isoformat()}."
    )


def _views() -> str:
    measured = views.measure()
    table = _table(
        ["two SimCLR views of 32×32 images", "images/s", "µs per view"],
        [
            [name, f"{speed:,.0f}", f"{measured['microseconds_per_view'][name]:.1f}"]
            for name, speed in measured["images_per_second"].items()
        ],
    )
    kornia = measured["times_kornia"]
    ratio = "kornia is not installed" if kornia is None else f"{kornia:.1f} × kornia"
    return f"{table}\n\n{ratio}, {measured['times_pillow']:.1f} × a loop over Pillow."


def _training() -> str:
    heads = ["preset", "images/s, whole loop", "images/s, bare steps", "loop : bare"]
    return _table([*heads, "step time NCL : CL"], training.rows(training.measure()))


def _metrics() -> str:
    parts = [f"{metrics.N_SAMPLES:,} × {metrics.N_FEATURES:,} features."]
    for name, ratios in metrics.measure().items():
        heads = [name, metrics.MEANINGS[name]]
        parts.append(_table(heads, [[case, f"{ratio:.2f}"] for case, ratio in ratios.items()]))
    return "\n\n".join(parts)


def _probe() -> str:
    heads = [f"{probe.N_SAMPLES:,} samples", "seconds", *probe.MEANINGS.values()]
    return _table(
        heads,
        [
            [case, f"{ratios['seconds']:.1f}", *(f"{ratios[key]:.1f}" for key in probe.MEANINGS)]
            for case, ratios in probe.measure().items()
        ],
    )


def _losses() -> str:
    parts = ["InfoNCE forward and backward, float32, 256 features."]
    for name, figures in losses.measure().items():
        parts.append(_table([name, ""], [[key, f"{v:,.2f}"] for key, v in figures.items()]))
    parts.append("![cost against the number of rows](../docs/images/info-nce-cost.png)")
    return "\n\n".join(parts)


def _processes() -> str:
    rows = [[name, f"{value:,.2f}"] for name, value in processes.measure().items()]
    return _table(["training on two cores, images/s", ""], rows)


SECTIONS: dict[str, Callable[[], str]] = {
    "views": _views,
    "training": _training,
    "losses": _losses,
    "processes": _processes,
    "metrics": _metrics,
    "probe": _probe,
    "embeddings": embeddings.section,
    "embedding_speed": embedding_speed.section,
    "search": search.section,
    "retrieval": retrieval.section,
    "modalities": modalities.section,
    "topics": topics.section,
}


def _table(heads: list[str], rows: list[list[str]]) -> str:
    lines = [heads, ["---"] * len(heads), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


if __name__ == "__main__":
    main()
