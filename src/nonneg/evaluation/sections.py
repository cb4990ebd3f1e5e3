"""What is measured of an encoder? A table of sections, each a function of the subject."""

from collections.abc import Callable

import torch
from torch import Tensor

from nonneg import metrics
from nonneg.data.dataset import Data
from nonneg.evaluation.few_labels import few_label_probe
from nonneg.evaluation.figure import Beside, Figure, Figures
from nonneg.evaluation.fine_tuning import fine_tune
from nonneg.evaluation.neighbours import knn_probe
from nonneg.evaluation.probe.linear import fitted_probe
from nonneg.evaluation.readability import hierarchy, properties
from nonneg.evaluation.robustness import robustness
from nonneg.evaluation.selection import selection_table
from nonneg.evaluation.subject import (
    NotMeasurableError,
    Subject,
    features_of_views,
    some,
    some_data,
)

Watch = Callable[[str], None]
Section = Callable[[Subject, Watch], Figures]


def probe(subject: Subject, watch: Watch) -> Figures:
    """Linear probes on the hidden layer and on the features."""
    figures: Figures = {}
    for layer in subject.settings.probed:
        watch(f"on {layer}")
        seen, new = (getattr(known.encoded, layer) for known in (subject.seen, subject.new))
        fitted = fitted_probe(seen, subject.seen.labels, seed=subject.settings.seed)
        figures[f"probe_{layer}"] = Figure(
            fitted.accuracy(new, subject.new.labels),
            higher_is_better=True,
            is_rate=True,
            beside={
                "strength": fitted.strength,
                "n_train": fitted.n_train,
                "solved": "to convergence" if fitted.converged else "as far as steps allow",
            },
        )
    return figures


def classification(subject: Subject, watch: Watch) -> Figures:
    """The accuracy of a classifier that was trained with labels."""
    if subject.classifier is None:
        raise NotMeasurableError("it was not trained with labels; the probe section measures it")
    test = subject.test
    if test.labels is None:
        raise NotMeasurableError(f"{test.name} has no labels")
    parts = torch.arange(len(test)).split(4096)
    predicted = torch.cat([subject.classifier.predict(test.fetch(part)) for part in parts])
    accuracy = float((predicted == test.labels).double().mean())
    return {
        "classifier": Figure(
            accuracy, higher_is_better=True, is_rate=True, beside={"n_samples": len(test)}
        )
    }


def few_labels(subject: Subject, watch: Watch) -> Figures:
    """Linear probes on the hidden layer with few labels."""
    figures: Figures = {}
    for rate in subject.settings.label_rates:
        watch(f"{rate:g} of the labels")
        result = few_label_probe(
            subject.seen.encoded.hidden,
            subject.seen.labels,
            subject.new.encoded.hidden,
            subject.new.labels,
            label_rate=rate,
            n_draws=subject.settings.n_draws,
            seed=subject.settings.seed,
        )
        figures[f"probe_hidden_{100 * rate:g}_percent"] = Figure(
            result.value,
            higher_is_better=True,
            is_rate=True,
            beside={"std": result.std, "n_draws": result.n_draws, "n_train": result.n_labels},
        )
    return figures


def neighbours(subject: Subject, watch: Watch) -> Figures:
    """The k-NN classifier, and retrieval among the test samples."""
    settings = subject.settings
    new, labels = subject.new.encoded, subject.new.labels
    figures: Figures = {}
    for layer in ("features", "hidden"):
        watch(f"on {layer}")
        queries = getattr(new, layer)
        k = min(settings.n_voters, len(subject.seen.labels))
        gallery = getattr(subject.seen.encoded, layer)
        voted = knn_probe(gallery, subject.seen.labels, queries, labels, k=k)
        figures[f"knn_{layer}"] = Figure(
            voted.value,
            higher_is_better=True,
            is_rate=True,
            beside={"k": k, "n_zero_rows": voted.n_zero_test},
        )
        both = metrics.precision_and_map_at_k(queries, labels, subject.k)
        for name, found in zip(("precision", "map"), both, strict=True):
            beside: dict[str, float | None] = {"k": found.k, "n_zero_rows": found.n_zero_rows}
            if name == "precision":
                beside["most"] = _most_precise(labels, found.k)
            figures[f"{name}_{layer}"] = Figure(
                found.value, higher_is_better=True, is_rate=True, beside=beside
            )
    return figures


def _most_precise(labels: Tensor, k: int) -> float | None:
    """What precision@k can reach where classes have fewer than k others; None where that is 1."""
    _, classes, counts = labels.unique(return_inverse=True, return_counts=True)
    n_others = counts[classes] - 1
    most = float((n_others.clamp(max=k) / k).mean(dtype=torch.float64))
    return most if most < 1 else None


def sepin(subject: Subject, watch: Watch) -> Figures:
    """How much information sits in single features: SEPIN@k over two views of test samples."""
    if subject.pairs is None or subject.temperature is None:
        raise NotMeasurableError("SEPIN needs the views and the temperature of an InfoNCE run")
    samples = some_data(subject.test, subject.settings.sepin_samples, seed=subject.settings.seed)
    z_a, z_b = features_of_views(
        subject.encoder, subject.pairs, samples, seed=subject.settings.seed
    )
    found = metrics.sepin(z_a, z_b, temperature=subject.temperature)
    beside: Beside = {
        "n_pairs": len(samples),
        "temperature": subject.temperature,
        "unit": "nats",
    }
    return {
        f"sepin_{k}": Figure(value, higher_is_better=True, beside=beside)
        for k, value in found.at.items()
    } | {"info_nce": Figure(found.info_nce, higher_is_better=False, beside=beside)}


def selection(subject: Subject, watch: Watch) -> Figures:
    """Probe, retrieval and transfer with some of the features."""
    settings = subject.settings
    elsewhere = None
    if subject.elsewhere is not None:
        elsewhere = (
            some(subject.seen_elsewhere, settings.selection_samples, seed=settings.seed),
            subject.new_elsewhere,
        )
    rows = selection_table(
        some(subject.seen, settings.selection_samples, seed=settings.seed),
        subject.new,
        sizes=settings.selection,
        k=subject.k,
        n_draws=settings.n_draws,
        seed=settings.seed,
        elsewhere=elsewhere,
        watch=watch,
    )
    figures: Figures = {}
    for row in rows:
        kept = "all" if row.ranking == "all" else f"{row.size:g}_{row.ranking}"
        for task in ("probe", "retrieval", "transfer"):
            value, std = getattr(row, task), getattr(row, f"{task}_std")
            if value is not None:
                figures[f"selection_{task}_{kept}"] = Figure(
                    value,
                    higher_is_better=True,
                    is_rate=True,
                    beside={"n_features": row.n_features}
                    | ({"std": std} if row.ranking == "random" else {}),
                )
    return figures


def transfer(subject: Subject, watch: Watch) -> Figures:
    """Linear probes on another set."""
    if subject.elsewhere is None:
        raise NotMeasurableError("there is no other set to transfer to; name one")
    seen, new = subject.seen_elsewhere, subject.new_elsewhere
    note = other_size(subject.elsewhere[1], subject.encoder.sample_shape)
    beside: Beside = {} if note is None else {"note": note}
    figures: Figures = {}
    for layer in subject.settings.probed:
        watch(f"{subject.elsewhere[0].name}, {layer}")
        fitted = fitted_probe(getattr(seen.encoded, layer), seen.labels, seed=subject.settings.seed)
        figures[f"transfer_{layer}"] = Figure(
            fitted.accuracy(getattr(new.encoded, layer), new.labels),
            higher_is_better=True,
            is_rate=True,
            beside={"to": subject.elsewhere[0].name, "n_train": fitted.n_train, **beside},
        )
    return figures


def other_size(samples: Data, trained_on: tuple[int, ...]) -> str | None:
    """A sentence for images of another size than those of training, which an encoder reads too.

    Args:
        samples: What is encoded.
        trained_on: The shape of the encoder's samples.
    """
    shape = samples.sample_shape
    if len(shape) != 3 or shape[1:] == tuple(trained_on[1:]):
        return None
    here, there = (f"{size[-2]} × {size[-1]}" for size in (shape, trained_on))
    return f"the images of {samples.name} have {here} pixels, those of training had {there}"


def corruption(subject: Subject, watch: Watch) -> Figures:
    """The clean probe on corrupted, sketched and stylised images."""
    if len(subject.test.sample_shape) != 3:
        raise NotMeasurableError(f"{subject.test.name} holds vectors; only images are corrupted")
    settings = subject.settings
    found = robustness(
        subject.encoder,
        fitted_probe(subject.seen.encoded.hidden, subject.seen.labels, seed=settings.seed),
        some_data(subject.test, settings.robustness_samples, seed=settings.seed),
        severities=settings.severities,
        seed=settings.seed,
        watch=watch,
    )
    beside = {"clean": found.clean, "n_samples": found.n_samples}
    values = {"corruption": found.corruption, **found.drawn, **found.by_corruption}
    return {
        f"robust_{name}": Figure(
            value,
            higher_is_better=True,
            is_rate=True,
            beside=beside | {f"severity {k}": v for k, v in found.corrupted.get(name, {}).items()},
        )
        for name, value in values.items()
    }


def factors(subject: Subject, watch: Watch) -> Figures:
    """Known factors of variation, where the data has them."""
    table = getattr(subject.test, "factors", None)
    if table is None:
        raise NotMeasurableError(f"the factors behind {subject.test.name} are not known")
    z, seed = subject.new.encoded.features, subject.settings.seed
    watch("DCI")
    found = metrics.dci(z, table, random_state=seed)
    figures = {
        "dci_disentanglement": Figure(found.value, higher_is_better=True),
        "dci_completeness": Figure(found.completeness, higher_is_better=True),
        "dci_informativeness": Figure(found.informativeness, higher_is_better=True),
    }
    watch("MIG, SAP and votes")
    figures["mig"] = Figure(metrics.mig(z, table).value, higher_is_better=True)
    figures["sap"] = Figure(metrics.sap(z, table).value, higher_is_better=True)
    for name, score in (
        ("factor_vae", metrics.factor_vae_score),
        ("beta_vae", metrics.beta_vae_score),
    ):
        vote = score(z, table, random_state=seed)
        figures[name] = Figure(vote.value, higher_is_better=True, beside={"null": vote.null})
    return figures


def fine_tuning(subject: Subject, watch: Watch) -> Figures:
    """The whole network trained on with labels."""
    if subject.folder is None:
        raise NotMeasurableError("fine-tuning keeps its run in a folder; give one")
    settings = subject.settings
    watch(f"{settings.fine_tune.epochs} epochs")
    tuned = fine_tune(
        subject.encoder,
        subject.train,
        subject.test,
        out=subject.folder,
        view=subject.view,
        settings=settings.fine_tune,
        seed=settings.seed,
    )
    beside = {"epochs": settings.fine_tune.epochs, "n_train": tuned.n_train}
    return {"fine_tune": Figure(tuned.value, higher_is_better=True, is_rate=True, beside=beside)}


SECTIONS: dict[str, Section] = {
    "properties": properties,
    "hierarchy": hierarchy,
    "classification": classification,
    "probe": probe,
    "few_labels": few_labels,
    "neighbours": neighbours,
    "sepin": sepin,
    "selection": selection,
    "transfer": transfer,
    "robustness": corruption,
    "factors": factors,
    "fine_tune": fine_tuning,
}
