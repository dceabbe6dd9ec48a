"""The token: a secret in a file that only its owner can read, which whoever writes must show."""

from __future__ import annotations

import os
import secrets
import stat
from contextlib import suppress
from hmac import compare_digest
from pathlib import Path

from corewise.errors import InvalidFile
from corewise.kit.files import reason_of

__all__ = ["Token"]

_SHORTEST, _LONGEST = 16, 1000  # characters


class Token:
    """Token: told apart from others in a time that does not depend on where they differ.

    Parameters
    ----------
    text : str
        The secret.
    """

    def __init__(self, text: str) -> None:
        self._secret = text.encode()
        self._former: tuple[bytes, ...] = ()

    def __repr__(self) -> str:
        """Return nothing that helps."""
        return "Token(…)"

    def admits(self, authorization: bytes | None) -> bool:
        """Return whether a header ``Authorization: Bearer …`` shows it."""
        scheme, _, shown = (authorization or b"").partition(b" ")
        return scheme.lower() == b"bearer" and compare_digest(shown.strip(), self._secret)

    def hidden_in(self, text: str) -> str:
        """Return a text without the secret, or one that it had before."""
        for secret in (self._secret, *self._former):
            text = text.replace(secret.decode(), "…")
        return text

    def renew(self, path: Path) -> bool:
        """Take the secret in a file from now on; return whether it is another.

        A file that is not there is made, with a new secret; `InvalidFile` as in `of_file`, and then the
        secret stays.
        """
        found = self.of_file(path)._secret
        if found == self._secret:
            return False
        self._former = (*self._former, self._secret)
        self._secret = found
        return True

    @classmethod
    def of_file(cls, path: Path) -> Token:
        """Return the token in a file, which is made if there is none.

        Raises
        ------
        InvalidFile
            If others can read the file, or it holds no token.
        """
        try:
            _make(path)
            handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
            with os.fdopen(handle, encoding="ascii") as file:
                _require_private(path, os.fstat(handle))
                text = file.read(_LONGEST + 2).removesuffix("\n")
        except (OSError, UnicodeDecodeError) as error:
            why = reason_of(error) if isinstance(error, OSError) else "it is not ASCII"
            raise InvalidFile(f"{path}: no token can be read: {why}") from None
        if not _SHORTEST <= len(text) <= _LONGEST or not text.isprintable() or " " in text:
            raise InvalidFile(f"{path}: a token is one word of {_SHORTEST} to {_LONGEST} characters")
        return cls(text)


def _make(path: Path) -> None:
    """Write a new token, unless there is one: whole, or not at all."""
    if path.exists():
        return
    beside = path.with_name(f".{path.name}.{os.getpid()}")
    handle = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        with os.fdopen(handle, "w", encoding="ascii") as file:
            file.write(secrets.token_urlsafe(32) + "\n")
            file.flush()
            os.fsync(file.fileno())
        with suppress(FileExistsError):  # somebody else was first: his it is
            os.link(beside, path)
    finally:
        beside.unlink()


def _require_private(path: Path, found: os.stat_result) -> None:
    if not stat.S_ISREG(found.st_mode):
        raise InvalidFile(f"{path}: a token is in a file of its own")
    if found.st_uid != os.geteuid():
        raise InvalidFile(f"{path}: belongs to another user, who knows the token")
    if found.st_mode & 0o077:
        mode = stat.S_IMODE(found.st_mode)
        raise InvalidFile(f"{path}: others can read or change the token (mode {mode:o}); chmod 600 it")
