"""What the operating system, JSON and YAML say, in the reader's language where it is a sentence that is known here.

Messages quote them as the reason; the libraries themselves speak English only.
"""

from __future__ import annotations

import re

from tuneplane.i18n import N_, _

_ERRNO = re.compile(r"\[Errno -?[0-9]+\] ")


def system_words(error: Exception) -> str:
    """The reason of an `OSError`, without the number and the file that its text begins and ends with; other errors as they are."""
    text = (error.strerror if isinstance(error, OSError) else "") or str(error) or type(error).__name__
    return _(_ERRNO.sub("", text, count=1))


def json_words(error: Exception) -> str:
    """Where and why a text is not JSON."""
    import json

    if not isinstance(error, json.JSONDecodeError):
        return str(error)
    return _("line {line}, column {column}: {why}").format(line=error.lineno, column=error.colno, why=_(error.msg))


def yaml_words(context: str | None, problem: str | None) -> str:
    """Why a text is not YAML: what was found, and what was being read."""
    if context and problem:
        return _("{context} {problem}").format(context=_(context), problem=_(problem))
    only = problem or context or ""
    return _(only)


# Only here so that they are marked; each is the original's exact text.
SYSTEM = (
    N_("Permission denied"),
    N_("Operation not permitted"),
    N_("No such file or directory"),
    N_("File exists"),
    N_("Is a directory"),
    N_("Not a directory"),
    N_("Directory not empty"),
    N_("File name too long"),
    N_("Too many levels of symbolic links"),
    N_("Read-only file system"),
    N_("No space left on device"),
    N_("Disk quota exceeded"),
    N_("Input/output error"),
    N_("Stale file handle"),
    N_("Too many open files"),
    N_("Cannot allocate memory"),
    N_("Connection refused"),
    N_("Connection reset by peer"),
    N_("Connection timed out"),
    N_("Network is unreachable"),
    N_("No route to host"),
    N_("Broken pipe"),
    N_("Name or service not known"),
    N_("Temporary failure in name resolution"),
    N_("No address associated with hostname"),
    N_("Server disconnected without sending a response."),
    N_("no such directory"),
    N_("is a symbolic link"),
)
JSON = (
    N_("Expecting value"),
    N_("Expecting property name enclosed in double quotes"),
    N_("Expecting ':' delimiter"),
    N_("Expecting ',' delimiter"),
    N_("Illegal trailing comma before end of object"),
    N_("Illegal trailing comma before end of array"),
    N_("Extra data"),
    N_("Unterminated string starting at"),
    N_("Invalid control character at"),
    N_("Invalid \\escape"),
    N_("Invalid \\uXXXX escape"),
)
YAML = (
    N_("while parsing a block collection"),
    N_("while parsing a block mapping"),
    N_("while parsing a flow mapping"),
    N_("while parsing a flow sequence"),
    N_("while parsing a flow node"),
    N_("while parsing a block node"),
    N_("while parsing a node"),
    N_("while scanning for the next token"),
    N_("while scanning a simple key"),
    N_("while scanning a plain scalar"),
    N_("while scanning a quoted scalar"),
    N_("while parsing a quoted scalar"),
    N_("while scanning a block scalar"),
    N_("while scanning a directive"),
    N_("while scanning a tag"),
    N_("while parsing a tag"),
    N_("while scanning an alias"),
    N_("while scanning an anchor"),
    N_("did not find expected key"),
    N_("did not find expected node content"),
    N_("did not find expected ',' or ']'"),
    N_("did not find expected ',' or '}'"),
    N_("did not find expected '-' indicator"),
    N_("did not find expected <document start>"),
    N_("did not find expected alphabetic or numeric character"),
    N_("did not find expected comment or line break"),
    N_("did not find expected whitespace or line break"),
    N_("did not find expected hexdecimal number"),
    N_("could not find expected ':'"),
    N_("mapping values are not allowed in this context"),
    N_("mapping keys are not allowed in this context"),
    N_("block sequence entries are not allowed in this context"),
    N_("found character that cannot start any token"),
    N_("found a tab character that violates indentation"),
    N_("found a tab character where an indentation space is expected"),
    N_("found an indentation indicator equal to 0"),
    N_("found unexpected end of stream"),
    N_("found unexpected document indicator"),
    N_("found unexpected ':'"),
    N_("found unknown escape character"),
    N_("found invalid Unicode character escape code"),
    N_("found undefined tag handle"),
    N_("found undefined alias"),
    N_("found duplicate anchor; first occurrence"),
    N_("second occurrence"),
    N_("found incompatible YAML document"),
    N_("exceeded maximum nesting depth"),
    N_("expected a single document in the stream"),
    N_("but found another document"),
    N_("control characters are not allowed"),
    N_("incomplete UTF-8 octet sequence"),
    N_("invalid leading UTF-8 octet"),
    N_("invalid trailing UTF-8 octet"),
    N_("invalid Unicode character"),
)
