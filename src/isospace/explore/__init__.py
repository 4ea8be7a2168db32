"""One or two models and a corpus in the browser: neighbours, similarities, geometry."""
