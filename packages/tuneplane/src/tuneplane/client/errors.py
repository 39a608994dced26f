"""What can go wrong between here and the console, each as one sentence with what to do. Refusals are `contract.refusals.RefusedError`."""

from __future__ import annotations


class ConsoleError(Exception):
    """`message` says what went wrong, `hint` what to do; both in the reader's language. `code` is stable."""

    code = "failed"

    def __init__(self, message: str, hint: str = "", code: str = "") -> None:
        super().__init__(message)
        self.message, self.hint = message, hint
        if code:
            self.code = code


class UnreachableError(ConsoleError):
    """No usable answer: refused, no route, no name, TLS, timeout, or something that is not a TunePlane console answered."""

    code = "unreachable"


class NotSignedInError(ConsoleError):
    """No token, or one that the console does not take (any more)."""

    code = "not-signed-in"


class ProblemError(ConsoleError):
    """The console answered with a problem that is no refusal of what was submitted: not found, conflict, too many requests."""

    def __init__(self, status: int, message: str, hint: str = "", code: str = "") -> None:
        super().__init__(message, hint, code)
        self.status = status


class NotFoundError(ProblemError):
    """What was asked for is not there, or not this user's to see."""


class DamagedError(ConsoleError):
    """What arrived is not what the console said it would send."""

    code = "damaged"
