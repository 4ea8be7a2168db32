"""Pages in the browser on one or two models and a corpus: neighbours, similarities, geometry."""
