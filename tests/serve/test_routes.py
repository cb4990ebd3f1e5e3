"""What the routes answer, next to what the library gives; what they refuse, and how."""

import base64
import html
import json
import re

import numpy as np
import pytest
from word_sums import TEXTS, WordSums

import nonneg
from nonneg.search import SparseIndex

SNOW = "any news of snow and wind"
PIZZA = "i want the pizza and soup"


def dense(rows, n_features):
    made = np.zeros((len(rows), n_features), dtype=np.float32)
    for row, entries in zip(made, rows, strict=True):
        for entry in entries:
            row[entry["index"]] = entry["value"]
    return made


def features(place, texts):
    return nonneg.NCL.load(place.run).transform(WordSums().encode(texts))


def test_embed_sparse_gives_the_features_of_the_run(client, place):
    expected = features(place, [SNOW, PIZZA])
    said = client.post("/embed_sparse", json={"inputs": [SNOW, PIZZA], "truncate": True})
    assert said.status_code == 200
    np.testing.assert_allclose(dense(said.json(), expected.shape[1]), expected, atol=1e-6)
    assert 0 < len(said.json()[0]) <= 4
    alone = client.post("/embed_sparse", json={"inputs": SNOW}).json()
    assert [len(row) for row in alone] == [len(said.json()[0])]


def test_embeddings_are_those_that_openai_clients_read(client, place):
    expected = features(place, [SNOW, PIZZA])
    body = {"input": [SNOW, PIZZA], "model": "any", "user": "me"}
    said = client.post("/v1/embeddings", json=body).json()
    assert (said["object"], said["model"]) == ("list", "requests")
    assert said["usage"] == {"prompt_tokens": 0, "total_tokens": 0}
    assert [entry["index"] for entry in said["data"]] == [0, 1]
    found = np.array([entry["embedding"] for entry in said["data"]])
    np.testing.assert_allclose(found, expected, atol=1e-6)
    packed = client.post("/v1/embeddings", json=body | {"encoding_format": "base64"}).json()
    rows = [np.frombuffer(base64.b64decode(e["embedding"]), "<f4") for e in packed["data"]]
    np.testing.assert_array_equal(np.stack(rows), found.astype(np.float32))
    right = client.post("/v1/embeddings", json=body | {"dimensions": expected.shape[1]})
    assert right.status_code == 200
    wrong = client.post("/v1/embeddings", json=body | {"dimensions": 7})
    assert wrong.status_code == 400
    assert "dimensions is 7; the run has 32 features" in wrong.json()["error"]["message"]


def test_tokens_are_counted_where_the_encoder_has_a_tokenizer(client, monkeypatch):
    def tokenizer(texts, truncation, max_length):
        assert (truncation, max_length) == (True, 64)
        return {"input_ids": [text.split() for text in texts]}

    model = client.service.model.text_encoder.model
    monkeypatch.setattr(model, "tokenizer", tokenizer, raising=False)
    usage = client.post("/v1/embeddings", json={"input": [SNOW, "one"]}).json()["usage"]
    assert usage == {"prompt_tokens": 7, "total_tokens": 7}


def test_a_run_on_vectors_reads_vectors(clients, place):
    client = clients("vectors")
    expected = nonneg.NCL.load(place.vectors).transform(place.X[:3])
    said = client.post("/embed_sparse", json={"inputs": place.X[:3].tolist()})
    np.testing.assert_allclose(dense(said.json(), 16), expected, atol=1e-6)
    one = client.post("/v1/embeddings", json={"input": place.X[0].tolist()})
    np.testing.assert_allclose(one.json()["data"][0]["embedding"], expected[0], atol=1e-6)
    assert client.post("/embed_sparse", json={"inputs": [0] * 6}).json() == [[]]
    refused = client.post("/embed_sparse", json={"inputs": "a text"})
    assert refused.status_code == 422
    assert refused.json() == {
        "error": "the run has no encoder of texts; give vectors of 6 numbers",
        "error_type": "Validation",
    }
    assert client.post("/search", json={"texts": ["a"]}).status_code == 404  # no index
    assert "no encoder" in client.post("/explain", json={"texts": ["a"]}).json()["error"]


def test_tokens_are_not_taken_for_vectors(client):
    said = client.post("/v1/embeddings", json={"input": [[101, 2054, 102]]})
    assert said.status_code == 400
    assert "numbers of tokens are not read" in said.json()["error"]["message"]


def test_search_is_that_of_the_index(client, place):
    index = SparseIndex.load(place.index)
    Z = features(place, [SNOW, PIZZA])
    expected = index.search(Z, 5)
    said = client.post("/search", json={"texts": [SNOW, PIZZA], "k": 5}).json()["hits"]
    assert [[hit["id"] for hit in hits] for hits in said] == expected.ids.tolist()
    cosines = [[hit["cosine"] for hit in hits] for hits in said]
    np.testing.assert_allclose(cosines, expected.cosines, atol=1e-6)
    vectors = WordSums().encode([SNOW, PIZZA]).tolist()
    rows = client.post("/embed_sparse", json={"inputs": [SNOW, PIZZA]}).json()
    for other in ({"vectors": vectors}, {"rows": rows}):
        again = client.post("/search", json={**other, "k": 5}).json()["hits"]
        assert [[hit["id"] for hit in hits] for hits in again] == expected.ids.tolist()
    assert all(hit["text"] == TEXTS[hit["id"]] for hits in said for hit in hits)
    few = expected.ids[0, 1:4].tolist()
    among = client.post("/search", json={"texts": [SNOW], "among": few}).json()["hits"]
    assert sorted(hit["id"] for hit in among[0]) == sorted(few)
    assert client.post("/search", json={"texts": [SNOW], "among": []}).json() == {"hits": [[]]}
    assert client.post("/search", json={"rows": [[]]}).json() == {"hits": [[]]}


def test_explain_adds_up(client, place):
    ncl = nonneg.NCL.load(place.run)
    X = WordSums().encode([SNOW, TEXTS[0]])
    two = client.post("/explain", json={"texts": [SNOW, SNOW.replace("wind", "fog")]}).json()
    assert two["cosine"] == pytest.approx(sum(s["contribution"] for s in two["shared"]))
    known = ncl.explain(*WordSums().encode([SNOW, SNOW.replace("wind", "fog")]))
    assert two["cosine"] == pytest.approx(known.cosine, abs=1e-6)
    assert [s["feature"] for s in two["shared"]] == [s.feature for s in known.shared]
    names = ncl.get_feature_names_out()
    assert all(s["name"] == names[s["feature"]] for s in two["shared"])
    alone = client.post("/explain", json={"texts": [SNOW]}).json()
    assert alone["cosine"] == pytest.approx(1)
    beside = client.post("/explain", json={"texts": [SNOW], "id": 0}).json()
    assert beside["cosine"] == pytest.approx(ncl.explain(X[0], X[1]).cosine, abs=1e-6)
    for body, status in (
        ({"texts": [SNOW], "id": 10_000}, 404),
        ({"texts": [SNOW], "id": "tea"}, 404),
        ({"texts": [SNOW] * 2, "id": 0}, 422),
        ({"texts": [SNOW] * 3}, 422),
        ({"texts": [SNOW], "vectors": X[:1].tolist()}, 422),
        ({}, 422),
    ):
        assert client.post("/explain", json=body).status_code == status, body


def test_features_come_by_use_and_by_name(client, place):
    ncl = nonneg.NCL.load(place.run)
    said = client.get("/features", params={"limit": 5, "offset": 1}).json()
    assert (said["n_features"], said["n_found"]) == (32, 32)
    assert [f["feature"] for f in said["features"]] == ncl.rank_[1:6].tolist()
    strongest = int(ncl.rank_[0])
    name = ncl.get_feature_names_out()[strongest]
    found = client.get("/features", params={"find": name.upper()}).json()
    assert strongest in [f["feature"] for f in found["features"]]
    one = client.get(f"/features/{strongest}").json()
    assert one["name"] == name
    assert one["expected_activation"] == pytest.approx(ncl.expected_activation_[strongest])
    shares = place.Z[:, strongest] / np.maximum(np.linalg.norm(place.Z, axis=1), 1e-9)
    assert [hit["cosine"] for hit in one["samples"]] == pytest.approx(
        sorted(shares, reverse=True)[:10], abs=1e-5
    )
    assert client.get("/features/32").status_code == 404
    assert client.get("/features/-1").status_code == 422
    assert client.get("/features/tea").status_code == 422


def test_curated_features_say_so(place):
    from nonneg.runs.run_model import RunModel
    from nonneg.serve import Service

    model = RunModel(place.vectors)
    model.ncl.merge([[3, 5]]).hide([7])
    service = Service(model)
    try:
        assert service.feature(3).members == [3, 5]
        assert service.feature(5).merged_into == 3
        assert service.feature(7).is_hidden
        assert not service.feature(3).is_hidden
    finally:
        service.close()


ODD = [
    b'{"inputs": NaN}', b'{"inputs": [NaN, 1]}', b'{"inputs": [[1e999]]}', b'{"inputs": []}',
    b'{"inputs": ""}', b'{"inputs": " "}', b'{"inputs": ["snow", ""]}', b'{"inputs": [[]]}',
    b'{"inputs": "\\ud800"}', b'{"inputs": null}', b'{"inputs": {"a": 1}}',
    b'{"inputs": [[1], "a"]}',
    b'{"inputs": [true, false]}', b'{"inputs": 7}', b'{"inputs": "a", "odd": 1}', b"{", b"", b"[]",
    b'{"inputs": "a", "truncate": false}', b"\xff", b'{"\xff": 1}', b'"a"',
    b'{"inputs": ' + b"9" * 5000 + b"}", b'{"inputs": ' + b"[" * 50_000 + b"]" * 50_000 + b"}",
    b'{"inputs": [1, 2, 3, 4, 5, 1e39]}', b'{"inputs": [1, 2, 3]}',
    b'{"inputs": "a", "\\ud800": 1}',
]  # fmt: skip


@pytest.mark.parametrize("run", ["texts", "vectors"])
def test_odd_bodies_are_refused_in_a_sentence(clients, run):
    client = clients(run)
    for path in ("/embed_sparse", "/v1/embeddings", "/search", "/explain"):
        for body in ODD:
            given = body.replace(b'"inputs"', b'"input"') if path.startswith("/v1") else body
            headers = {"content-type": "application/json"}
            said = client.post(path, content=given, headers=headers)
            assert 400 <= said.status_code < 500, (path, given[:50], said.text)
            error = said.json()["error"]
            why = error["message"] if path.startswith("/v1") else error
            assert why
            assert "\n" not in why


def test_words_of_refusals(client):
    def why(path, body):
        return client.post(path, json=body).json()["error"]

    assert why("/embed_sparse", {}) == "inputs is missing"
    assert why("/embed_sparse", {"inputs": "a", "odd": 1}) == "unknown key 'odd'"
    assert why("/embed_sparse", {"inputs": ["a", " "]}) == "inputs holds an empty text in place 1"
    assert why("/embed_sparse", {"inputs": [[1], "a"]}).startswith("inputs is neither a text")
    assert (
        why("/search", {"texts": ["a"], "k": 0}) == "k: input should be greater than or equal to 1"
    )
    assert (
        why("/search", {"texts": ["a"], "vectors": [[1.0]]}) == "give one of texts, vectors, rows"
    )
    assert "vector of 1 numbers in place 0; the run reads 16" in why(
        "/search", {"vectors": [[1.0]]}
    )
    one = {"index": 1, "value": 1}
    assert why("/search", {"rows": [[one, one]]}) == "a row holds one feature twice"
    assert "no feature 99" in why("/search", {"rows": [[{"index": 99, "value": 1}]]})
    assert "no sample with id 4000" in why("/search", {"texts": ["a"], "among": [4000]})
    bare = client.post("/embed_sparse", content=b'{"inputs": "snow"}').json()["error"]
    assert bare == "the body is no JSON object, or came without content-type: application/json"
    assert client.get("/nowhere").json()["error"] == "there is nothing under this path"
    assert client.get("/search").json()["error"] == "the path has other methods"
    assert client.get("/v1/nowhere").json()["error"]["type"] == "invalid_request_error"


def test_health_and_metrics_count(client):
    assert client.get("/health").json() == {"status": "ok"}
    client.post("/embed_sparse", json={"inputs": ["snow", "wind"]})
    client.post("/embed_sparse", json={"inputs": []})
    client.get("/nowhere")
    said = client.get("/metrics")
    assert said.headers["content-type"].startswith("text/plain; version=0.0.4")
    lines = said.text.splitlines()
    assert 'nonneg_requests_total{route="/embed_sparse",method="POST",status="200"} 1' in lines
    assert 'nonneg_requests_total{route="/embed_sparse",method="POST",status="422"} 1' in lines
    assert 'nonneg_requests_total{route="other",method="GET",status="404"} 1' in lines
    assert 'nonneg_request_seconds_count{route="/embed_sparse"} 2' in lines
    assert 'nonneg_request_seconds_bucket{route="/embed_sparse",le="+Inf"} 2' in lines
    assert 'nonneg_inputs_total{thread="embedding"} 2' in lines
    assert f"nonneg_index_samples {len(TEXTS)}" in lines
    client.service.close()
    assert client.get("/health").status_code == 503
    stopped = client.post("/embed_sparse", json={"inputs": "snow"})
    assert (stopped.status_code, stopped.headers["retry-after"]) == (503, "1")


def test_the_reference_shows_every_route_without_a_script(client):
    api = client.get("/openapi.json").json()
    page = client.get("/docs")
    assert "<script" not in page.text
    assert "default-src 'none'" in page.headers["content-security-policy"]
    for path in api["paths"]:
        assert path in page.text
    assert json.loads(client.get("/openapi.json").text)["info"]["title"] == "nonneg"
    assert client.get("/redoc").status_code == 404
    inputs = api["components"]["schemas"]["EmbedSparse"]["properties"]["inputs"]["anyOf"]
    (vector,) = (kind for kind in inputs if kind.get("items", {}).get("type") == "number")
    assert vector["minItems"] == vector["maxItems"] == client.service.model.n_inputs


def test_the_examples_of_the_reference_can_be_sent(client, clients):
    def examples(asked):
        page = html.unescape(asked.get("/docs").text)
        assert "list of strings or list of numbers or list of lists of numbers" in page
        return re.findall(r"curl -s localhost:8080(\S+) .*? -d '(.*?)'</pre>", page)

    found = examples(client)
    assert [path for path, _ in found] == ["/embed_sparse", "/v1/embeddings", "/search", "/explain"]
    for path, body in found:
        assert client.post(path, json=json.loads(body)).status_code == 200, path
    of_vectors = clients("vectors")
    for path, body in examples(of_vectors):
        given = json.loads(body.replace("…", "1, 2, 3, 4"))
        expected = 404 if path == "/search" else 200  # there is no index
        assert of_vectors.post(path, json=given).status_code == expected, path
