"""Batches of concurrent requests: one thread that computes what waits, together."""

import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

Work = TypeVar("Work")
Result = TypeVar("Result")


class TooBusyError(Exception):
    """More waits already than may wait; ask again later."""


class StoppedError(Exception):
    """The thread takes no more work."""


@dataclass
class BatchCounts:
    """What a thread has done so far."""

    n_batches: int = 0
    n_inputs: int = 0
    n_failed: int = 0
    seconds: float = 0.0


@dataclass
class _Job(Generic[Work, Result]):
    work: Work
    n_inputs: int
    done: Future[Result] = field(default_factory=Future)


class Batches(Generic[Work, Result]):
    """A thread that gathers work for a few milliseconds and computes it at once.

    While a batch is computed the next one gathers, so that under load it waits for nothing. Work
    whose future was cancelled before its turn is left out. If a batch fails, each piece of work is
    computed again by itself, so that only what is at fault fails.

    Args:
        compute: From some work to one result each; called from the thread only.
        most: Inputs per batch; one piece of work with more is a batch of its own.
        most_waiting: Inputs that may wait.
        wait: Seconds that a batch which is not full waits for more.
        name: Of the thread.

    Example:
        >>> doubled = Batches(lambda numbers: [2 * number for number in numbers])
        >>> doubled.submit(21).result()
        42
        >>> doubled.close()
    """

    def __init__(
        self,
        compute: Callable[[Sequence[Work]], Sequence[Result]],
        *,
        most: int = 64,
        most_waiting: int = 1024,
        wait: float = 0.002,
        name: str = "batches",
    ) -> None:
        self._compute, self._most, self._most_waiting = compute, most, most_waiting
        self._wait = wait
        self.counts = BatchCounts()
        self._jobs: deque[_Job[Work, Result]] = deque()
        self._n_waiting = 0
        self._is_closed = False
        self._changed = threading.Condition()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    @property
    def n_waiting(self) -> int:
        """Inputs whose computation has not begun."""
        return self._n_waiting

    @property
    def is_running(self) -> bool:
        """Whether work is taken and computed."""
        return self._thread.is_alive() and not self._is_closed

    def submit(self, work: Work, n_inputs: int = 1) -> Future[Result]:
        """The future result of some work.

        Raises:
            TooBusyError: Too much waits already. Work is always taken while nothing waits.
            StoppedError: :meth:`close` was called.
        """
        with self._changed:
            if not self.is_running:
                raise StoppedError
            if self._n_waiting and self._n_waiting + n_inputs > self._most_waiting:
                raise TooBusyError
            job: _Job[Work, Result] = _Job(work, n_inputs)
            self._jobs.append(job)
            self._n_waiting += n_inputs
            self._changed.notify()
        return job.done

    def close(self) -> None:
        """Compute what was taken, then end the thread; more is refused from now on."""
        with self._changed:
            self._is_closed = True
            self._changed.notify()
        self._thread.join()

    def _run(self) -> None:
        while batch := self._gathered():
            started = time.perf_counter()
            self._finish(batch)
            self.counts.seconds += time.perf_counter() - started
            self.counts.n_batches += 1
            self.counts.n_inputs += sum(job.n_inputs for job in batch)

    def _gathered(self) -> list[_Job[Work, Result]]:
        """The next batch; empty when the thread is closed and all is done."""
        batch: list[_Job[Work, Result]] = []
        while not batch:
            with self._changed:
                self._changed.wait_for(lambda: self._jobs or self._is_closed)
                if not self._jobs:
                    return []
                if self._wait:
                    self._changed.wait_for(
                        lambda: self._n_waiting >= self._most or self._is_closed, self._wait
                    )
                batch = self._taken()
        return batch

    def _taken(self) -> list[_Job[Work, Result]]:
        """What waits, up to a whole batch, without what was cancelled."""
        batch: list[_Job[Work, Result]] = []
        n_inputs = 0
        while self._jobs and (not batch or n_inputs + self._jobs[0].n_inputs <= self._most):
            job = self._jobs.popleft()
            self._n_waiting -= job.n_inputs
            if job.done.set_running_or_notify_cancel():
                batch.append(job)
                n_inputs += job.n_inputs
        return batch

    def _finish(self, batch: list[_Job[Work, Result]]) -> None:
        """Give each job its result or its error; no error ends the thread."""
        try:
            results: Any = self._compute([job.work for job in batch])
        except Exception as error:  # noqa: BLE001
            if len(batch) == 1:
                self.counts.n_failed += 1
                batch[0].done.set_exception(error)
                return
            for job in batch:
                self._finish([job])
            return
        for job, result in zip(batch, results, strict=True):
            with suppress(Exception):  # whoever asked may have gone
                job.done.set_result(result)
