"""Servers as processes: killed and started again, ended while they answer, and not started."""

import os
import re
import shutil
import signal
import threading
import time

import pytest
from forking import Forked

import nonneg as library
from nonneg.runs import index_run
from nonneg.serve import Limits, open_service, serve_run
from nonneg.serve.running import check_key, listening_socket

httpx = pytest.importorskip("httpx", reason="httpx is not installed; it is in the dev extra")

SERVER = """
import sys, time
import pytest

sys.modules["numba"] = None  # compiling takes longer than all else
from word_sums import installed
from nonneg.runs.run_model import RunModel
from nonneg.serve import serve_run

installed(pytest.MonkeyPatch())
compute = RunModel.of_texts

def slowly(model, texts):
    time.sleep(float(sys.argv[3]))
    return compute(model, texts)

RunModel.of_texts = slowly
serve_run(
    sys.argv[1], index=sys.argv[2], port=0,
    ready=lambda address, service: parent.send(address),
)
print("ended")
"""
SNOW = {"texts": ["any news of snow and wind"]}


@pytest.fixture
def server(extra, place):
    started = []

    def start(seconds=0):
        forked = Forked(SERVER, place.run, place.index, seconds)
        started.append(forked)
        address = forked.said()
        assert address, forked.end().stderr
        return forked, address

    yield start
    for forked in started:
        forked.kill()


def test_a_killed_server_serves_the_same_index_again(server):
    first, address = server()
    before = httpx.post(f"{address}search", json=SNOW).json()
    assert len(before["hits"][0]) == 10
    os.kill(first.pid, signal.SIGKILL)
    _, address = server()
    assert httpx.post(f"{address}search", json=SNOW).json() == before


def test_a_server_that_is_told_to_end_answers_what_it_began(server):
    forked, address = server(seconds=1)
    said = []
    asker = threading.Thread(
        target=lambda: said.append(httpx.post(f"{address}search", json=SNOW, timeout=20))
    )
    asker.start()
    while 'nonneg_batches_total{thread="embedding"} 0' not in httpx.get(f"{address}metrics").text:
        pass
    time.sleep(0.3)  # the request has come
    os.kill(forked.pid, signal.SIGTERM)
    asker.join(20)
    assert said[0].status_code == 200
    assert len(said[0].json()["hits"][0]) == 10
    ended = forked.end()
    assert (ended.returncode, ended.stdout) == (0, "ended\n")
    with pytest.raises(httpx.ConnectError):
        httpx.get(f"{address}health")


def test_a_port_that_is_taken():
    with listening_socket("127.0.0.1", 0) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(ValueError, match=rf"cannot listen on port {port} of 127.0.0.1 \(Addr"):
            listening_socket("127.0.0.1", port)
    with pytest.raises(ValueError, match="choose another with --port or --host"):
        listening_socket("192.0.2.1", 0)
    with pytest.raises(ValueError, match="cannot listen on port 0 of not-a-host"):
        listening_socket("not-a-host.invalid", 0)


def test_others_need_a_key():
    for host in ("127.0.0.1", "127.8.8.8", "localhost", "::1"):
        check_key(host, None)
    for host in ("0.0.0.0", "::", "192.168.0.1", "example.org", ""):
        with pytest.raises(ValueError, match=r"from other machines; set .* NONNEG_API_KEY"):
            check_key(host, None)
        check_key(host, "secret")
    with pytest.raises(ValueError, match="the API key is empty"):
        check_key("127.0.0.1", " ")


def test_the_command_says_what_it_serves_and_ends(extra, nonneg, place, monkeypatch):
    import uvicorn

    served = []

    def run(server, sockets):
        served.append((server.config.app, sockets[0].getsockname()[0]))
        sockets[0].close()

    monkeypatch.setattr(uvicorn.Server, "run", run)
    before = signal.getsignal(signal.SIGTERM)
    ended = nonneg("serve", place.run, "--index", place.index, "--port", 0, "--max-batch", 7)
    assert ended.returncode == 0, ended.stderr
    assert re.search(
        r"\(32 features of texts, an index of 240\): http://127.0.0.1:\d+/", ended.stdout
    )
    assert ended.stdout.endswith("stopped\n")
    assert served[0][1] == "127.0.0.1"
    assert signal.getsignal(signal.SIGTERM) is before
    ended = nonneg("serve", place.vectors, "--port", 0)
    assert "(16 features of vectors of 6 numbers, no index)" in ended.stdout
    assert f"first run: nonneg report {place.vectors}" in ended.stdout


def test_what_cannot_be_served_is_said_in_a_sentence(extra, nonneg, place, tmp_path):
    def error(*arguments):
        ended = nonneg("serve", *arguments, "--port", 0)
        assert ended.returncode == 1, ended.stdout
        return ended.stderr

    assert "holds no fitted run" in error(tmp_path)
    assert "holds no index" in error(place.run, "--index", tmp_path)
    assert "another run" in error(place.vectors, "--index", place.index)
    assert "can be reached from other machines" in error(place.run, "--host", "0.0.0.0")
    (tmp_path / "other").mkdir()
    assert "holds no sentence-transformers model" in error(
        place.run, "--encoder", tmp_path / "other"
    )
    with listening_socket("127.0.0.1", 0) as taken:
        assert (
            "cannot listen on port"
            in nonneg("serve", place.run, "--port", taken.getsockname()[1]).stderr
        )


def test_without_the_extra_the_command_names_it(nonneg, place, monkeypatch):
    import sys

    monkeypatch.setitem(sys.modules, "uvicorn", None)
    ended = nonneg("serve", place.run)
    assert ended.returncode == 1
    assert "install them with: pip install 'nonneg[serve]'" in ended.stderr


def test_listening_elsewhere_is_refused_before_anything_is_loaded(extra, tmp_path):
    with pytest.raises(ValueError, match=r"0\.0\.0\.0 can be reached"):
        serve_run(tmp_path / "nowhere", host="0.0.0.0", limits=Limits())


def test_the_index_in_the_run_folder_is_served(place, tmp_path):
    run = tmp_path / "requests"
    shutil.copytree(place.run, run)
    service = open_service(run)
    assert service.index is None
    service.close()
    index_run(run, str(place.folder / "requests.csv"))
    service = open_service(run)
    assert len(service.index) == len(place.Z)
    service.close()
    library.NCL.load(run).hide([int(library.NCL.load(run).rank_[0])]).save(run)
    with pytest.raises(ValueError, match="fitted or curated since"):
        open_service(run)
