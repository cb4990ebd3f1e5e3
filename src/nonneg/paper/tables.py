"""The tables: the paper's and the recipe's, each a plan of arms and figures."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from nonneg.evaluation.published import (
    Published,
    published_figures,
    published_sepin,
    published_supervised,
)
from nonneg.metrics.figures import figure_kind

# What the tables show, and no more: two cores have to measure dozens of runs.
EVALUATION = (
    "selection=[0.25]",
    "n_draws=3",
    "severities=[1, 3, 5]",
    "robustness_samples=1000",
    "fine_tune.epochs=3",
    "fine_tune.warmup_epochs=0.5",
)
# For tables of many arms: probes of features, on all samples, take longer than a small run.
IN_SHORT = (*EVALUATION, "train_samples=10000", 'probed=["hidden"]')


@dataclass(frozen=True)
class Arm:
    """One method of a table: a preset with changes.

    Args:
        name: As the table shows it.
        changes: Settings as ``nonneg train --set`` takes them.
        signed: Whether the transform is taken out: CL, all else equal.
        starts_from: Another arm, whose encoder of the same seed gives the first weights.
        preset: One other than the table's.
        against: The arm that it is compared with; None means the first of the table.
    """

    name: str
    changes: tuple[str, ...] = ()
    signed: bool = False
    starts_from: "Arm | None" = None
    preset: str | None = None
    against: str | None = None


@dataclass(frozen=True)
class Grid:
    """How an arm is tuned: one setting, by steps of one factor, on held-out samples.

    The best of three values is taken; while it is at an edge, one more value beyond it is tried,
    so that every arm is tuned with the same care.

    Args:
        setting: Its key, such as ``optimizer.lr``.
        middle: The value to begin with.
        factor: Between two values.
        figure: What is maximised, on held-out samples of the first seed.
        section: Of the evaluation that has this figure.
        most: Values in all, at most.
    """

    setting: str
    middle: float
    factor: float
    figure: str
    section: str
    most: int = 5


@dataclass(frozen=True)
class Plan:
    """A table of the paper, before it is filled.

    Args:
        name: As the command line takes it.
        about: One sentence for the reader of the table.
        arms: The first is what the others are compared with.
        figures: Headings by the names of figures.
        sections: Of the evaluation, that have these figures.
        changes: Settings of every arm, as ``nonneg train --set`` takes them; those of the command
            override them.
        evaluation: Settings of the evaluation, as ``nonneg evaluate --set`` takes them; tables
            that share them measure a section which several of them need once.
        grid: How each arm is tuned; None takes the preset as it is.
        paper: What the paper reports, by arm and figure, as it prints it.
        drawn: Names of the figures that the picture beside the table shows.
    """

    name: str
    about: str
    arms: tuple[Arm, ...]
    figures: Mapping[str, str]
    sections: tuple[str, ...]
    changes: tuple[str, ...] = ()
    evaluation: tuple[str, ...] = EVALUATION
    grid: Grid | None = None
    paper: Mapping[tuple[str, str], str] = field(default_factory=dict)
    drawn: tuple[str, ...] = ()


# Where transforms, objectives or settings are compared, they have to reach the backbone, as in the
# paper, and zeros have to be their own.
_THROUGH_THE_BACKBONE = (
    "loss.backbone_weight=0",
    "encoder.projector.input_norm=none",
    "training.reinit_at=0",
    "training.keep_angles=false",
    "training.max_on_rate=1",
)
# What the presets of short runs have instead, but for keep_angles: what is compared is what losses
# make of features.
_BESIDE_THE_BACKBONE = (
    "loss.backbone_weight=1",
    "encoder.projector.input_norm=layer",
    "training.reinit_at=0.33",
    "training.max_on_rate=0.07",
)

CL = Arm("CL", signed=True)
NCL = Arm("NCL")


def _headings(*keys: str, **short: str) -> dict[str, str]:
    """Headings of figures by key, with their units; some with a shorter title than their own."""
    own = {key: figure_kind(key).heading for key in keys}
    return own | {key: figure_kind(key).headed(title) for key, title in short.items()}


READABILITY = _headings(
    "sparsity",
    "sparsity_alive",
    "alive_rate",
    class_consistency="class consistency",
    top20_purity="top-20 purity",
    correlation="correlation",
    effective_rank="effective rank",
)

# What every method has, in a few columns: is it useful, is it readable?
_IN_SHORT = _headings(
    probe_hidden="probe (hidden)",
    precision_features="precision@10",
    sparsity="sparsity",
    alive_rate="alive",
    top20_purity="top-20 purity",
)
_IN_SHORT_SECTIONS = ("properties", "neighbours", "probe")
_DRAWN_IN_SHORT = ("sparsity", "top20_purity", "precision_features", "probe_hidden")


# The set whose figures in the paper stand beside ours.
_DATA = "imagenet100"


def _paper(
    published: Callable[[str, str], Mapping[str, Published]], *keys: str
) -> dict[tuple[str, str], str]:
    """What the paper prints, by arm and figure."""
    found = {arm: published(_DATA, arm) for arm in ("CL", "NCL")}
    return {(arm, key): found[arm][key].printed for key in keys for arm in found}


def _both(name: str, changes: tuple[str, ...]) -> tuple[Arm, Arm]:
    """CL and NCL with the same changes, compared with each other."""
    signed = f"{name}, CL"
    return (
        Arm(signed, changes, signed=True, against=signed),
        Arm(f"{name}, NCL", changes, against=signed),
    )


PROPERTIES = Plan(
    name="properties",
    about="How readable features are: figures of the test set. A dense representation's class "
    "consistency is the share of the largest class, whatever it has learnt; purity has the same 20 "
    "samples for every feature. Step times are of whatever else the machine did.",
    arms=(CL, NCL),
    figures=READABILITY | _headings("step_ms"),
    sections=("properties",),
    drawn=("sparsity_alive", "top20_purity", "correlation"),
)

TRANSFER = Plan(
    name="transfer",
    about="How useful the backbone and the features are: linear probes, retrieval, fine-tuning, "
    "another set, and images that differ from those of training. Where features do not teach the "
    "backbone (loss.backbone_weight=1) both methods of a seed have the same one.",
    arms=(CL, NCL),
    figures=_headings(
        "probe_hidden",
        "probe_features",
        precision_hidden="precision@10 (hidden)",
        precision_features="precision@10 (features)",
    )
    | _headings(
        "fine_tune",
        "transfer_hidden",
        "transfer_features",
        "robust_corruption",
        "robust_sketch",
        "robust_stylised",
    ),
    sections=("probe", "neighbours", "fine_tune", "transfer", "robustness"),
    paper=_paper(published_figures, "probe_hidden", "fine_tune", "robust_corruption")
    | _paper(published_figures, "robust_sketch", "robust_stylised"),
    drawn=("probe_hidden", "probe_features", "precision_hidden", "precision_features"),
)

DISENTANGLEMENT = Plan(
    name="disentanglement",
    about="How much single features say: SEPIN@k in nats (the paper's has another unit), and for "
    "sets whose factors are known, how features and factors correspond.",
    arms=(CL, NCL),
    # Without their unit: the paper's, which stand beside them, have another.
    figures={f"sepin_{k}": figure_kind(f"sepin_{k}").title for k in (1, 10, 100, "all")}
    | _headings(
        "dci_disentanglement",
        "dci_completeness",
        "dci_informativeness",
        "mig",
        "sap",
        "factor_vae",
        "beta_vae",
    ),
    sections=("sepin", "factors"),
    paper=_paper(published_sepin, "sepin_1", "sepin_10", "sepin_100", "sepin_all"),
    drawn=("sepin_1", "sepin_10", "dci_disentanglement", "mig"),
)


def _selection() -> Plan:
    rankings = {
        "all": "all features",
        "0.25_random": "a quarter of the alive, at random",
        "0.25_ea_signed": "a quarter, by EA of signed scores",
        "0.25_ea_rectified": "a quarter, by EA of rectified features",
    }
    tasks = ("probe", "retrieval", "transfer")
    return Plan(
        name="selection",
        about="What is left with a quarter of the features that are alive, chosen by chance or by "
        "expected activation (EA) on the training set. The paper keeps 512 of 2,048.",
        arms=(CL, NCL),
        figures={
            f"selection_{task}_{key}": figure_kind(f"selection_{task}_{key}").headed(
                f"{task}, {text}"
            )
            for task in tasks
            for key, text in rankings.items()
        },
        sections=("selection",),
        paper={
            (arm, f"selection_{task}_{key}"): found[_of_512(f"selection_{task}_{key}")].printed
            for arm, found in ((arm, published_figures(_DATA, arm)) for arm in ("CL", "NCL"))
            for task in tasks
            for key in rankings
        },
        drawn=tuple(f"selection_retrieval_{key}" for key in rankings),
    )


def _of_512(key: str) -> str:
    """The paper's key: it keeps 512 features, a quarter of all."""
    return key.replace("0.25", "512")


TRANSFORMS = Plan(
    name="transforms",
    about="Which transform makes features readable: five that are non-negative, and three controls "
    "that are not (gelu, leaky_relu, and the identity, which is CL). As in the paper, features "
    "alone teach the backbone.",
    arms=(
        CL,
        *(
            Arm(name, (f"encoder.nonnegative={name}",))
            for name in ("relu", "rep_relu", "softplus", "sigmoid", "exp", "gelu", "leaky_relu")
        ),
    ),
    figures=_IN_SHORT | _headings(class_consistency="class consistency"),
    sections=_IN_SHORT_SECTIONS,
    drawn=_DRAWN_IN_SHORT,
    changes=_THROUGH_THE_BACKBONE,
    evaluation=IN_SHORT,
)

# Each setting is moved by itself, for both methods; what is not named is as in the preset, but
# features alone teach the backbone, and there are 2,048.
_VARIED = {
    "T 0.07": ("loss.temperature=0.07",),
    "T 0.2": ("loss.temperature=0.2",),
    "256 features": ("encoder.projector.n_features=256",),
    "4,096 features": ("encoder.projector.n_features=4096",),
    "one hidden layer": ("encoder.projector.hidden=[1024]",),
    "one hidden layer, no BatchNorm": (
        "encoder.projector.hidden=[1024]",
        "encoder.projector.norm=none",
    ),
    "batch 512": ("training.batch_size=512",),
    "projector beside the backbone": _BESIDE_THE_BACKBONE,
}

SENSITIVITY = Plan(
    name="sensitivity",
    about="How robust it is: one setting moved at a time, CL and NCL alike; each NCL is compared "
    "with the CL of the same settings. As in the paper, features alone teach the backbone, but for "
    "the last two arms.",
    arms=(
        CL,
        NCL,
        *(arm for name, changes in _VARIED.items() for arm in _both(name, changes)),
    ),
    figures=_IN_SHORT,
    sections=_IN_SHORT_SECTIONS,
    drawn=_DRAWN_IN_SHORT,
    # Whatever the preset has: there are arms with fewer and with more.
    changes=(*_THROUGH_THE_BACKBONE, "encoder.projector.n_features=2048"),
    evaluation=IN_SHORT,
)

# What the presets of short runs have beyond the paper's way, each part taken out by itself.
_LEFT_OUT = {
    "features alone teach the backbone": ("loss.backbone_weight=0",),
    "input not normed": ("encoder.projector.input_norm=none",),
    "no anchors": ("training.reinit_at=0",),
    "angles not kept": ("training.keep_angles=false",),
}

RECIPE = Plan(
    name="recipe",
    about="What each part of the recipe is for: NCL as the preset has it, and with one part "
    "changed at a time. In brackets NCL is compared with CL, and every row below it with NCL.",
    arms=(CL, NCL, *(Arm(name, changes, against="NCL") for name, changes in _LEFT_OUT.items())),
    figures=_headings(
        sparsity_alive="sparsity over alive",
        alive_rate="alive",
        top20_purity="top-20 purity",
        precision_features="precision@10",
        precision_hidden="precision@10 (hidden)",
        sepin_1="SEPIN@1",
    ),
    sections=("properties", "neighbours", "sepin"),
    drawn=("sparsity_alive", "alive_rate", "top20_purity", "precision_features"),
)

_CLASSES = ("task=supervised",)
_CE = (*_CLASSES, "loss=ce")
_NCE = (*_CLASSES, "loss=nonneg_ce")
_MLP = ("reads=features",)
# Often at the beginning, where losses are said to differ; 2,000 samples tell a point apart.
_WATCHED = ("training.monitor_every=10", "training.monitor_samples=2000")

SUPERVISED = Plan(
    name="supervised",
    about="Cross entropy (CE) and non-negative cross entropy (NCE), on the backbone and on an MLP "
    "(the projector), from scratch and from the contrastively trained encoder (CL) of the same "
    "seed. In brackets NCE is compared with CE of the same kind, and CE + MLP with CE.",
    arms=(
        Arm("CE", (*_CE, *_WATCHED)),
        Arm("NCE", (*_NCE, *_WATCHED), against="CE"),
        Arm("CE + MLP", (*_CE, *_MLP, *_WATCHED), against="CE"),
        Arm("NCE + MLP", (*_NCE, *_MLP, *_WATCHED), against="CE + MLP"),
        Arm("CE, fine-tuned", (*_CE, *_WATCHED), starts_from=CL, against="CE, fine-tuned"),
        Arm("NCE, fine-tuned", (*_NCE, *_WATCHED), starts_from=CL, against="CE, fine-tuned"),
        Arm(
            "CE + MLP, fine-tuned",
            (*_CE, *_MLP, *_WATCHED),
            starts_from=CL,
            against="CE, fine-tuned",
        ),
        Arm(
            "NCE + MLP, fine-tuned",
            (*_NCE, *_MLP, *_WATCHED),
            starts_from=CL,
            against="CE + MLP, fine-tuned",
        ),
    ),
    figures=_headings(
        classifier="accuracy",
        class_consistency="class consistency",
        top20_purity="top-20 purity",
        sparsity="sparsity",
    ),
    sections=("classification", "properties"),
    # The projector of a preset may be linear: no MLP. What short contrastive runs have besides was
    # found for linear ones.
    changes=(
        *_THROUGH_THE_BACKBONE,
        "encoder.projector.hidden=[1024]",
        "encoder.projector.n_features=1024",
    ),
    grid=Grid("optimizer.lr", 6e-3, 3.0, figure="classifier", section="classification"),
    paper={
        (arm, "classifier"): figure.printed for arm, figure in published_supervised(_DATA).items()
    },
)

_METHODS = {
    "NT-Xent": (),
    "spectral": ("loss=spectral",),
    "decoupled": ("loss=decoupled",),
    "supervised contrastive": ("loss=supervised_contrastive",),
    "pairwise sigmoid": ("loss=sigmoid",),
    "momentum queue": ("loss=queue",),
    "VICReg": ("loss=vicreg",),
    "Barlow Twins": ("loss=barlow_twins",),
}

METHODS = Plan(
    name="methods",
    about="The non-negative switch on other objectives: for each, signed features (CL) and "
    "non-negative ones (NCL), all else equal. Only supervised contrastive learning sees labels; "
    "VICReg and Barlow Twins have no negatives. As in the paper, features alone teach the "
    "backbone.",
    arms=tuple(arm for name, changes in _METHODS.items() for arm in _both(name, changes)),
    figures=_IN_SHORT | _headings(correlation="correlation"),
    sections=_IN_SHORT_SECTIONS,
    drawn=_DRAWN_IN_SHORT,
    changes=_THROUGH_THE_BACKBONE,
    evaluation=IN_SHORT,
)

PLANS = {
    plan.name: plan
    for plan in (
        PROPERTIES,
        TRANSFER,
        DISENTANGLEMENT,
        _selection(),
        SUPERVISED,
        TRANSFORMS,
        SENSITIVITY,
        RECIPE,
        METHODS,
    )
}
