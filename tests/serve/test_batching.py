"""Concurrent work is computed together, in order, and none is lost."""

import threading
from concurrent.futures import CancelledError

import pytest

from nonneg.serve.batching import Batches, StoppedError, TooBusyError


class Held:
    """Squares whose first batch waits until it is let go; keeps what came together."""

    def __init__(self):
        self.begun, self.go, self.seen = threading.Event(), threading.Event(), []

    def __call__(self, numbers):
        self.seen.append(list(numbers))
        self.begun.set()
        assert self.go.wait(10)
        if 13 in numbers:
            raise ValueError("thirteen")
        return [number**2 for number in numbers]


@pytest.fixture
def held():
    return Held()


@pytest.fixture
def batches(held):
    made = Batches(held, most=4, most_waiting=6, wait=0)
    yield made
    held.go.set()
    made.close()
    assert not made.is_running


def test_what_waits_is_computed_together(held, batches):
    first = batches.submit(1)
    assert held.begun.wait(10)
    others = [batches.submit(number) for number in range(2, 8)]
    held.go.set()
    assert [f.result(10) for f in (first, *others)] == [1, 4, 9, 16, 25, 36, 49]
    assert held.seen == [[1], [2, 3, 4, 5], [6, 7]]
    batches.close()  # counts are of finished batches
    assert (batches.counts.n_batches, batches.counts.n_inputs) == (3, 7)


def test_work_of_many_inputs_is_weighed(held, batches):
    batches.submit(1)
    assert held.begun.wait(10)
    done = [batches.submit(2, 3), batches.submit(3, 2), batches.submit(4, 1)]
    assert batches.n_waiting == 6
    with pytest.raises(TooBusyError):
        batches.submit(5)
    held.go.set()
    assert [f.result(10) for f in done] == [4, 9, 16]
    assert held.seen == [[1], [2], [3, 4]]
    assert batches.submit(6, 100).result(10) == 36  # as long as nothing waits


def test_what_was_given_up_is_not_computed(held, batches):
    batches.submit(1)
    assert held.begun.wait(10)
    second, third = batches.submit(2), batches.submit(3)
    assert second.cancel()
    held.go.set()
    assert third.result(10) == 9
    with pytest.raises(CancelledError):
        second.result(10)
    assert held.seen == [[1], [3]]


def test_only_what_is_at_fault_fails(held, batches):
    batches.submit(1)
    assert held.begun.wait(10)
    done = [batches.submit(number) for number in (12, 13, 14)]
    held.go.set()
    assert done[0].result(10) == 144
    with pytest.raises(ValueError, match="thirteen"):
        done[1].result(10)
    assert done[2].result(10) == 196
    assert batches.submit(2).result(10) == 4
    assert batches.counts.n_failed == 1


def test_closing_finishes_what_was_taken(held, batches):
    done = [batches.submit(number) for number in range(5)]
    assert held.begun.wait(10)
    closing = threading.Thread(target=batches.close)
    closing.start()
    while batches.is_running:
        pass
    with pytest.raises(StoppedError):
        batches.submit(9)
    held.go.set()
    closing.join(10)
    assert [f.result(0) for f in done] == [0, 1, 4, 9, 16]
