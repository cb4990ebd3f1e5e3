"""Points of search engines: files in the published formats, and a real engine that loads them."""

import json

import numpy as np
import pytest
from scipy import sparse

from nonneg.interchange import ENGINES, engine_query, engines, write_points

NAMES = [f"feature {number}" for number in range(24)]
RNG = np.random.default_rng(0)
ROWS = (RNG.random((300, 24)) * (RNG.random((300, 24)) < 0.2)).astype(np.float32)
ROWS[5] = 0
ROWS[6] *= 1e30
ROWS[7] *= 1e-30
TEXTS = [f'text "{number}"\n¿qué? 語' for number in range(300)]


def payload(start, stop):
    return [{"text": TEXTS[number], "label": number % 3} for number in range(start, stop)]


def write(folder, engine, rows=ROWS, **given):
    parts = [rows[:7], rows[7:8], rows[8:]]
    given = {"payload": payload, "names": NAMES, **given}
    return write_points(engine, parts, folder, **given)


def cosines(queries, rows):
    """By loops, in float64."""
    found = np.zeros((len(queries), len(rows)))
    for i, q in enumerate(queries.astype(np.float64)):
        for j, z in enumerate(rows.astype(np.float64)):
            lengths = np.linalg.norm(q) * np.linalg.norm(z)
            found[i, j] = q @ z / lengths if lengths else 0
    return found


def read(folder, engine):
    """All points as number, weights and payload, by the format that the engine publishes."""
    found = []
    for path in sorted(folder.glob("points*")):
        if engine == "qdrant":
            for point in json.loads(path.read_text())["points"]:
                vector = point["vector"]["features"]
                weights = dict(zip(vector["indices"], vector["values"], strict=True))
                found.append((point["id"], weights, point["payload"]))
            continue
        lines = [json.loads(line) for line in path.read_text().split("\n")[:-1]]
        if engine == "jsonl":
            for line in lines:
                weights = dict(zip(line.pop("indices"), line.pop("values"), strict=True))
                found.append((line.pop("id"), weights, line))
            continue
        for action, document in zip(lines[::2], lines[1::2], strict=True):
            weights = {int(key): value for key, value in document.pop("features").items()}
            found.append((int(action["index"]["_id"]), weights, document))
    return found


@pytest.mark.parametrize("engine", ENGINES)
def test_points_hold_rows_and_payload(engine, tmp_path):
    written = write(tmp_path / "out", engine)
    points = read(tmp_path / "out", engine)
    assert [number for number, _, _ in points] == list(range(300))
    assert [one["text"] for _, _, one in points] == TEXTS
    assert [one["label"] for _, _, one in points] == [number % 3 for number in range(300)]
    rows = np.zeros((300, 24), np.float32)
    for number, weights, _ in points:
        assert list(weights) == sorted(weights)
        rows[number, list(weights)] = list(weights.values())
    if engine == "jsonl":
        np.testing.assert_array_equal(rows, ROWS)  # every digit
    else:
        lengths = np.linalg.norm(rows, axis=1)
        np.testing.assert_allclose(lengths, ROWS.any(axis=1), atol=1e-6)
        np.testing.assert_allclose(cosines(rows[:9], rows), cosines(ROWS[:9], ROWS), atol=1e-6)
    assert written.n_points == 300
    assert written.n_files == len(list((tmp_path / "out").glob("points*"))) == 1
    facts = json.loads((tmp_path / "out" / "export.json").read_text())
    assert facts == {"n_points": 300, "n_features": 24}
    assert json.loads((tmp_path / "out" / "feature_names.json").read_text()) == NAMES


@pytest.mark.parametrize("engine", ["qdrant", "opensearch"])
def test_files_are_small_requests(engine, tmp_path, monkeypatch):
    monkeypatch.setattr(engines, "_MOST_POINTS", 70)
    assert write(tmp_path / "many", engine).n_files == 5
    monkeypatch.setattr(engines, "_MOST_BYTES", 5000)
    written = write(tmp_path / "small", engine)
    files = list((tmp_path / "small").glob("points*"))
    assert written.n_files == len(files) > 5
    assert max(path.stat().st_size for path in files) < 5300
    assert [number for number, _, _ in read(tmp_path / "small", engine)] == list(range(300))
    monkeypatch.setattr(engines, "_MOST_BYTES", 1)
    assert write(tmp_path / "single", engine, ROWS[:9]).n_files == 9


def test_the_settings_are_the_published_ones(tmp_path):
    for engine in ("qdrant", "elasticsearch", "opensearch"):
        write(tmp_path / engine, engine)
    collection = json.loads((tmp_path / "qdrant" / "collection.json").read_text())
    assert collection == {"sparse_vectors": {"features": {}}}
    index = json.loads((tmp_path / "elasticsearch" / "index.json").read_text())
    field = index["mappings"]["properties"]["features"]
    assert field == {"type": "sparse_vector", "index_options": {"prune": False}}
    query = json.loads((tmp_path / "elasticsearch" / "query.json").read_text())
    assert query["query"]["sparse_vector"]["prune"] is False
    assert query["query"]["sparse_vector"]["field"] == "features"
    index = json.loads((tmp_path / "opensearch" / "index.json").read_text())
    assert index["mappings"]["properties"]["features"] == {"type": "rank_features"}
    query = json.loads((tmp_path / "opensearch" / "query.json").read_text())
    weights = query["query"]["neural_sparse"]["features"]["query_tokens"]
    first = json.loads((tmp_path / "elasticsearch" / "query.json").read_text())
    assert first["query"]["sparse_vector"]["query_vector"] == weights
    row = np.zeros(24)
    row[[int(key) for key in weights]] = list(weights.values())
    assert cosines(row[None], ROWS[:1])[0, 0] == pytest.approx(1)


def test_tiny_weights_are_left_out_where_they_are_refused(tmp_path):
    """Elasticsearch and OpenSearch take normal float32 numbers above zero only."""
    rows = np.array([[1, 1e-39, 0.5]], dtype=np.float32)
    write_points("elasticsearch", [rows], tmp_path / "e", names=["a", "b", "c"])
    ((_, weights, _),) = read(tmp_path / "e", "elasticsearch")
    assert list(weights) == [0, 2]


def test_negative_features(tmp_path):
    rows = ROWS - 0.5 * (ROWS > 0)
    for engine in ("elasticsearch", "opensearch"):
        with pytest.raises(ValueError, match=f"{engine} takes no negative features"):
            write(tmp_path / "out", engine, rows)
    assert list(tmp_path.iterdir()) == []
    assert write(tmp_path / "out", "qdrant", rows).n_points == 300


def test_half_a_character_leaves_nothing(tmp_path):
    def broken(start, stop):
        return [{"text": "\ud800" if number == 102 else "ok"} for number in range(start, stop)]

    with pytest.raises(ValueError, match="the text of sample 102 holds half a character"):
        write(tmp_path / "out", "qdrant", payload=broken)
    assert list(tmp_path.iterdir()) == []


def test_an_earlier_export_stays_until_the_next_is_whole(tmp_path):
    write(tmp_path / "out", "qdrant")
    before = {path.name: path.read_bytes() for path in (tmp_path / "out").iterdir()}

    def parts():
        yield ROWS[:9]
        raise ValueError("a damaged file")

    with pytest.raises(ValueError, match="a damaged file"):
        write_points("qdrant", parts(), tmp_path / "out", names=NAMES)
    assert {path.name: path.read_bytes() for path in (tmp_path / "out").iterdir()} == before
    write_points("qdrant", [ROWS[:9]], tmp_path / "out", names=NAMES)
    assert len(read(tmp_path / "out", "qdrant")) == 9
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


def test_parts_are_written_as_they_come(tmp_path):
    """Never all in memory: a part is asked for when those before it are on disk."""
    seen = []

    def parts():
        for _ in range(4):
            files = list(tmp_path.rglob("points-*"))
            seen.append(sum(path.stat().st_size > 0 for path in files))
            yield np.tile(ROWS[:100], (10, 1))

    write_points("qdrant", parts(), tmp_path / "out", names=NAMES)
    assert seen == [0, 0, 1, 2]  # the last batch may go on


def test_features_that_are_all_zero(tmp_path):
    written = write_points("qdrant", [np.zeros((3, 24), np.float32)], tmp_path / "o", names=NAMES)
    assert written == (3, 1)
    assert not (tmp_path / "o" / "query.json").exists()


class TestQueries:
    def test_of_any_kind_of_row(self):
        row = np.zeros(24)
        row[[3, 7]] = 3, 4
        for given in (row, row[None], sparse.csr_array(row[None]), row.tolist()):
            found = engine_query("elasticsearch", given, k=4)
            assert found["size"] == 4
            assert found["query"]["sparse_vector"]["query_vector"] == {"3": 0.6, "7": 0.8}

    @pytest.mark.parametrize(
        ("engine", "row", "sentence"),
        [
            ("solr", ROWS[0], "unknown engine 'solr'; known: qdrant, elasticsearch, opensearch"),
            ("jsonl", ROWS[0], "jsonl is a file and has no queries"),
            ("qdrant", ROWS[5], "a row without any feature finds nothing"),
            ("qdrant", ROWS[:2], r"give one row of features, got an array of shape \(2, 24\)"),
            ("qdrant", [], "give one row of features"),
            ("opensearch", -ROWS[0], "opensearch takes no negative features"),
        ],
    )
    def test_refusals(self, engine, row, sentence):
        with pytest.raises(ValueError, match=sentence):
            engine_query(engine, row)


class TestQdrant:
    """The engine itself, in this process."""

    @pytest.fixture
    def shard(self, tmp_path):
        edge = pytest.importorskip("qdrant_edge", reason="qdrant-edge-py is not installed")
        write(tmp_path / "points", "qdrant")
        (name,) = json.loads((tmp_path / "points" / "collection.json").read_text())[
            "sparse_vectors"
        ]
        (tmp_path / "shard").mkdir()
        config = edge.EdgeConfig(sparse_vectors={name: edge.EdgeSparseVectorParams()})
        shard = edge.EdgeShard.create(str(tmp_path / "shard"), config)
        for path in sorted((tmp_path / "points").glob("points-*.json")):
            points = [
                edge.Point(
                    id=one["id"],
                    vector={name: edge.SparseVector(**one["vector"][name])},
                    payload=one["payload"],
                )
                for one in json.loads(path.read_text())["points"]
            ]
            shard.update(edge.UpdateOperation.upsert_points(points))
        yield edge, shard, tmp_path / "points"
        shard.close()

    def search(self, edge, shard, body):
        query = edge.Query.Nearest(edge.SparseVector(**body["query"]), using=body["using"])
        return shard.query(
            edge.QueryRequest(query=query, limit=body["limit"], with_payload=body["with_payload"])
        )

    def test_search_is_exact_cosine(self, shard):
        edge, shard, _ = shard
        queries = np.random.default_rng(1).random((12, 24)) * (ROWS[20:32] > 0)
        expected = cosines(queries, ROWS)
        for query, row in zip(queries, expected, strict=True):
            hits = self.search(edge, shard, engine_query("qdrant", query, k=15))
            np.testing.assert_allclose(
                [hit.score for hit in hits], np.sort(row)[::-1][:15], atol=1e-5
            )
            np.testing.assert_allclose(
                [hit.score for hit in hits], row[[h.id for h in hits]], atol=1e-5
            )
            assert [hit.payload["text"] for hit in hits] == [TEXTS[hit.id] for hit in hits]

    def test_the_example_finds_its_point(self, shard):
        edge, shard, folder = shard
        best, *_ = self.search(edge, shard, json.loads((folder / "query.json").read_text()))
        assert best.id == 0
        assert best.score == pytest.approx(1, abs=1e-6)

    def test_all_points_are_there(self, shard):
        edge, shard, _ = shard
        assert shard.count(edge.CountRequest(exact=True)) == 300
