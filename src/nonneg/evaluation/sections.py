"""The sections of an evaluation: each a function of the subject that gives its figures."""

from collections.abc import Callable
from dataclasses import replace

import torch
from torch import Tensor

from nonneg import metrics
from nonneg.data.dataset import Data, permutation, subset
from nonneg.evaluation.beside_dense import beside_dense, gain_and_loss
from nonneg.evaluation.few_labels import few_label_probe
from nonneg.evaluation.fine_tuning import fine_tune
from nonneg.evaluation.neighbours import knn_probe
from nonneg.evaluation.probe.linear import fitted_probe
from nonneg.evaluation.readability import hierarchy, properties, raw_inputs
from nonneg.evaluation.robustness import robustness
from nonneg.evaluation.selection import selection_table
from nonneg.evaluation.subject import (
    NotMeasurableError,
    Subject,
    features_of_views,
    has_classes,
    some,
    some_data,
)
from nonneg.metrics.figures import SEVERITY, Figure, Figures, figure_kind

Watch = Callable[[str], None]
Section = Callable[[Subject, Watch], Figures]

# Training vectors are searched in memory: of wide ones so many that they have this many entries.
_MOST_ENTRIES = 1 << 27


def probe(subject: Subject, watch: Watch) -> Figures:
    """Linear probes on the hidden layer and on the features."""
    figures: Figures = {}
    for layer in subject.settings.probed:
        watch(f"on {layer}")
        train, test = subject.known_train, subject.known_test
        fitted = fitted_probe(
            getattr(train.encoded, layer), train.labels, seed=subject.settings.seed
        )
        figures[f"probe_{layer}"] = Figure.of(
            f"probe_{layer}",
            fitted.accuracy(getattr(test.encoded, layer), test.labels),
            penalty=fitted.penalty,
            n_train=fitted.n_train,
            solved="to convergence" if fitted.converged else "as far as steps allow",
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
    return {"classifier": Figure.of("classifier", accuracy, n_samples=len(test))}


def few_labels(subject: Subject, watch: Watch) -> Figures:
    """Linear probes on the hidden layer with few labels."""
    figures: Figures = {}
    for rate in subject.settings.label_rates:
        watch(f"{rate:g} of the labels")
        result = few_label_probe(
            subject.known_train.encoded.hidden,
            subject.known_train.labels,
            subject.known_test.encoded.hidden,
            subject.known_test.labels,
            label_rate=rate,
            n_draws=subject.settings.n_draws,
            seed=subject.settings.seed,
        )
        key = f"probe_hidden_{100 * rate:g}_percent"
        figures[key] = Figure.of(
            key, result.value, std=result.std, n_draws=result.n_draws, n_train=result.n_labels
        )
    return figures


def neighbours(subject: Subject, watch: Watch) -> Figures:
    """The k-NN classifier, and retrieval among the test samples."""
    settings, train = subject.settings, subject.known_train
    test, labels = subject.known_test.encoded, subject.known_test.labels
    figures: Figures = {}
    for layer in ("features", "hidden"):
        watch(f"on {layer}")
        queries = getattr(test, layer)
        k = min(settings.n_voters, len(train.labels))
        voted = knn_probe(getattr(train.encoded, layer), train.labels, queries, labels, k=k)
        figures[f"knn_{layer}"] = Figure.of(
            f"knn_{layer}", voted.value, k=k, n_zero_rows=voted.n_zero_test
        )
        precision, average = metrics.precision_and_map_at_k(queries, labels, subject.k)
        figures[f"precision_{layer}"] = precision_figure(f"precision_{layer}", precision, labels)
        figures[f"map_{layer}"] = Figure.of(
            f"map_{layer}", average.value, k=average.k, n_zero_rows=average.n_zero_rows
        )
    return figures


def precision_figure(key: str, found: metrics.Retrieval, labels: Tensor) -> Figure:
    """Precision@k with what it can reach at most.

    Args:
        key: Of the figure.
        found: The measurement.
        labels: Of the samples it was measured on, int64 ``(n,)``.
    """
    most = _most_precise(labels, found.k)
    return Figure.of(key, found.value, k=found.k, n_zero_rows=found.n_zero_rows, most=most)


def _most_precise(labels: Tensor, k: int) -> float | None:
    """What precision@k can reach where classes have fewer than k others; None where that is 1."""
    _, classes, counts = labels.unique(return_inverse=True, return_counts=True)
    n_others = counts[classes] - 1
    most = float((n_others.clamp(max=k) / k).mean(dtype=torch.float64))
    return most if most < 1 else None


def beside_vectors(subject: Subject, watch: Watch) -> Figures:
    """The features of the test vectors beside the vectors themselves and a PCA.

    Without labels on both sides, or with one class only, figures of classes have no value, and say
    why.
    """
    train, test, settings = subject.train_part, subject.test, subject.settings
    if len(test.sample_shape) != 1:
        raise NotMeasurableError(f"{test.name} holds images; only vectors are compared")
    if min(len(train), len(test)) < 2:
        raise NotMeasurableError("it takes at least 2 training samples and 2 test samples")
    unlabelled = [data.name for data in (train, test) if data.labels is None]
    because = f"{unlabelled[0]} has no labels" if unlabelled else ""
    if not because and not has_classes(train):
        because = f"{train.name} has one class only"
    watch("reading vectors")
    n_most = max(settings.k, _MOST_ENTRIES // train.sample_shape[0], 2)
    rows = permutation(len(train), seed=settings.seed)[:n_most].sort().values
    searched = subset(train, rows)
    watch("search")
    found = beside_dense(
        raw_inputs(searched)[0],
        subject.encoded_train.features[rows],
        raw_inputs(test)[0],
        subject.encoded_test.features,
        *((None, None) if because else (searched.labels, test.labels)),
        k=min(settings.k, len(searched), len(test) - 1),
        m=settings.top,
        random_state=settings.seed,
    )
    return replace(found, because=because).figures()


def sepin(subject: Subject, watch: Watch) -> Figures:
    """How much information sits in single features: SEPIN@k over two views of test samples."""
    if subject.pairs is None or subject.temperature is None:
        raise NotMeasurableError("SEPIN needs the views and the temperature of an InfoNCE run")
    samples = some_data(subject.test, subject.settings.sepin_samples, seed=subject.settings.seed)
    z_a, z_b = features_of_views(
        subject.encoder, subject.pairs, samples, seed=subject.settings.seed
    )
    found = metrics.sepin(z_a, z_b, temperature=subject.temperature)
    values = {**{f"sepin_{k}": value for k, value in found.at.items()}, "info_nce": found.info_nce}
    return {
        key: Figure.of(
            key,
            value,
            n_pairs=len(samples),
            temperature=subject.temperature,
            unit=figure_kind(key).unit,
        )
        for key, value in values.items()
    }


def selection(subject: Subject, watch: Watch) -> Figures:
    """Probe, retrieval and transfer with some of the features."""
    settings = subject.settings
    transfer = None
    if subject.transfer is not None:
        transfer = (
            some(subject.transfer_train, settings.selection_samples, seed=settings.seed),
            subject.transfer_test,
        )
    rows = selection_table(
        some(subject.known_train, settings.selection_samples, seed=settings.seed),
        subject.known_test,
        sizes=settings.selection,
        k=subject.k,
        n_draws=settings.n_draws,
        seed=settings.seed,
        transfer=transfer,
        watch=watch,
    )
    figures: Figures = {}
    for row in rows:
        kept = "all" if row.ranking == "all" else f"{row.size:g}_{row.ranking}"
        for task in ("probe", "retrieval", "transfer"):
            value, std = getattr(row, task), getattr(row, f"{task}_std")
            if value is not None:
                key, spread = f"selection_{task}_{kept}", {"std": std}
                figures[key] = Figure.of(
                    key,
                    value,
                    n_features=row.n_features,
                    **(spread if row.ranking == "random" else {}),
                )
    return figures


def transfer(subject: Subject, watch: Watch) -> Figures:
    """Linear probes on another set."""
    if subject.transfer is None:
        raise NotMeasurableError("there is no other set to transfer to; name one")
    train, test = subject.transfer_train, subject.transfer_test
    name = subject.transfer[0].name
    note = other_size(subject.transfer[1], subject.encoder.sample_shape)
    figures: Figures = {}
    for layer in subject.settings.probed:
        watch(f"{name}, {layer}")
        fitted = fitted_probe(
            getattr(train.encoded, layer), train.labels, seed=subject.settings.seed
        )
        figures[f"transfer_{layer}"] = Figure.of(
            f"transfer_{layer}",
            fitted.accuracy(getattr(test.encoded, layer), test.labels),
            to=name,
            n_train=fitted.n_train,
            **({} if note is None else {"note": note}),
        )
    return figures


def other_size(samples: Data, trained_on: tuple[int, ...]) -> str | None:
    """A note on images of another size than in training, which an encoder can read too.

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
        raise NotMeasurableError(f"{subject.test.name} holds no images; only images are corrupted")
    settings = subject.settings
    found = robustness(
        subject.encoder,
        fitted_probe(
            subject.known_train.encoded.hidden, subject.known_train.labels, seed=settings.seed
        ),
        some_data(subject.test, settings.robustness_samples, seed=settings.seed),
        severities=settings.severities,
        seed=settings.seed,
        watch=watch,
    )
    values = {"corruption": found.corruption, **found.drawn, **found.by_corruption}
    return {
        f"robust_{name}": Figure.of(
            f"robust_{name}",
            value,
            clean=found.clean,
            n_samples=found.n_samples,
            **{f"{SEVERITY}{k}": v for k, v in found.corrupted.get(name, {}).items()},
        )
        for name, value in values.items()
    }


def factors(subject: Subject, watch: Watch) -> Figures:
    """Known factors of variation, where the data has them."""
    table = getattr(subject.test, "factors", None)
    if table is None:
        raise NotMeasurableError(f"the factors behind {subject.test.name} are not known")
    z, seed = subject.encoded_test.features, subject.settings.seed
    watch("DCI")
    found = metrics.dci(z, table, random_state=seed)
    values = {
        "dci_disentanglement": found.value,
        "dci_completeness": found.completeness,
        "dci_informativeness": found.informativeness,
    }
    watch("MIG, SAP and votes")
    values |= {"mig": metrics.mig(z, table).value, "sap": metrics.sap(z, table).value}
    figures = {key: Figure.of(key, value) for key, value in values.items()}
    votes = {"factor_vae": metrics.factor_vae_score, "beta_vae": metrics.beta_vae_score}
    for key, score in votes.items():
        vote = score(z, table, random_state=seed)
        figures[key] = Figure.of(key, vote.value, null=vote.null)
    return figures


def fine_tuning(subject: Subject, watch: Watch) -> Figures:
    """The whole network, fine-tuned with labels."""
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
    epochs = settings.fine_tune.epochs
    found = Figure.of("fine_tune", tuned.value, epochs=epochs, n_train=tuned.n_train)
    return {"fine_tune": found}


SECTIONS: dict[str, Section] = {
    "properties": properties,
    "hierarchy": hierarchy,
    "classification": classification,
    "probe": probe,
    "few_labels": few_labels,
    "neighbours": neighbours,
    "beside_dense": beside_vectors,
    "sepin": sepin,
    "selection": selection,
    "transfer": transfer,
    "robustness": corruption,
    "factors": factors,
    "fine_tune": fine_tuning,
}
# What a section says in one sentence, from its figures.
SENTENCES: dict[str, Callable[[Figures], str]] = {"beside_dense": gain_and_loss}
