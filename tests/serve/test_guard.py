"""Who may ask, how much and how long; what browsers are told; that a failure is one sentence."""

import asyncio
import base64
import threading

import pytest

from nonneg.serve import Limits
from nonneg.serve.guard import Guard

KEY = "a key with ünïcode"
SNOW = {"inputs": "snow"}


def bearer(key):
    return {"authorization": b"Bearer " + key.encode()}


def test_without_the_key_there_is_no_answer(clients):
    client = clients(api_key=KEY)
    wrong = [{}, *map(bearer, ("wrong", ""))]
    wrong += [{"authorization": odd} for odd in (b"Bearer", b"Basic ???", b"\xff \xff")]
    for path in ("/", "/docs", "/openapi.json", "/metrics", "/features"):
        for headers in wrong:
            said = client.get(path, headers=headers)
            assert said.status_code == 401, (path, headers)
            way = "Basic" if path in ("/", "/docs") else "Bearer"
            assert said.headers["www-authenticate"].startswith(way)
        assert client.get(path, headers=bearer(KEY)).status_code == 200
        assert client.get(path, auth=("any", KEY)).status_code == 200  # as a browser gives it
    assert client.post("/embed_sparse", json=SNOW, headers=bearer(KEY)).status_code == 200
    refused = client.post("/v1/embeddings", json={"input": "snow"})
    assert refused.status_code == 401
    assert refused.json()["error"]["code"] == "invalid_api_key"
    assert client.get("/health").status_code == 200


def test_keys_are_compared_in_constant_time(monkeypatch, clients):
    import hmac

    seen = []
    right = hmac.compare_digest

    def compared(a, b):
        seen.append((len(a), len(b)))
        return right(a, b)

    monkeypatch.setattr(hmac, "compare_digest", compared)
    clients(api_key=KEY).get("/metrics", headers=bearer("x" * 1000))
    assert seen == [(32, 32)]


def test_names_of_other_sites_are_refused(clients):
    client = clients(hosts={"localhost", "127.0.0.1", "[::1]"})
    for host, status in (
        ("127.0.0.1:8080", 200), ("LOCALHOST", 200), ("[::1]:80", 200), ("evil.example", 421),
        ("127.0.0.1.evil.example", 421), ("", 421), ("[::1", 421),
    ):  # fmt: skip
        assert client.get("/health", headers={"host": host}).status_code == status, host


def test_headers_keep_browsers_careful(client):
    for path in ("/", "/docs", "/health", "/nowhere", "/openapi.json"):
        headers = client.get(path, headers={"origin": "https://evil.example"}).headers
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["x-frame-options"] == "DENY"
        assert "frame-ancestors 'none'" in headers["content-security-policy"]
        assert not [name for name in headers if name.startswith("access-control")]
    preflight = client.options("/embed_sparse", headers={"origin": "https://evil.example"})
    assert preflight.status_code == 405


def test_bodies_and_batches_have_a_size(clients):
    client = clients(limits=Limits(max_batch=3, max_body=500))
    names = {"/embed_sparse": "inputs", "/v1/embeddings": "input", "/search": "texts"}
    for path, name in names.items():
        assert client.post(path, json={name: ["snow"] * 3}).status_code == 200
        many = client.post(path, json={name: ["snow"] * 4})
        assert many.status_code == 413
        assert f"{name} holds 4 inputs; at most 3 per request" in many.text
        large = client.post(path, json={name: "snow " * 200})
        assert large.status_code == 413
        assert "more than 500 bytes" in large.text
    rows = [[{"index": 0, "value": 1}]] * 4
    assert client.post("/search", json={"rows": rows}).status_code == 413

    assert client.get("/health").status_code == 200


def asked(service, receive):
    """The status and the body of an answer to a body that comes in parts."""
    sent = []

    async def send(message):
        sent.append(message)

    async def app(scope, receive, send):
        raise AssertionError("the application was asked")

    scope = {"type": "http", "method": "POST", "path": "/embed_sparse", "headers": []}
    asyncio.run(Guard(app, service)(scope, receive, send))
    return sent[0]["status"], sent[1]["body"]


def test_a_body_without_a_length_is_cut(clients):
    async def endless():
        return {"type": "http.request", "body": b" " * 100, "more_body": True}

    status, said = asked(clients(limits=Limits(max_body=500)).service, endless)
    assert status == 413
    assert b"more than 500 bytes" in said


@pytest.fixture
def held(monkeypatch):
    """Lets computing wait until the test lets it go."""
    begun, go = threading.Event(), threading.Event()

    def hold(client):
        model = client.service.model
        compute = model.of_texts

        def waits(texts):
            begun.set()
            assert go.wait(10)
            return compute(texts)

        monkeypatch.setattr(model, "of_texts", waits)
        return begun, go

    yield hold
    go.set()


def test_what_takes_too_long_is_given_up(clients, held):
    client = clients(limits=Limits(timeout=0.2))
    held(client)
    said = client.post("/embed_sparse", json=SNOW)
    assert (said.status_code, said.json()) == (
        504, {"error": "not done after 0.2 seconds", "error_type": "Backend"},
    )  # fmt: skip
    assert (
        client.post("/v1/embeddings", json={"input": "a"}).json()["error"]["type"] == "server_error"
    )


def test_a_full_queue_says_when_to_ask_again(clients, held):
    client = clients(limits=Limits(max_waiting=2))
    begun, go = held(client)
    said = []

    def ask():
        said.append(client.post("/embed_sparse", json=SNOW).status_code)

    askers = [threading.Thread(target=ask) for _ in range(3)]
    askers[0].start()
    assert begun.wait(10)
    for asker in askers[1:]:
        asker.start()
    while client.service.embedding.n_waiting < 2:
        pass
    refused = client.post("/embed_sparse", json=SNOW)
    assert (refused.status_code, refused.headers["retry-after"]) == (429, "1")
    assert refused.json()["error_type"] == "Overloaded"
    assert (
        client.post("/v1/embeddings", json={"input": "a"}).json()["error"]["type"]
        == "rate_limit_error"
    )
    go.set()
    for asker in askers:
        asker.join(10)
    assert said == [200] * 3


def test_a_failure_is_logged_and_said_in_a_sentence(clients, monkeypatch, caplog):
    client = clients()

    def fails(texts):
        raise RuntimeError("secret of the machine")

    monkeypatch.setattr(client.service.model, "of_texts", fails)
    caplog.set_level("ERROR", "nonneg.serve")
    said = client.post("/embed_sparse", json=SNOW)
    assert said.status_code == 500
    assert said.json()["error"] == "the server failed; its log says why"
    assert "secret of the machine" in caplog.text


def test_a_slow_body_is_not_waited_for(clients):
    async def never():
        await asyncio.sleep(60)

    status, said = asked(clients(limits=Limits(timeout=0.1)).service, never)
    assert status == 408
    assert b"did not come in 0.1 seconds" in said


def test_a_key_given_as_the_password_of_a_browser(clients):
    client = clients(api_key=KEY)
    value = base64.b64encode(b"me:" + KEY.encode()).decode()
    assert client.get("/", headers={"authorization": f"basic {value}"}).status_code == 200
