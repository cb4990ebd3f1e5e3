"""What happens on Ctrl-C? The step is finished, the run is saved, and only then it stops."""

import signal
import threading
from types import FrameType, TracebackType
from typing import Any, Self


class Interruption:
    """Remembers that SIGINT or SIGTERM came instead of dying of it; a second one kills as usual.

    Example:
        >>> with Interruption() as interruption:
        ...     signal.raise_signal(signal.SIGTERM)
        ...     interruption.signal_name
        'SIGTERM'
    """

    def __init__(self) -> None:
        self.signal_name: str | None = None
        self._before: dict[int, Any] = {}

    def __enter__(self) -> Self:
        # Python delivers signals to the main thread only, and lets no other thread ask for them.
        if threading.current_thread() is threading.main_thread():
            for number in (signal.SIGINT, signal.SIGTERM):
                self._before[number] = signal.signal(number, self._remember)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._restore()

    def _remember(self, number: int, frame: FrameType | None) -> None:
        self.signal_name = signal.Signals(number).name
        self._restore()

    def _restore(self) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)
        self._before.clear()
