"""The card of a model: what it is, what it learnt from, and what was measured; nothing else."""

import json
import re
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

from nonneg.encoder import Encoder
from nonneg.evaluation.evaluation import Evaluation
from nonneg.metrics.figures import Figure, number_text, shown_kind
from nonneg.training.run_folder import HISTORY_FILE, RUN_FILE, read_history, read_record

CARD_FILE = "README.md"
IS_OURS = "<!-- Written by nonneg, which writes it anew as long as this line is here. -->"
_EVALUATION_FILE = "evaluation.json"
_TAGS = ("nonneg", "non-negative-contrastive-learning", "sparse-features", "interpretability")
# What a card shows of an evaluation, in this order, where it was measured.
_SHOWN = (
    "active_per_sample",
    "alive_rate",
    "sparsity",
    "top20_purity",
    "class_consistency",
    "monosemanticity",
    "beside_train_precision",
    "beside_train_nearest",
    "beside_top20_purity",
    "precision_features",
    "precision_hidden",
    "probe_features",
    "probe_hidden",
)


def model_card(
    model: Any,  # noqa: ANN401
    title: str,
    *,
    run: Path | None = None,
    license: str | None = None,
) -> str:
    """The card as Markdown, with the front matter that the hub reads.

    Args:
        model: An ``Encoder``, an ``NCL`` or a ``CrossNCL``.
        title: Its name: ``owner/name``, or that of a folder.
        run: The run folder of the model; what was measured there is said.
        license: As the hub names it.
    """
    parts = [
        _front_matter(license),
        f"# {_plain(title)}",
        _what_it_is(model),
        *_learnt_from(run),
        *_measured(run),
        *_in_training(model, run),
        _how_to_load(model, title),
    ]
    return "\n\n".join(parts) + "\n"


def model_digest(folder: str | Path) -> str:
    """See :func:`nonneg.runs.record.model_digest`, of a layer above: imported on call."""
    digest: str = import_module("nonneg.runs.record").model_digest(folder)
    return digest


def _front_matter(license: str | None) -> str:
    # JSON is YAML, and quotes whatever needs it.
    entries = {"library_name": "nonneg", "pipeline_tag": "feature-extraction", "tags": _TAGS}
    given = entries if license is None else {"license": license, **entries}
    lines = [f"{key}: {json.dumps(value)}" for key, value in given.items()]
    return "\n".join(["---", *lines, "---", IS_OURS])


def _what_it_is(model: Any) -> str:  # noqa: ANN401
    if isinstance(model, Encoder):
        encoders = [model]
    else:
        encoders = [getattr(model, name) for name in model._encoder_folders]
    first = encoders[0]
    what = "sparse, non-negative features" if first.is_nonnegative else "signed features"
    shapes = " and of ".join(_input(encoder.sample_shape) for encoder in encoders)
    sentences = [f"`{type(model).__name__}` of [nonneg]: {first.n_features:,} {what} of {shapes}."]
    if first.settings.max_active is not None:
        sentences.append(f"At most {first.settings.max_active} are on per sample.")
    if first.settings.threshold:
        sentences.append(f"Those below {first.settings.threshold:.3g} of a row's length are off.")
    names = [name for name in getattr(model, "feature_names_", []) or [] if name]
    if names:
        sentences.append(f"{len(names):,} of them have names, in `feature_names_`.")
    return " ".join(sentences).replace("[nonneg]", "**nonneg**")


def _input(shape: tuple[int, ...]) -> str:
    if len(shape) == 3:
        return f"images of {shape[0]} × {shape[1]} × {shape[2]}"
    return f"vectors of {' × '.join(map(str, shape))} numbers"


def _learnt_from(run: Path | None) -> Iterator[str]:
    if run is None or not (run / RUN_FILE).exists():
        return
    record = read_record(run)
    lines = list(_data_lines(record))
    if lines:
        yield "## Learnt from"
        yield "\n".join(f"- {line}" for line in lines)


def _data_lines(record: dict[str, Any]) -> Iterator[str]:
    """What a run learnt from, without the places where files lie on a machine."""
    settings = record["settings"]
    data = settings.get("data")
    if isinstance(settings.get("checkpoint"), dict):
        yield _named("checkpoint", settings["checkpoint"].get("name"), settings["checkpoint"])
    if not isinstance(data, dict):
        return
    texts, digests = data.get("texts"), data.get("digests") or {}
    if isinstance(texts, dict):
        yield _named("texts", texts.get("table"), texts)
        encoder = texts.get("encoder")
        if isinstance(encoder, dict):
            yield _named("embedded by", encoder.get("name"), encoder)
    if isinstance(data.get("vectors"), str):
        yield _named("vectors", data["vectors"], {"digest": digests.get("vectors")})
    if isinstance(data.get("name"), str):
        yield _named("data", data["name"], {"digest": record.get("data_digest")})


def _named(what: str, name: Any, facts: dict[str, Any]) -> str:  # noqa: ANN401
    return f"{what}: {_plain(Path(str(name)).name)}{_digest_words(facts)}"


def _measured(run: Path | None) -> Iterator[str]:
    if run is None or not (run / _EVALUATION_FILE).exists():
        return
    evaluation = Evaluation.read(run / _EVALUATION_FILE)
    if evaluation.model != model_digest(run):
        raise ValueError(
            f"{run / _EVALUATION_FILE} is of other features than the run has now; run nonneg "
            f"evaluate {run} again"
        )
    figures = evaluation.figures()
    rows = [_row(key, figures[key]) for key in _SHOWN if key in figures and _is_there(figures[key])]
    if not rows:
        return
    test = evaluation.data.get("test", {"name": "unknown", "n_samples": 0})
    yield "## Measured"
    yield (
        f"By `nonneg evaluate`, on {test['n_samples']:,} test samples of {_plain(test['name'])}"
        f"{_digest_words(test)}."
    )
    yield "\n".join(["| figure | value | beside it |", "|---|---|---|", *rows])
    yield from (
        _plain(section.sentence) for section in evaluation.sections.values() if section.sentence
    )


def _digest_words(facts: dict[str, Any]) -> str:
    digest = str(facts.get("digest"))
    return f", SHA-256 `{digest}`" if re.fullmatch("[0-9a-f]{64}", digest) else ""


def _is_there(figure: Figure) -> bool:
    return figure.value is not None


def _row(key: str, figure: Figure) -> str:
    kind = shown_kind(key, k=figure.beside.get("k"))
    return f"| {kind.label} | {figure.text()} | {_plain(figure.beside_text())} |"


def _in_training(model: Any, run: Path | None) -> Iterator[str]:  # noqa: ANN401
    """What the last record of the training says."""
    history = getattr(model, "history_", [])
    if run is not None and (run / HISTORY_FILE).exists():
        history = read_history(run)
    lines = []
    last = history[-1] if history else {}
    if isinstance(last.get("loss"), int | float):
        lines.append(f"- last loss: {number_text(float(last['loss']))}")
    if isinstance(last.get("step"), int):
        lines.append(f"- steps: {last['step']:,}")
    if hasattr(model, "n_alive_"):
        lines.append(
            f"- features on for some training sample: {model.n_alive_:,} of "
            f"{model.n_alive_ + model.n_dead_:,}"
        )
    if lines:
        yield "## In training"
        yield "\n".join(lines)


def _how_to_load(model: Any, title: str) -> str:  # noqa: ANN401
    name = type(model).__name__
    place = json.dumps(title)
    use = {
        "Encoder": "features = model.encode(samples).features",
        "NCL": "Z = model.transform(X)",
        "CrossNCL": "Z_x, Z_y = model.transform(X, y)",
    }.get(name, "")
    is_own = isinstance(model, Encoder) and model.settings.backbone is None
    more = ", backbone=module" if is_own else ""
    code = f"import nonneg\n\nmodel = nonneg.{name}.from_pretrained({place}{more})\n{use}"
    return f"## Load\n\n```python\n{code}\n```"


def _plain(text: str) -> str:
    """A name from elsewhere as plain text of one line, whatever is in it."""
    line = "".join(sign for sign in " ".join(text.split()) if sign.isprintable())
    return re.sub(r"([\\`*_\[\]|#])", r"\\\1", line).replace("<", "&lt;")
