"""Tables of features, of samples and of examples, with pandas and without."""

import pickle
from collections import Counter
from math import isnan, sqrt

import numpy as np
import pytest
from scipy import sparse

from nonneg import NCL, CrossNCL, metrics
from nonneg.estimators import Records, table_of_examples, table_of_features, table_of_samples
from nonneg.estimators.records import markdown, table
from nonneg.estimators.tables import unit_features


def no_module(name):
    raise ModuleNotFoundError(f"No module named {name!r}")


@pytest.fixture
def without_pandas(monkeypatch):
    """Hidden from tables only: scikit-learn looks for it too."""
    monkeypatch.setattr("nonneg.estimators.records.import_module", no_module)


@pytest.fixture(params=["pandas", "records"])
def kind(request):
    if request.param == "records":
        request.getfixturevalue("without_pandas")
    else:
        pytest.importorskip("pandas")
    return request.param


COLUMNS = {
    "feature": np.array([3, 0]),
    "name": ["a|b", "two\nlines"],
    "share": np.array([0.25, 1 / 3]),
    "purity": [float("nan"), 1.0],
    "found": np.array([True, False]),
}
MARKDOWN = r"""
| feature | name      |  share | purity | found |
|--------:|-----------|-------:|-------:|-------|
|       3 | a\|b      |   0.25 |        | True  |
|       0 | two lines | 0.3333 |      1 | False |
""".strip()
CSV = (
    "feature,name,share,purity,found\n"
    "3,a|b,0.25,,True\n"
    '0,"two\nlines",0.3333333333333333,1.0,False\n'
)


def test_both_kinds_of_tables_write_the_same(kind, tmp_path):
    made = table(COLUMNS)
    assert isinstance(made, Records) == (kind == "records")
    assert list(made.columns) == list(COLUMNS)
    assert list(made["name"]) == COLUMNS["name"]
    assert made.to_markdown() == MARKDOWN
    assert made.to_csv() == CSV
    assert made.to_csv(tmp_path / "made.csv") is None
    assert (tmp_path / "made.csv").read_text() == CSV
    assert len(made.head(1)) == 1


def test_a_table_without_rows_has_its_columns(kind):
    made = table({"feature": np.array([], int), "name": []})
    assert list(made.columns) == ["feature", "name"]
    assert made.to_markdown() == "| feature | name |\n|---------|------|"
    assert made.to_csv() == "feature,name\n"


def test_records_can_be_cut_and_are_printed_in_part(without_pandas):
    made = table({"number": np.arange(30)})
    assert made[3] == {"number": 3}
    assert made[2:4]["number"] == [2, 3]
    shown = repr(made).splitlines()
    assert len(shown) == 2 + 20 + 1
    assert shown[-1] == "… and 10 more rows"
    assert repr(made[:2]) == made[:2].to_markdown()


def test_a_frame_stays_one_when_it_is_cut_or_pickled():
    pytest.importorskip("pandas")
    made = table(COLUMNS)
    cut = made[made["found"]][["feature", "found"]]
    assert cut.to_markdown().splitlines()[2] == "|       3 | True  |"
    again = pickle.loads(pickle.dumps(made))
    assert type(again) is type(made)
    assert again.to_csv() == CSV
    assert made.to_csv(index=True).startswith(",feature")


def test_markdown_of_numbers_and_words():
    assert markdown({"n": [1, 20]}).splitlines()[-1] == "| 20 |"
    assert markdown({"p": [1.23456e-7]}).splitlines()[-1] == "| 1.235e-07 |"
    assert markdown({"mixed": [None, "x", 2.0]}).splitlines()[1] == "|-------|"


# Features of 60 samples: sparse, and one of them dead.
RNG = np.random.default_rng(0)
Z = RNG.lognormal(size=(60, 9)) * (RNG.random((60, 9)) < 0.4)
Z[:, 4] = 0
Z[7] = 0
LABELS = ["abc"[i] for i in RNG.integers(3, size=60)]
TEXTS = [f"sample {i} is about {'cars' if Z[i, 0] > 0 else 'pies'}" for i in range(60)]


def plain_units(Z):
    """Rows of length 1 by loops; what is at most 1e-5 is off."""
    made = []
    for row in np.asarray(Z, float).tolist():
        length = sqrt(sum(v * v for v in row)) or 1.0
        made.append([v / length if v / length > 1e-5 else 0.0 for v in row])
    return made


@pytest.mark.parametrize("convert", [np.asarray, sparse.csr_array, np.ndarray.tolist])
def test_unit_features_are_those_of_loops(convert):
    np.testing.assert_allclose(unit_features(convert(Z)).toarray(), plain_units(Z), rtol=1e-12)


def test_unit_features_of_any_size_and_their_source_is_left_alone():
    given = sparse.csr_array(Z * np.logspace(-200, 200, 60)[:, None])
    before = given.copy()
    np.testing.assert_allclose(unit_features(given).toarray(), plain_units(Z), rtol=1e-12)
    assert (given != before).nnz == 0


def test_the_table_of_features_agrees_with_loops(kind):
    units = plain_units(Z)
    n, d = Z.shape
    names = [f"f{j}" for j in range(d)]
    made = table_of_features(Z, labels=LABELS, names=names, n_examples=2)
    assert list(made["name"]) == [names[j] for j in made["feature"]]
    mean = [sum(row[j] for row in units) / n for j in range(d)]
    assert list(made["feature"]) == sorted(
        (j for j in range(d) if mean[j] > 0), key=lambda j: -mean[j]
    )
    for i, j in enumerate(made["feature"]):
        column = [row[j] for row in units]
        on = [k for k in range(n) if column[k] > 0]
        assert list(made["share"])[i] == pytest.approx(len(on) / n)
        assert list(made["expected_activation"])[i] == pytest.approx(mean[j])
        strongest = sorted(on, key=lambda k: -column[k])[:20]
        assert list(made["examples"])[i] == ", ".join(map(str, strongest[:2]))
        label, count = Counter(LABELS[k] for k in strongest).most_common(1)[0]
        assert list(made["label"])[i] == label
        purity = list(made["purity"])[i]
        assert isnan(purity) if len(on) < 20 else purity == count / 20
        cosines = {}
        for other in range(d):
            others = [row[other] for row in units]
            lengths = sqrt(sum(v * v for v in column)) * sqrt(sum(v * v for v in others))
            if other != j and lengths > 0:
                cosines[other] = sum(a * b for a, b in zip(column, others, strict=True)) / lengths
        near = sorted(cosines, key=lambda other: -cosines[other])[:3]
        assert list(made["nearest"])[i] == " · ".join(
            f"{k} {names[k]} ({cosines[k]:.2f})" for k in near
        )


def test_purity_is_that_of_the_metric():
    many = np.random.default_rng(1).random((300, 8)) ** 8
    labels = np.arange(300) % 7
    made = table_of_features(many, labels=labels)
    of_metric = metrics.top_purity(many, labels, m=20).per_feature
    np.testing.assert_allclose(made["purity"], of_metric[list(made["feature"])])
    assert set(made["label"]) <= set(range(7))


def test_the_table_of_features_does_not_depend_on_the_length_of_rows_or_their_order():
    order = np.random.default_rng(2).permutation(60)
    texts = [text.split(" is ")[1] for text in TEXTS]
    made = table_of_features(Z, texts=texts, labels=LABELS)
    other = table_of_features(
        (Z * np.arange(1, 61)[:, None])[order],
        texts=[texts[i] for i in order],
        labels=[LABELS[i] for i in order],
    )
    for name in ("feature", "name", "words", "nearest", "examples", "share"):
        assert list(made[name]) == list(other[name])
    np.testing.assert_allclose(made["expected_activation"], other["expected_activation"])
    np.testing.assert_allclose(made["purity"], other["purity"])


def test_words_and_examples_of_texts(kind):
    made = table_of_features(Z, texts=TEXTS, n_words=1, n_examples=1)
    assert list(made.columns) == [
        "feature", "name", "words", "share", "expected_activation", "nearest", "examples",
    ]  # fmt: skip
    row = list(made["feature"]).index(0)
    assert list(made["words"])[row].startswith("cars")
    assert list(made["name"])[row] == "cars"
    strongest = int(np.argmax(np.array(plain_units(Z))[:, 0]))
    assert list(made["examples"])[row] == TEXTS[strongest]


def test_long_texts_are_cut():
    texts = [f"{'word ' * 40}\n{i}" for i in range(60)]
    for shown in table_of_features(Z, texts=texts, n_examples=1)["examples"]:
        assert len(shown) == 80
        assert shown.endswith("…")


def test_the_table_of_samples_agrees_with_loops(kind):
    made = table_of_samples(Z, texts=TEXTS, names=[f"f{j}" for j in range(9)])
    expected = []
    for i, row in enumerate(plain_units(Z)):
        on = sorted((j for j in range(9) if row[j] > 0), key=lambda j: -row[j])
        expected += [(i, TEXTS[i], j, f"f{j}", row[j], row[j] ** 2) for j in on]
    assert list(made.columns) == ["sample", "text", "feature", "name", "activation", "share"]
    for k, name in enumerate(made.columns):
        column = [row[k] for row in expected]
        assert list(made[name]) == (pytest.approx(column) if k > 3 else column)


def test_examples_agree_with_loops(kind):
    units = plain_units(Z)
    made = table_of_examples(Z, [2, 5], n=4, texts=TEXTS)
    both = [sqrt(row[2] ** 2 + row[5] ** 2) for row in units]
    strongest = sorted(range(60), key=lambda i: -both[i])[:4]
    assert list(made["sample"]) == strongest
    assert list(made["activation"]) == pytest.approx([both[i] for i in strongest])
    assert list(made["text"]) == [TEXTS[i] for i in strongest]
    for shown, i in zip(made["others"], strongest, strict=True):
        others = sorted(
            (j for j in range(9) if j not in (2, 5) and units[i][j] > 0), key=lambda j: -units[i][j]
        )
        assert shown == " · ".join(f"{j} ({units[i][j]:.2f})" for j in others[:5])


def test_samples_without_the_feature_are_no_examples():
    assert len(table_of_examples(Z, [4])) == 0
    assert len(table_of_examples(np.eye(3), [1], n=3)) == 1


KINDS = np.repeat(np.arange(4), 25)
X = np.eye(6)[KINDS] + 0.05 * np.random.default_rng(3).normal(size=(100, 6))
WORDS = [["a red car", "an apple pie", "rain and snow", "a long flight"][k] for k in KINDS]


@pytest.fixture(scope="module")
def ncl():
    return NCL(random_state=0, max_steps=60).fit(X)


@pytest.fixture
def named(ncl):
    ncl.describe(X, texts=WORDS, n_words=1)
    yield ncl
    ncl.feature_names_ = []


def test_an_estimator_makes_the_tables_of_its_features(ncl, kind):
    Z = ncl.transform(X)
    made = ncl.features_table(X, WORDS, KINDS)
    assert made.to_csv() == table_of_features(Z, texts=WORDS, labels=KINDS).to_csv()
    assert {share for share in made["purity"] if not isnan(share)} == {1.0}
    assert ncl.sample_table(X).to_csv() == table_of_samples(Z).to_csv()
    assert ncl.examples(0, X, 3).to_csv() == table_of_examples(Z, [0], 3).to_csv()
    assert ncl.feature_names_ == []


def test_names_of_describe_are_used(named):
    made = named.features_table(X)
    assert list(made["name"]) == [named.feature_names_[i] for i in made["feature"]]
    assert all(made["name"])
    name = made["name"][0]
    by_name, by_number = named.examples(name, X), named.examples(int(made["feature"][0]), X)
    assert by_name.to_csv() == by_number.to_csv()
    assert set(KINDS[by_name["sample"]]) == {KINDS[by_name["sample"][0]]}


def test_features_are_never_held_densely(ncl, monkeypatch):
    kinds = []
    transform = NCL.transform

    def noted(self, X):
        Z = transform(self, X)
        kinds.append(type(Z))
        return Z

    monkeypatch.setattr(NCL, "transform", noted)
    ncl.features_table(X)
    ncl.examples(0, X)
    assert kinds == [sparse.csr_array] * 2
    assert ncl.sparse_output is False
    assert isinstance(ncl.transform(X), np.ndarray)


def test_one_sample_has_no_number_and_its_shares_add_up(named, kind):
    made = named.sample_table(X[0])
    assert list(made.columns) == ["feature", "name", "activation", "share"]
    assert sum(made["share"]) == pytest.approx(1)
    shared = named.explain(X[0]).shared
    assert list(made["feature"]) == [s.feature for s in shared]
    assert list(made["name"]) == [s.name for s in shared]
    np.testing.assert_allclose(made["share"], [s.contribution for s in shared], rtol=1e-6)
    assert next(iter(named.sample_table(X[:1]).columns)) == "sample"
    assert next(iter(named.sample_table(X[0].tolist(), texts=WORDS[0])["text"])) == WORDS[0]


def test_a_row_of_a_data_frame_is_one_sample():
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(X, columns=[f"c{i}" for i in range(6)])
    fitted = NCL(random_state=0, max_steps=20).fit(frame)
    one = fitted.sample_table(frame.iloc[3])
    assert "sample" not in one.columns
    several = fitted.sample_table(frame.iloc[3:5])
    assert list(several["feature"][several["sample"] == 0]) == list(one["feature"])


def test_tables_of_one_side_of_two_kinds_of_vectors():
    both = CrossNCL(8, max_steps=50, random_state=0).fit(X, np.eye(5)[KINDS], groups=KINDS)
    made = both.features_table(X, WORDS)
    assert made.to_csv() == table_of_features(both.transform(X), texts=WORDS).to_csv()
    assert both.sparse_output is False


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (lambda e: e.features_table(X, WORDS[:5]), "texts has 5 entries for 100 samples"),
        (lambda e: e.features_table(X, labels=[1]), "labels has 1 entries for 100 samples"),
        (lambda e: e.features_table(X, n_examples=21), "n_examples is 21; it must be from 0 to 20"),
        (lambda e: e.features_table(X[:, :3]), "X has 3 features, but NCL is expecting 6"),
        (lambda e: e.sample_table(X[0, :3]), "X has 3 features, but NCL is expecting 6"),
        (lambda e: e.sample_table(X[:3], texts=["one"]), "texts has 1 entries for 3 samples"),
        (lambda e: e.examples("a", X, texts=["b"]), "no feature is called 'a'"),
        (lambda e: e.examples(999, X), "there is no feature 999; they are numbered 0 to"),
        (lambda e: e.examples(-1, X), "there is no feature -1"),
        (lambda e: e.examples("", X), "an empty name stands for no feature"),
        (lambda e: e.examples(0, X, 0), "n is 0; it must be at least 1"),
        (lambda e: e.examples(0, X, texts=["b"]), "texts has 1 entries for 100 samples"),
    ],
)
def test_what_is_refused(ncl, call, sentence):
    with pytest.raises(ValueError, match=sentence.replace("(", r"\(")):
        call(ncl)


def test_near_names_are_told(named):
    name = next(name for name in named.feature_names_ if name)
    with pytest.raises(ValueError, match=f"near: .*{name!r}"):
        named.examples(name + "q", X)


def test_what_is_not_fitted_has_no_tables():
    for call in (lambda e: e.features_table(X), lambda e: e.sample_table(X[0])):
        with pytest.raises(Exception, match="not fitted"):
            call(NCL())
