"""Files, processes, signals, devices, progress: what the machine does for us."""
