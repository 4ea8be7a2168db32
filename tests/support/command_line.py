"""A command as a user types it, in this process."""

from isospace.cli import main


def run(capsys, *words):
    """Return the exit status, and what was printed on standard output and on standard error."""
    status = main([str(word) for word in words])
    out, err = capsys.readouterr()
    assert "Traceback" not in out + err
    return status, out, err


def run_well(capsys, *words):
    """Return what a command printed that must end well."""
    status, out, err = run(capsys, *words)
    assert status == 0, err
    return out, err
