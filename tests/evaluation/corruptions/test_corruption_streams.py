from nonneg.evaluation.corruptions.pixels import Stream
from nonneg.pairs.view_settings import VIEW_STREAMS


def test_no_two_corruptions_share_random_numbers():
    # An IntEnum makes an alias of a second name for a number; an alias is not listed.
    assert len(Stream) == len(Stream.__members__) == 7
    assert not set(Stream) & {0, *VIEW_STREAMS}
