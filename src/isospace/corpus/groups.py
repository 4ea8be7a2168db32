"""What belongs together: rows that share or nearly share a text, or a value of a column.

Such rows are held out together, choose or judge together, and count as one where chance is judged.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

def components(texts: NDArray[np.int64]) -> NDArray[np.int64]:
    """The group of each row, where rows that share a text are in one, directly or by others.

    Args:
        texts: (row, text) number of each text, equal for texts that are the same.

    Returns:
        (row,) from 0 on, without gaps.

    >>> components(np.array([[0, 1], [2, 3], [4, 1], [4, 5]])).tolist()
    [0, 1, 0, 0]
    """
    # Not above: the processes that read docstrings import this module, and need no graphs.
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import connected_components

    count, width = texts.shape
    named: NDArray[np.int64] = np.unique(texts, return_inverse=True)[1]
    if width == 1 or not count:
        return named.ravel()
    nodes = count + named.ravel()  # a row is a node, and so is a text
    rows = np.repeat(np.arange(count), width)
    size = int(nodes.max()) + 1
    links = coo_array((np.ones(len(nodes), np.int8), (rows, nodes)), shape=(size, size))
    labels: NDArray[np.int64] = connected_components(links, directed=False)[1][:count]
    return np.unique(labels, return_inverse=True)[1]
