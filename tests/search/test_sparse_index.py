"""The index of sparse features: found samples are those of brute force, however it came about."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

from nonneg.search import SparseIndex, postings


def features(n, d, seed, share=0.2):
    rng = np.random.default_rng(seed)
    return rng.random((n, d), dtype=np.float32) * (rng.random((n, d)) < share)


def cosines_by_loops(queries, rows):
    """The definition, pair by pair."""
    found = []
    for q in queries.tolist():
        line = []
        for z in rows.tolist():
            lengths = sum(v * v for v in q) * sum(v * v for v in z)
            dot = sum(a * b for a, b in zip(q, z, strict=True))
            line.append(dot / lengths**0.5 if lengths else 0.0)
        found.append(line)
    return np.array(found)


def expected(queries, rows, k, allowed=None):
    """Numbers and cosines of brute force; equals in their order, those of cosine 0 never."""
    cosines = cosines_by_loops(queries, rows)
    if allowed is not None:
        cosines[:, ~allowed] = 0
    order = np.argsort(-cosines.round(6), axis=1, kind="stable")[:, :k]
    best = np.take_along_axis(cosines, order, axis=1)
    return np.where(best > 0, order, -1), best


def postings_oracle(rows, queries):
    """Cosines by a product of whole matrices ``(n_queries, n)``."""
    rows = rows.toarray().astype(np.float64)
    lengths = np.linalg.norm(rows, axis=1)
    rows /= np.where(lengths > 0, lengths, 1)[:, None]
    return (queries / np.linalg.norm(queries, axis=1, keepdims=True)) @ rows.T


@pytest.fixture(params=["numba", "torch"])
def engine(request, monkeypatch):
    if request.param == "torch":
        monkeypatch.setattr(postings, "_compiled", lambda: None)
    else:
        pytest.importorskip("numba", reason="numba is not installed")
    return request.param


ROWS, QUERIES = features(300, 24, 0), features(20, 24, 1)


@pytest.mark.usefixtures("engine")
class TestSearch:
    @pytest.mark.parametrize("given", [np.asarray, sparse.csr_array])
    def test_is_brute_force(self, given):
        hits = SparseIndex.of(given(ROWS)).search(given(QUERIES), 10)
        numbers, cosines = expected(QUERIES, ROWS, 10)
        np.testing.assert_array_equal(hits.ids, numbers)
        np.testing.assert_allclose(hits.cosines, cosines, atol=1e-6)

    def test_what_is_hardly_active_counts_too(self):
        rows = np.array([[1, 0, 0], [1, 8e-6, 7e-6], [1e-3, 9e-9, 1]], dtype=np.float32)
        query = np.array([[0.1, 0.7, 0.7]], dtype=np.float32)
        hits = SparseIndex.of(rows).search(query, 3)
        best = -np.sort(-cosines_by_loops(query, rows), axis=1)
        np.testing.assert_allclose(hits.cosines, best, atol=1e-7)
        assert hits.ids.tolist() == [[2, 1, 0]]

    def test_sixteen_bits_are_near(self):
        index = SparseIndex.of(ROWS, dtype="float16")
        hits = index.search(QUERIES, 10)
        np.testing.assert_allclose(hits.cosines, expected(QUERIES, ROWS, 10)[1], atol=3e-5)
        assert index.n_bytes < SparseIndex.of(ROWS).n_bytes

    def test_sixteen_bits_keep_rows_at_length_one(self):
        """What is nearest to a query is like it, so its cosine hangs on the length alone."""
        rows = features(2000, 40, 3, share=0.15)
        rows = rows[rows.any(axis=1)]
        index = SparseIndex.of(rows, dtype="float16")
        cosines = index.search(rows, 1).cosines[:, 0]
        np.testing.assert_allclose(cosines, 1, atol=5e-7)
        # The ten nearest of crowded samples are told apart, where even steps alone tie them.
        crowded = np.stack([np.ones(400), np.linspace(0.001, 0.02, 400)], axis=1)
        found = SparseIndex.of(crowded, dtype="float16").search([[1.0, 0.0]], 10)
        assert found.ids.tolist() == [list(range(10))]

    def test_sixteen_bits_are_as_they_were_after_samples_come_and_go(self, tmp_path):
        index = SparseIndex.of(ROWS, dtype="float16")
        before = index.search(QUERIES, 300)
        index.add(ROWS[:9]).remove(np.arange(300, 309)).save(tmp_path / "index")
        assert len(index._parts) == 1
        for again in (index, SparseIndex.load(tmp_path / "index")):
            after = again.search(QUERIES, 300)
            np.testing.assert_array_equal(after.ids, before.ids)
            np.testing.assert_array_equal(after.cosines, before.cosines)

    def test_sixteen_bits_find_the_same_whatever_k(self):
        """A score is compared before its row's factor is known; none may be passed over."""
        rng = np.random.default_rng(5)
        near = 1 + 1e-4 * rng.standard_normal((3000, 6))  # all within a rounding of each other
        index = SparseIndex.of(near.astype(np.float32), dtype="float16")
        query = np.ones((1, 6), dtype=np.float32)
        whole = index.search(query, 3000)
        for k in (1, 7, 200):
            some = index.search(query, k)
            np.testing.assert_array_equal(some.ids, whole.ids[:, :k])
            np.testing.assert_array_equal(some.cosines, whole.cosines[:, :k])

    def test_the_length_of_rows_does_not_matter(self):
        long = 1e20 * np.random.default_rng(0).uniform(1e-3, 1, (300, 1)).astype(np.float32)
        first, second = (SparseIndex.of(z).search(QUERIES, 5) for z in (ROWS, ROWS * long))
        np.testing.assert_array_equal(first.ids, second.ids)
        np.testing.assert_allclose(first.cosines, second.cosines, atol=1e-6)

    def test_equals_come_in_their_order(self):
        hits = SparseIndex.of(np.ones((9, 2))).search([[1, 1]], 4)
        assert hits.ids.tolist() == [[0, 1, 2, 3]]

    def test_what_shares_nothing_is_not_found(self):
        index = SparseIndex.of([[1, 0], [0, 0], [0, 1]])
        assert index.search([[2, 0], [0, 0]], 3).ids.tolist() == [[0, -1, -1], [-1, -1, -1]]

    def test_among_a_mask_or_ids(self):
        allowed = np.arange(300) % 3 == 0
        index = SparseIndex.of(ROWS)
        numbers, _ = expected(QUERIES, ROWS, 7, allowed)
        np.testing.assert_array_equal(index.search(QUERIES, 7, among=allowed).ids, numbers)
        among = np.flatnonzero(allowed)[::-1]
        np.testing.assert_array_equal(index.search(QUERIES, 7, among=among).ids, numbers)
        assert (index.search(QUERIES, 7, among=[]).ids == -1).all()

    def test_parts_and_removals_are_as_one_index(self):
        index = SparseIndex.of(ROWS[:100])
        for start in range(100, 300, 10):  # more parts than are kept apart
            index.add(ROWS[start : start + 10])
        gone = np.arange(300) % 7 == 0
        index.remove(np.flatnonzero(gone))
        assert len(index) == (~gone).sum()
        numbers, cosines = expected(QUERIES, ROWS, 10, ~gone)
        hits = index.search(QUERIES, 10)
        np.testing.assert_array_equal(hits.ids, numbers)
        np.testing.assert_allclose(hits.cosines, cosines, atol=1e-6)

    def test_more_samples_than_a_block_holds(self):
        rng = np.random.default_rng(3)
        rows = sparse.random_array(
            (2 * postings.BLOCK + 77, 12), density=0.1, rng=rng, dtype=np.float32, format="csr"
        )
        queries = features(3, 12, 4, 0.5)
        exact = postings_oracle(rows, queries)
        for k in (1, 10, 300):
            hits = SparseIndex.of(rows).search(queries, k)
            order = np.argsort(-exact, axis=1, kind="stable")[:, :k]
            best = np.take_along_axis(exact, order, axis=1)
            np.testing.assert_allclose(hits.cosines, best, atol=1e-6)
            found = np.take_along_axis(exact, hits.ids, axis=1)
            np.testing.assert_allclose(found, best, atol=1e-6)
        last = rows.shape[0] - 1
        some = rows[[last]].toarray()[0]
        np.testing.assert_allclose(
            SparseIndex.of(rows).features(last) * np.linalg.norm(some), some, atol=1e-6
        )

    def test_all_samples_can_be_asked_for(self):
        hits = SparseIndex.of(ROWS).search(QUERIES, 400)
        numbers, cosines = expected(QUERIES, ROWS, 300)
        np.testing.assert_allclose(hits.cosines[:, :300], cosines, atol=1e-6)
        assert (np.sort(hits.ids[:, :300], axis=1) == np.sort(numbers, axis=1)).all()
        assert (hits.ids[:, 300:] == -1).all()

    def test_a_mask_counts_what_is_there(self):
        index = SparseIndex.of(ROWS).remove(np.arange(100))
        assert len(index.ids) == 200
        hits = index.search(QUERIES, 5, among=np.arange(200) % 2 == 0)
        numbers, _ = expected(QUERIES, ROWS, 5, (np.arange(300) >= 100) & (np.arange(300) % 2 == 0))
        np.testing.assert_array_equal(hits.ids, numbers)

    def test_an_id_can_be_used_again(self):
        index = SparseIndex.of([[1, 0], [0, 1]], ids=["a", "b"]).remove(["a"])
        index.add([[1, 0]], ids=["a"])
        assert index.search([[1, 0]], 2).ids.tolist() == [["a", ""]]

    def test_numbers_that_follow_are_never_given_twice(self, tmp_path):
        index = SparseIndex.of(ROWS[:10]).remove([9])
        index.save(tmp_path / "index")
        again = SparseIndex.load(tmp_path / "index").add(ROWS[10:12])
        assert again.ids.tolist() == [*range(9), 10, 11]

    def test_sparse_and_dense_rows_are_scaled_alike(self):
        for scale in (1e-30, 1, 1e30):
            rows = ROWS * np.float32(scale)
            dense, given = SparseIndex.of(rows), SparseIndex.of(sparse.csr_array(rows))
            for number in (0, 7, 299):
                np.testing.assert_allclose(
                    dense.features(number), given.features(number), atol=1e-7
                )

    def test_what_is_known_of_it_is_saved_too(self, tmp_path):
        index = SparseIndex.of(ROWS)
        index.about = {"of": "a test"}
        index.save(tmp_path / "index")
        assert SparseIndex.load(tmp_path / "index").about == {"of": "a test"}

    def test_saved_and_mapped(self, tmp_path):
        index = SparseIndex.of(ROWS, ids=[f"doc {i}" for i in range(300)])
        index.remove(["doc 3"]).save(tmp_path / "index")
        again = SparseIndex.load(tmp_path / "index")
        assert isinstance(again._parts[0].lists.values, np.memmap)
        first, second = index.search(QUERIES, 9), again.search(QUERIES, 9)
        np.testing.assert_array_equal(first.ids, second.ids)
        np.testing.assert_array_equal(first.cosines, second.cosines)
        again.add(ROWS[3:4], ids=["doc 3"]).save(tmp_path / "index")
        assert len(SparseIndex.load(tmp_path / "index")) == 300
        assert len(list((tmp_path / "index").glob("part-*"))) == 1

    def test_explanations_add_up(self):
        index = SparseIndex.of(ROWS)
        hits = index.search(QUERIES, 3)
        for query, ids, cosines in zip(QUERIES, hits.ids, hits.cosines, strict=True):
            for number, cosine in zip(ids, cosines, strict=True):
                told = index.explain(query, number)
                assert told.cosine == pytest.approx(cosine, abs=1e-6)
                assert sum(s.contribution for s in told.shared) == pytest.approx(cosine, abs=1e-6)

    @settings(max_examples=30, deadline=None)
    @given(st.integers(0, 10_000), st.integers(1, 12), st.integers(1, 60), st.integers(1, 9))
    def test_of_any_shape(self, seed, d, n, k):
        rows, queries = features(n, d, seed, 0.4), features(3, d, seed + 1, 0.4)
        hits = SparseIndex.of(rows).search(queries, k)
        best = -np.sort(-cosines_by_loops(queries, rows), axis=1)[:, :k]
        np.testing.assert_allclose(hits.cosines[:, : best.shape[1]], best, atol=1e-6)
        assert not hits.cosines[:, best.shape[1] :].any()


class TestRefusals:
    @pytest.mark.parametrize(
        ("act", "sentence"),
        [
            (lambda i: i.search([[1.0, 2.0]]), "Z has 2 features, the index has 24"),
            (lambda i: i.search(-QUERIES), "Z has negative entries"),
            (lambda i: i.search(QUERIES, 0), "k must be a whole number from 1 on, got 0"),
            (lambda i: i.search(QUERIES, among=np.ones(3, bool)), "among has shape"),
            (lambda i: i.search(QUERIES, among=[999]), "there is no sample with id 999"),
            (lambda i: i.add(ROWS[:2], ids=[5, 900]), "id 5 is in the index already"),
            (lambda i: i.add(ROWS[:2], ids=[900, 900]), "ids holds one twice"),
            (lambda i: i.add(ROWS[:2], ids=["a", "b"]), "all numbers or all texts"),
            (lambda i: i.add(ROWS[:2], ids=[1.5, 2.5]), "give one whole number or text"),
            (lambda i: i.add(ROWS[:2], ids=[-5, 900]), "numbers from 0 on"),
            (lambda i: i.remove(["a"]), "there is no sample with id 'a'"),
            (lambda i: i.remove([3, 3000]), "there is no sample with id 3000"),
            (lambda i: i.explain(QUERIES[:2], 0), "one query at a time"),
            (lambda i: SparseIndex(3, dtype="int8"), "unknown dtype 'int8'"),
        ],
    )
    def test_one_sentence_and_nothing_changed(self, act, sentence):
        index = SparseIndex.of(ROWS)
        with pytest.raises(ValueError, match=sentence):
            act(index)
        assert len(index) == 300

    def test_a_folder_of_something_else(self, tmp_path):
        (tmp_path / "notes.txt").write_text("mine")
        with pytest.raises(FileExistsError, match="holds something else than an index"):
            SparseIndex.of(ROWS).save(tmp_path)
        with pytest.raises(FileNotFoundError, match=r"index.json is missing"):
            SparseIndex.load(tmp_path)

    def test_a_save_that_ends_early_leaves_the_old_index(self, tmp_path, monkeypatch):
        index = SparseIndex.of(ROWS)
        index.save(tmp_path / "i")
        before = sorted((tmp_path / "i").rglob("*"))

        def full(*_):
            raise OSError(28, "No space left on device")

        monkeypatch.setattr("nonneg.io.os.fsync", full)
        with pytest.raises(OSError, match=r"cannot write .*npy: No space left on device"):
            index.add(ROWS).save(tmp_path / "i")
        assert sorted((tmp_path / "i").rglob("*")) == before
        assert len(SparseIndex.load(tmp_path / "i")) == 300

    def test_a_first_save_that_was_killed_can_be_made_again(self, tmp_path):
        (tmp_path / "i" / "part-1").mkdir(parents=True)
        SparseIndex.of(ROWS).save(tmp_path / "i")
        assert len(SparseIndex.load(tmp_path / "i")) == 300

    def test_damaged_content_reads_nothing_beyond_the_lists(self, tmp_path):
        pytest.importorskip("numba", reason="numba is not installed")
        SparseIndex.of(ROWS).save(tmp_path / "i")
        path = next((tmp_path / "i").glob("part-*/places.npy"))
        np.save(path, np.full_like(np.load(path), 65535))
        assert (SparseIndex.load(tmp_path / "i").search(QUERIES).ids < 300).all()

    @pytest.mark.parametrize("name", ["starts", "places", "values", "factors", "ids"])
    def test_damaged_files(self, tmp_path, name):
        SparseIndex.of(ROWS, dtype="float16").save(tmp_path / "i")
        path = next((tmp_path / "i").glob(f"part-*/{name}.npy"))
        np.save(path, np.load(path)[:-1])
        with pytest.raises(ValueError, match="do not fit together"):
            SparseIndex.load(tmp_path / "i")
