"""Which random numbers belong to which corruption? One stream of a sample's draws for each."""

from enum import IntEnum


class Stream(IntEnum):
    """Streams of ``Draws``, all different; those below 100 are left to the views of training.

    Corruptions of one sample are therefore independent of each other, while the severities of one
    corruption share their numbers: a higher severity is more of the same.
    """

    GAUSSIAN_NOISE = 101
    SHOT_NOISE = 102
    IMPULSE_NOISE = 103
    MOTION_BLUR = 104
    FOG = 105
    ELASTIC = 106
    STYLISED = 107
