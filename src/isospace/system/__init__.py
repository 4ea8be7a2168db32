"""Services of the machine: files, processes, signals, devices and progress."""
