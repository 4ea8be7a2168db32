"""What ends the work before its end: which errors say how to continue."""

import errno

import pytest
import torch

from isospace.errors import Interrupted, Stopped
from isospace.system.lifecycle import stopping, working_in

FULL = OSError(errno.ENOSPC, "No space left on device", "run/last.pt")


@pytest.mark.parametrize(
    ("error", "kind", "message"),
    [
        (KeyboardInterrupt(), Interrupted, "interrupted; the same command resumes"),
        (FULL, Stopped, "run/last.pt: No space left on device; the same command resumes"),
        (OSError("lance cannot write"), Stopped, "lance cannot write; the same command resumes"),
        (BrokenPipeError(), BrokenPipeError, ""),
        (ConnectionResetError("by peer"), ConnectionError, "by peer"),
        (FileNotFoundError(errno.ENOENT, "No such file", "run"), FileNotFoundError, "'run'"),
    ],
)
def test_only_what_can_be_continued_says_how(error, kind, message):
    with pytest.raises(kind) as raised, stopping(lambda: "the same command resumes"):
        raise error
    assert message in str(raised.value)


def test_too_little_memory_says_which_settings_need_less(tmp_path):
    with (
        pytest.raises(Stopped, match=r"out of memory.*`max_length`.*continue: run it again"),
        working_in(tmp_path, "run it again"),
    ):
        raise torch.OutOfMemoryError
