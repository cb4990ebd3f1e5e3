"""Every section measures without touching the model, and says why where it does not apply."""

from dataclasses import dataclass, replace

import pytest
import torch
from torch import Tensor

import nonneg.evaluation.subject
from nonneg import Encoder, EncoderSettings
from nonneg.backbones import BackboneSettings
from nonneg.data import ArrayData
from nonneg.data.dataset import permutation, subset
from nonneg.evaluation import (
    SECTIONS,
    Evaluation,
    EvaluationSettings,
    FineTuneSettings,
    NotMeasurableError,
    Subject,
    beside_dense,
    chosen_sections,
    evaluate,
)
from nonneg.evaluation.subject import features_of_views
from nonneg.head.projector import ProjectorSettings
from nonneg.pairs import ImageViews, recipe
from nonneg.training import Classifier

SETTINGS = EvaluationSettings(
    top=5,
    n_permutations=2,
    n_bootstrap=2,
    label_rates=(0.2,),
    n_draws=2,
    selection=(0.5, 3),
    severities=(1, 5),
    fine_tune=FineTuneSettings(epochs=1, batch_size=32, warmup_epochs=0),
)


@dataclass(frozen=True, kw_only=True)
class Bars(ArrayData):
    """Images of a bar with a known place and brightness, and a coarse label."""

    factors: Tensor
    coarse_labels: Tensor


def bars(n=120, seed=0):
    generator = torch.Generator().manual_seed(seed)
    place = torch.randint(4, (n,), generator=generator)
    level = torch.randint(3, (n,), generator=generator)
    images = torch.randint(0, 30, (n, 1, 12, 12), generator=generator)
    for image, column, bright in zip(images, place, level, strict=True):
        image[0, :, 3 * column : 3 * column + 2] += 80 + 60 * bright
    return Bars(
        inputs=images.byte(),
        labels=place,
        name="bars",
        factors=torch.stack([place, level], dim=1),
        coarse_labels=place // 2,
    )


def encoder(kind="relu"):
    settings = EncoderSettings(
        backbone=BackboneSettings(name="resnet10", width=4),
        projector=ProjectorSettings(hidden=(16,), n_features=12),
        nonnegative=kind,
    )
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        return Encoder(settings, (1, 12, 12))


@pytest.fixture
def subject(tmp_path):
    views = ImageViews(recipe("digits"))
    return Subject(
        encoder(),
        bars(),
        bars(seed=1),
        SETTINGS,
        pairs=views,
        temperature=0.2,
        transfer=(bars(seed=2), bars(seed=3)),
        view=views.one_view,
        folder=tmp_path / "fine-tune",
    )


def of_vectors(n_train=60, n_test=30, **changes):
    """A subject whose samples are vectors of three kinds."""
    generator = torch.Generator().manual_seed(0)
    labels = torch.arange(n_train + n_test) % 3
    inputs = torch.eye(3, 6)[labels] + 0.3 * torch.rand(len(labels), 6, generator=generator)
    train, test = (
        ArrayData(inputs[part], labels=labels[part], name=name)
        for part, name in ((slice(n_train), "known"), (slice(n_train, None), "new"))
    )
    settings = EncoderSettings(projector=ProjectorSettings(hidden=(), n_features=12))
    backbone = torch.nn.Sequential(torch.nn.Linear(6, 6), torch.nn.BatchNorm1d(6))
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        learner = Encoder(settings, (6,), backbone=backbone)
    return replace(Subject(learner, train, test, SETTINGS), **changes)


@pytest.mark.parametrize("mode", [True, False])
@pytest.mark.parametrize("name", list(SECTIONS))
def test_no_section_changes_the_model(name, mode, subject):
    if name == "beside_dense":
        subject = of_vectors()
    subject.encoder.train(mode)
    if name == "classification":
        subject = replace(subject, classifier=Classifier(subject.encoder, 4).train(mode))
    before = {key: value.clone() for key, value in subject.encoder.state_dict().items()}
    learning = [p.requires_grad for p in subject.encoder.parameters()]
    figures = SECTIONS[name](subject, lambda _: None)
    assert figures
    assert all(figure.value is not None for figure in figures.values())
    after = subject.encoder.state_dict()
    assert list(after) == list(before)
    for key, value in before.items():
        assert torch.equal(after[key], value), key
    assert all(module.training is mode for module in subject.encoder.modules())
    assert [p.requires_grad for p in subject.encoder.parameters()] == learning
    assert all(p.grad is None for p in subject.encoder.parameters())


def test_a_run_of_batch_statistics_would_be_noticed(subject):
    """The check above can fail: one pass in training mode moves the running statistics."""
    before = {key: value.clone() for key, value in subject.encoder.state_dict().items()}
    subject.encoder.train()(subject.test.inputs)
    changed = [k for k, v in subject.encoder.state_dict().items() if not torch.equal(v, before[k])]
    assert any("running_mean" in key for key in changed)


@pytest.mark.parametrize("name", ["properties", "selection", "sepin", "robustness", "few_labels"])
def test_the_same_seed_gives_the_same_figures(name, subject):
    first, second = (SECTIONS[name](subject, lambda _: None) for _ in range(2))
    assert first == second


def test_probes_learn_from_as_many_samples_as_wished(subject):
    few = replace(subject, settings=SETTINGS.model_copy(update={"train_samples": 50}))
    for name in ("probe", "transfer"):
        found, whole = (SECTIONS[name](s, lambda _: None) for s in (few, subject))
        assert found[f"{name}_hidden"].beside["n_train"] == 50
        assert whole[f"{name}_hidden"].beside["n_train"] == 120
    shown = few.train_part.fetch(torch.arange(50)).flatten(1)
    assert len(shown.unique(dim=0)) == 50  # fifty different ones, all of the training set
    assert all((subject.train.inputs.flatten(1) == one).all(dim=1).any() for one in shown)


@pytest.mark.parametrize("layer", ["hidden", "features"])
def test_only_the_layers_named_are_probed(layer, subject):
    one = replace(subject, settings=SETTINGS.model_copy(update={"probed": (layer,)}))
    for name in ("probe", "transfer"):
        found = SECTIONS[name](one, lambda _: None)
        assert found == {
            f"{name}_{layer}": SECTIONS[name](subject, lambda _: None)[f"{name}_{layer}"]
        }


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("sepin", "SEPIN needs the views and the temperature of an InfoNCE run"),
        ("transfer", "there is no other set to transfer to; name one"),
        ("robustness", "vectors holds no images; only images are corrupted"),
        ("factors", "the factors behind vectors are not known"),
        ("hierarchy", "vectors has one level of labels"),
        ("fine_tune", "fine-tuning keeps its run in a folder; give one"),
    ],
)
def test_what_does_not_apply_says_why(name, reason):
    vectors = ArrayData(torch.rand(30, 6), labels=torch.arange(30) % 3, name="vectors")
    learner = Encoder(EncoderSettings(), (6,), backbone=torch.nn.Linear(6, 4))
    with pytest.raises(NotMeasurableError) as error:
        SECTIONS[name](Subject(learner, vectors, vectors, SETTINGS), lambda _: None)
    assert str(error.value) == reason


def test_one_class_only_leaves_what_needs_no_classes():
    zeros = torch.zeros(30, dtype=torch.int64)
    vectors = ArrayData(torch.rand(30, 6), labels=zeros, name="alike")
    learner = Encoder(EncoderSettings(), (6,), backbone=torch.nn.Linear(6, 4))
    alike = Subject(learner, vectors, vectors)
    for name in ("probe", "neighbours", "few_labels", "selection"):
        with pytest.raises(NotMeasurableError, match=r"^alike has one class only; give labels of"):
            SECTIONS[name](alike, lambda _: None)
    figures = SECTIONS["properties"](alike, lambda _: None)
    assert "sparsity" in figures
    assert figures["class_consistency"].value is None
    assert figures["class_entropy"].beside == {"because": "alike has one class only"}
    with pytest.raises(NotMeasurableError, match=r"^alike has one class only$"):
        SECTIONS["hierarchy"](alike, lambda _: None)


def test_too_few_samples_are_the_reason():
    def figures(n, k):
        data = ArrayData(torch.eye(k).repeat(n // k, 1), labels=torch.arange(n) % k, name="few")
        learner = Encoder(EncoderSettings(), (k,), backbone=torch.nn.Identity())
        learner.projector = torch.nn.Linear(k, k, bias=False)
        torch.nn.init.eye_(learner.projector.weight)
        return SECTIONS["properties"](Subject(learner, data, data), lambda _: None)

    for name in ("class_consistency_min20", "top20_purity"):
        few = figures(32, 4)[name]
        assert few.value is None
        assert few.beside == {"because": "no feature is on for 20 of the 32 samples"}
        fewer = figures(16, 4)[name]
        assert fewer.beside == {"because": "there are only 16 samples; it takes more than 20"}
        assert figures(80, 4)[name].value == 1
    assert figures(32, 4)["class_consistency"].value == 1


def test_small_classes_cap_precision_and_the_cap_is_shown():
    labels = torch.tensor([0] * 4 + [1] * 6 + [2] * 30)
    vectors = ArrayData(torch.rand(40, 6), labels=labels, name="vectors")
    learner = Encoder(EncoderSettings(), (6,), backbone=torch.nn.Linear(6, 4))
    settings = EvaluationSettings(k=10)
    found = SECTIONS["neighbours"](Subject(learner, vectors, vectors, settings), lambda _: None)
    assert found["precision_features"].beside["most"] == pytest.approx(
        (4 * 0.3 + 6 * 0.5 + 30 * 1.0) / 40
    )
    assert "most" not in found["map_features"].beside
    settings = EvaluationSettings(k=3)
    found = SECTIONS["neighbours"](Subject(learner, vectors, vectors, settings), lambda _: None)
    assert found["precision_features"].beside["most"] is None


def test_without_labels_there_is_what_needs_none():
    vectors = ArrayData(torch.rand(30, 6), name="bare")
    learner = Encoder(EncoderSettings(), (6,), backbone=torch.nn.Linear(6, 4))
    bare = Subject(learner, vectors, vectors)
    with pytest.raises(NotMeasurableError, match=r"^bare has no labels$"):
        SECTIONS["probe"](bare, lambda _: None)
    found = SECTIONS["properties"](bare, lambda _: None)
    measured = {name for name, figure in found.items() if figure.value is not None}
    assert {"sparsity", "alive_rate", "correlation", "effective_rank"} <= measured
    for name in ("class_consistency", "class_consistency_min20", "top20_purity", "class_entropy"):
        assert found[name].value is None
        assert found[name].beside == {"because": "bare has no labels"}
    with pytest.raises(NotMeasurableError, match=r"^bare has no labels$"):
        SECTIONS["hierarchy"](bare, lambda _: None)


def beside(subject):
    return SECTIONS["beside_dense"](subject, lambda _: None)


def test_vectors_are_compared_with_what_the_encoder_gives():
    subject = of_vectors()
    train, test = subject.train, subject.test
    features = [subject.encoder.encode(data).features for data in (train, test)]
    expected = beside_dense(
        train.inputs, features[0], test.inputs, features[1], train.labels, test.labels, m=5
    )
    assert beside(subject) == expected.figures()


def test_where_vectors_cannot_be_compared_it_says_why(subject):
    with pytest.raises(NotMeasurableError, match=r"^bars holds images; only vectors are compared$"):
        beside(subject)
    with pytest.raises(
        NotMeasurableError, match=r"^it takes at least 2 training samples and 2 test"
    ):
        beside(of_vectors(n_test=1))


@pytest.mark.parametrize("part", ["train", "test"])
def test_labels_of_one_side_are_none(part):
    whole = of_vectors()
    bare = replace(getattr(whole, part), labels=None)
    figures = beside(replace(whole, **{part: bare}))
    assert figures["beside_train_kept"] == beside(whole)["beside_train_kept"]
    for key in ("beside_train_precision", "beside_test_nearest", "beside_top5_purity"):
        assert figures[key].value is None
        assert figures[key].beside["because"] == f"{bare.name} has no labels"


def test_one_class_is_the_reason():
    whole = of_vectors()
    figures = beside(replace(whole, train=replace(whole.train, labels=0 * whole.train.labels)))
    assert figures["beside_train_precision"].beside["because"] == "known has one class only"


def test_of_few_samples_all_others_are_neighbours():
    assert beside(of_vectors(n_test=5))["beside_test_kept"].beside["k"] == 4
    assert beside(of_vectors(n_train=7))["beside_train_kept"].beside["k"] == 7


def test_of_wide_vectors_so_many_are_searched_as_fit_in_memory(monkeypatch):
    monkeypatch.setattr("nonneg.evaluation.sections._MOST_ENTRIES", 6 * 45)
    subject = of_vectors()
    figures = beside(subject)
    assert figures["beside_train_kept"].beside["n_train"] == 45
    drawn = permutation(60, seed=0)[:45].sort().values
    part = subset(subject.train, drawn)
    assert figures == beside(replace(subject, train=part))


@pytest.mark.parametrize("reads", ["hidden", "features"])
@pytest.mark.parametrize("loss", ["ce", "nonneg_ce"])
def test_of_a_classifier_the_class_features_are_measured(subject, loss, reads):
    """What the head multiplies with its weights, rectified where the loss does so."""
    classifier = Classifier(subject.encoder, 4, loss=loss, reads=reads)
    torch.nn.init.normal_(classifier.head.weight, generator=torch.Generator().manual_seed(0))
    known = replace(subject, classifier=classifier).known_test
    plain = getattr(subject.encoder.encode(subject.test), reads)
    expected = plain.clamp(min=0) if loss == "nonneg_ce" else plain
    assert torch.equal(known.encoded.features, expected)
    figures = SECTIONS["classification"](replace(subject, classifier=classifier), lambda _: None)
    classifier.eval()
    with torch.no_grad():
        right = classifier(subject.test.inputs).argmax(1) == subject.test.labels
    assert figures["classifier"].value == pytest.approx(float(right.double().mean()))


def test_an_evaluation_grows_section_by_section_and_reads_back(subject, tmp_path):
    evaluation = Evaluation("digest", {"test": {"name": "bars", "n_samples": 120}})
    said, saved = [], []
    evaluate(subject, ["probe", "neighbours"], evaluation, watch=said.append, after=saved.append)
    assert saved == ["probe", "neighbours"]
    assert "probe: on hidden" in said
    evaluation.write(tmp_path / "evaluation.json")
    found = Evaluation.read(tmp_path / "evaluation.json")
    assert found == evaluation
    assert list(found.figures())[:2] == ["probe_hidden", "probe_features"]
    assert found.sections["probe"].settings["seed"] == 0
    assert "torch" in found.sections["probe"].versions


def test_a_skipped_section_leaves_its_reason_and_no_old_figures(subject):
    evaluation = Evaluation("digest", {})
    evaluate(subject, ["transfer"], evaluation)
    assert "transfer" in evaluation.sections
    alone = Subject(subject.encoder, subject.train, subject.test, SETTINGS)
    evaluate(alone, ["transfer"], evaluation)
    assert evaluation.sections == {}
    assert evaluation.skipped == {"transfer": "there is no other set to transfer to; name one"}


def test_a_file_that_is_no_evaluation_is_named(tmp_path):
    path = tmp_path / "evaluation.json"
    path.write_text('{"some": "thing"}')
    with pytest.raises(
        ValueError, match=r"evaluation\.json is not an evaluation .* evaluate again"
    ):
        Evaluation.read(path)


def test_which_sections_are_chosen():
    assert "fine_tune" not in chosen_sections(None)
    assert chosen_sections(["fine_tune"]) == ["fine_tune"]
    with pytest.raises(ValueError, match=r"^unknown section 'prob'; nearest: probe"):
        chosen_sections(["prob"])
    with pytest.raises(ValueError, match="at least one section"):
        chosen_sections([])


def test_few_test_samples_are_measured_all():
    """Fewer than the 20 of top purity, or than the neighbours asked for."""
    data, test = bars(), bars(n=12, seed=1)
    few = Subject(encoder(), data, test, EvaluationSettings(k=50, selection=(0.5,), n_draws=1))
    evaluation = Evaluation("model", {})
    evaluate(few, ["properties", "neighbours", "selection"], evaluation)
    figures = evaluation.figures()
    assert not evaluation.skipped
    assert figures["top20_purity"].value is None  # the 20 strongest of 12 are all of them
    assert figures["class_consistency"].value is not None
    assert figures["precision_features"].beside["k"] == 11


def test_labels_may_be_any_whole_numbers():
    data, test = bars(), bars(seed=1)
    large = [replace(part, labels=part.labels + 10**12) for part in (data, test)]
    for sets in ((data, test), large):
        subject = Subject(encoder(), *sets)
        figures = SECTIONS["neighbours"](subject, lambda _: None)
        assert figures["knn_features"].value > 0


def test_views_are_the_same_in_parts_of_any_size(subject, monkeypatch):
    arguments = (subject.encoder, subject.pairs, subject.test)
    whole = features_of_views(*arguments, seed=3)
    monkeypatch.setattr(nonneg.evaluation.subject, "AT_ONCE", 7)
    parts = features_of_views(*arguments, seed=3)
    for one, other in zip(whole, parts, strict=True):
        torch.testing.assert_close(one, other)


def test_large_images_are_made_small_where_inputs_are_compared(subject):
    quarter = subject.test.inputs.repeat_interleave(4, dim=2).repeat_interleave(4, dim=3)  # 48 × 48
    large = replace(subject.test, inputs=quarter)
    found = {}
    for data in (subject.test, large):
        figures = SECTIONS["properties"](replace(subject, test=data), lambda _: None)
        found[data.sample_shape[1]] = figures["monosemanticity"].beside["reference"]
    assert found == {12: "raw inputs", 48: "inputs at 32 × 32"}
