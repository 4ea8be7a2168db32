"""Train, measure and ship sentence embeddings without labels.

The parts that users call: `isospace.train.train`, `isospace.evaluate.evaluate`,
`isospace.loading.load_encoder`, and `isospace.objectives.OBJECTIVES`.
"""

from importlib.metadata import version

__version__ = version("isospace")
