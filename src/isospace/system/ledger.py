"""The ledger of test items: how many results have been judged by the same ones on this machine.

Each judgement may be right by chance, and who keeps the best of many keeps that chance too.
"""

from __future__ import annotations

from typing import Any

from numpy.typing import NDArray

from isospace.system.cache import cache_folder
from isospace.system.files import hash_of


def judged(items: str, result: NDArray[Any]) -> int:
    """Note that a result was judged, and count the different ones so far, this one among them.

    The same result again counts once: of a command that was repeated, a run that was resumed. It is
    an empty file of its own in the cache, so that several processes, and kills, lose none. Where
    the cache cannot be written, it is the first.

    Args:
        items: digest of the test items.
        result: what each of them came to.
    """
    folder = cache_folder() / "ledger" / items
    try:
        folder.mkdir(parents=True, exist_ok=True)
        (folder / hash_of(result.tobytes())).touch()
        return len(list(folder.iterdir()))
    except OSError:
        return 1
