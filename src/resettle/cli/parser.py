"""argparse, stricter, and with the spellings that Go's flag packages accept.

No flag may be abbreviated. Unknown flags are reported before any other mistake, each with the flag
that was probably meant. `-flag`, `--flag`, `--flag=value`, `--flag value`, `-v3` and `--some_flag`
are all accepted. Where Go would silently read something else than was meant, we report an error:
`--dry-run false` and `--policy --dry-run`.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

_NUMBER = re.compile(r"-(\d+\.?\d*|\.\d+)([eE][-+]?\d+)?")
_END = "--"


class Parser(argparse.ArgumentParser):
    """A parser of one command, or of a command with subcommands."""

    def __init__(self, *args: Any, **more: Any) -> None:
        super().__init__(*args, **{"allow_abbrev": False, **more})
        self._positionals.title = "arguments"

    def parse_known_args(  # type: ignore[override]
        self, args: Sequence[str] | None = None, namespace: argparse.Namespace | None = None
    ) -> tuple[argparse.Namespace, list[str]]:
        """Parse the words; the second value is always empty, as an unexpected word is an error."""
        words = list(sys.argv[1:] if args is None else args)
        parsed, rest = super().parse_known_args(self._normalize(words), namespace)
        if rest:
            self.error(f"unexpected argument {_quote_all(rest)}")
        return parsed, rest

    def find_flag(self, word: str) -> tuple[argparse.Action | None, str | None]:
        """The flag that a word names in any accepted spelling, and the value after `=`, if any."""
        return FlagNormalizer(self._option_string_actions, whole=True).find_flag(word)

    def suggestion(self, word: str) -> str:
        """A hint that ends a sentence: which flag was probably meant."""
        return FlagNormalizer(self._option_string_actions, whole=True).suggestion(word)

    def _normalize(self, words: Sequence[str]) -> list[str]:
        """The words in the form argparse parses reliably: each flag with its value in one word."""
        normalizer = FlagNormalizer(self._option_string_actions, whole=self._subparsers is None)
        normalized = list(normalizer.normalize(words))
        if normalizer.problems:
            self.error("\n  ".join(normalizer.problems))
        return normalized

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        if isinstance(action, argparse._SubParsersAction) and value not in action.choices:
            from resettle.policy.problems import did_you_mean

            raise argparse.ArgumentError(
                None, f"there is no command `{value}`; {did_you_mean(value, action.choices)}"
            )
        super()._check_value(action, value)


class FlagNormalizer:
    """Rewrites a command line into one spelling, and collects its problems.

    If `whole` is false, only the words before the subcommand are read; its own parser has the rest.
    """

    def __init__(self, flags: dict[str, argparse.Action], *, whole: bool) -> None:
        self._flags = flags
        self._whole = whole
        self.problems: list[str] = []

    def normalize(self, words: Sequence[str]) -> Iterator[str]:
        """The words, with each flag and its value joined by `=`."""
        left = list(reversed(words))
        while left:
            word = left.pop()
            if word == _END or (not is_flag(word) and not self._whole):
                yield from (word, *reversed(left))
                return
            if not is_flag(word):
                yield word
                continue
            action, value = self.find_flag(word)
            if action is None:
                self.problems.append(self._unknown_flag(word))
                continue
            name = _long_name(action)
            if value is None and _wants_value(action):
                value = self._next_value(name, left)
            elif value is None and is_switch(action):
                self._reject_bare_bool(name, left)
                value = "true"
            yield name if value is None else f"{name}={value}"

    def find_flag(self, word: str) -> tuple[argparse.Action | None, str | None]:
        """The flag that a word names, and the value after `=`, if any."""
        name, equals, value = word.partition("=")
        bare = name.lstrip("-").replace("_", "-")
        action = self._flags.get(f"--{bare}") if len(name) - len(name.lstrip("-")) <= 2 else None
        if action is None and not word.startswith("--"):
            action = self._flags.get(word[:2])
            if action is not None and word[2:]:
                return action, word[2:].removeprefix("=")
        return action, value if equals else None

    def _next_value(self, name: str, left: list[str]) -> str | None:
        """Take the value of a flag from the next word."""
        if left and not is_flag(left[-1]):
            return left.pop()
        if left:
            self.problems.append(
                f"{name} needs a value, and the flag {left[-1]} follows; "
                f"write {name}={left[-1]} if that is the value"
            )
        return None

    def _reject_bare_bool(self, name: str, left: list[str]) -> None:
        """Report a bare `true` or `false`, which Go reads as an argument of its own."""
        if left and left[-1].lower() in ("true", "false"):
            self.problems.append(
                f"`{left[-1]}` after {name} is not its value; write {name}={left[-1]}"
            )
            left.pop()

    def _unknown_flag(self, word: str) -> str:
        name = word.partition("=")[0]
        return f"there is no flag {name}; {self.suggestion(word)}"

    def suggestion(self, word: str) -> str:
        """A hint that ends a sentence: which flag was probably meant."""
        from resettle.policy.problems import nearest

        name = word.partition("=")[0]
        names = {flag.lstrip("-"): flag for flag in self._flags if flag.startswith("--")}
        near = nearest(name.lstrip("-").replace("_", "-"), names)
        return f"did you mean {names[near]}?" if near else "--help lists all flags"


def is_switch(action: argparse.Action) -> bool:
    """Whether a flag may stand alone and take `=true` or `=false`."""
    return action.nargs == "?" and action.const is True


def _wants_value(action: argparse.Action) -> bool:
    return action.nargs is None


def is_flag(word: str) -> bool:
    """Whether a word is a flag, known or unknown; `-` and negative numbers are not."""
    return word.startswith("-") and word != "-" and not _NUMBER.fullmatch(word)


def _long_name(action: argparse.Action) -> str:
    return next((name for name in action.option_strings if name.startswith("--")), "")


def _quote_all(words: Iterable[str]) -> str:
    return ", ".join(f"`{word}`" for word in words)
