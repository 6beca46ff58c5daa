"""What a training shows of itself while it lasts: its step and its loss, in a file of its folder.

A training that only measures its speed ends itself after some seconds.
"""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from typing import Any

from transformers import TrainerCallback, TrainerControl, TrainerState, TrainingArguments

from interextra.store.files import write_json
from interextra.store.progress import NOTE

CHANGES_NO_RESULT = True  # it looks on: see `store.code`
EVERY = 1.0  # seconds between two notes


class Clock:
    """When a training began and its steps ended.

    Parameters
    ----------
    now
        Tells the time in seconds.
    limit
        Seconds after the end of the first step, which is the warm-up, in which the training ends
        itself after the next step. Where the first step took twice as long, it is the only one.
    """

    def __init__(self, now: Callable[[], float], limit: float) -> None:
        self.now = now
        self.limit = limit
        self.began = 0.0
        self.ends: list[float] = []

    @property
    def is_over(self) -> bool:
        """Whether the time is up."""
        if len(self.ends) == 1:
            return self.seconds >= 2 * self.limit
        return self.ends[-1] - self.ends[0] >= self.limit

    @property
    def step(self) -> float:
        """Seconds of a step, without the first one unless it is the only one."""
        if len(self.ends) == 1:
            return self.seconds
        return (self.ends[-1] - self.ends[0]) / (len(self.ends) - 1)

    @property
    def seconds(self) -> float:
        """Seconds of all steps."""
        return self.ends[-1] - self.began


_clock: ContextVar[Clock | None] = ContextVar("_clock", default=None)


@contextmanager
def clocked(now: Callable[[], float], limit: float) -> Iterator[Clock]:
    """Time the training within the block, which ends itself, see `Clock`."""
    clock = Clock(now, limit)
    token = _clock.set(clock)
    try:
        yield clock
    finally:
        _clock.reset(token)


class Watch(TrainerCallback):
    """Notes step, steps and loss in NOTE of a folder until the training ends."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / NOTE
        self.noted = time.monotonic()
        self.clock = _clock.get()

    def on_train_begin(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **others: Any
    ) -> None:
        """Start the clock."""
        if self.clock:
            self.clock.began = self.clock.now()

    def on_step_end(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **others: Any
    ) -> None:
        """Note the step, and end a training that is only timed."""
        if self.clock:
            self.clock.ends.append(self.clock.now())
            control.should_training_stop |= self.clock.is_over
        is_due = time.monotonic() - self.noted >= EVERY
        if not is_due or not state.is_world_process_zero:
            return
        self.noted = time.monotonic()
        losses = [entry["loss"] for entry in state.log_history if "loss" in entry]
        note = {"step": state.global_step, "steps": state.max_steps, "loss": losses[-1:]}
        write_json(self.path, note)

    def on_train_end(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **others: Any
    ) -> None:
        """Remove the note, which is none of the results."""
        self.path.unlink(missing_ok=True)
