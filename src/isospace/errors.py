"""The one exception that is meant for the person at the keyboard."""


class UserError(Exception):
    """Bad input or an impossible request.

    The message says what was wrong, where (file, line, value), what was expected and what to do.
    The command line prints it without a traceback and exits with status 2.
    """
