"""From text to an adapted encoder: load, loop, evaluate, select, save; run folders, results."""
