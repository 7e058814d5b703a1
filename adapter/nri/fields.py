"""What `adjusting` consists of: fields that check what is assigned to them, and elements with names."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, MutableMapping, Sequence
from functools import reduce
from typing import TYPE_CHECKING, Any, ClassVar, Generic, TypeVar, cast

from google.protobuf.message import Message

from nri.errors import nearest

T = TypeVar("T")

_MARK = "-"
"""The prefix of a removed element's name."""


def text(place: str, value: str) -> str:
    """Returns a text. Raises ValueError for a text that no program can get."""
    if "\0" in value:
        raise ValueError(f"{place}: {value!r} has a NUL character")
    return value


def texts(place: str, words: Sequence[str]) -> list[str]:
    """Returns a list of texts. Raises ValueError for a single text, which is a sequence of texts, too."""
    if isinstance(words, str):
        raise ValueError(f"{place}: {words!r} is a text, not a list of texts")
    return [text(place, word) for word in words]


def named(place: str, name: str, form: str = ".+", meaning: str = "a name") -> str:
    """Returns a name of this form, a regular expression. Raises ValueError for another one."""
    if text(place, name).startswith(_MARK):
        raise ValueError(f"{place}: {name!r}: NRI takes a name with a leading - as a removal")
    if not re.fullmatch(form, name, re.DOTALL):
        raise ValueError(f"{place}: {name!r} is not {meaning}")
    return name


def one_of(place: str, word: str, known: Collection[str]) -> None:
    """Raises ValueError for a word that is none of these."""
    if word not in known:
        raise ValueError(f"{place}: {word!r} is not one of {', '.join(known)}")


def absolute(place: str, path: str) -> str:
    """Returns an absolute path. Raises ValueError for another one."""
    return named(place, path, "/.*", "an absolute path")


class Names:
    """A map of names to texts: `annotations["a"] = "b"`. `del annotations["a"]` removes what the container has."""

    def __init__(self, place: str, target: MutableMapping[str, str], kept: str = "") -> None:
        """Takes NRI's map, and why NRI cannot remove, if it cannot."""
        self._place, self._target, self._kept = place, target, kept

    def __setitem__(self, name: str, value: str) -> None:
        self._target[named(self._place, name)] = text(f"{self._place}[{name!r}]", value)
        self._drop(_MARK + name)  # a runtime would apply both in random order

    def __delitem__(self, name: str) -> None:
        was_set = self._drop(named(self._place, name))
        if not self._kept:
            self._target[_MARK + name] = ""
        elif not was_set:
            raise ValueError(f"{self._place}[{name!r}]: {self._kept}")

    def _drop(self, name: str) -> bool:
        was_set = name in self._target
        if was_set:
            del self._target[name]
        return was_set


class Elements:
    """A list of messages with names. `del` removes what the container has, or takes back what was set here."""

    def __init__(self, place: str, target: Any, key: str, kept: str = "") -> None:
        """Takes NRI's list, the field of an element's name, and why NRI cannot remove, if it cannot."""
        self._place, self._target, self._key, self._kept = place, target, key, kept

    def __delitem__(self, name: str) -> None:
        was_set = self._drop(named(self._place, name))
        if not self._kept:
            self._target.add(**{self._key: _MARK + name})
        elif not was_set:
            raise ValueError(f"{self._place}[{name!r}]: {self._kept}")

    def _put(self, element: Any, replace: bool = False) -> None:
        """Adds an element. `replace`: it is removed first, so that its owner is this plugin and not an earlier one."""
        name = getattr(element, self._key)
        self._drop(name)
        if replace:
            self._target.add(**{self._key: _MARK + name})
        self._target.append(element)

    def _drop(self, name: str) -> bool:
        """Takes back what was set or removed here; returns whether it was set."""
        names = [getattr(element, self._key) for element in self._target]
        for number in reversed(range(len(names))):
            if names[number] in (name, _MARK + name):
                del self._target[number]
        return name in names


class Strict:
    """An object over a message. An assignment to anything but its fields raises AttributeError."""

    refused: ClassVar[dict[str, str]] = {}
    """Why some fields of the message cannot be set."""

    def __init__(self, message: Any) -> None:
        self.message = message

    if not TYPE_CHECKING:  # a type checker knows the fields

        def __setattr__(self, name: str, value: object) -> None:
            if "message" in vars(self) and not hasattr(type(self), name):
                known = [one for one in dir(self) if not one.startswith("_") and one not in ("message", "refused")]
                own = f"unknown field; did you mean `{nearest(name, known, 0)}`?"
                own = f"assign to its elements: `{name}[…] = …`" if name in known else own
                raise AttributeError(f"{name}: {self.refused.get(name, own)}")
            super().__setattr__(name, value)


class Value(Generic[T]):
    """A value in a `Strict`'s message, in a wrapper or not. It is None as long as it is not set."""

    def __init__(self, wanted: str, fits: Callable[[T], bool], of: str = "") -> None:
        """Takes which values fit, in words and as a function, and the place in the message.

        By default the place is the attribute's name.
        """
        self._wanted, self._fits, self._of = wanted, fits, of

    def __set_name__(self, owner: type, name: str) -> None:
        *self._parents, self._field = (self._of or name).split(".")
        self._name = name

    def __get__(self, of: Strict | None, owner: type) -> T | None:
        if of is None:  # the class is asked for its attribute
            return None
        holder = reduce(getattr, self._parents, of.message)
        value: Any = getattr(holder, self._field)
        if isinstance(value, Message):
            return cast(T, value.value) if holder.HasField(self._field) else None  # type: ignore[attr-defined]
        return value or None

    def __set__(self, of: Strict, value: T) -> None:
        holder = reduce(getattr, self._parents, of.message)
        wrapper = getattr(holder, self._field)
        is_wrapped = isinstance(wrapper, Message)
        try:
            fits = self._fits(value)
            type(holder)(**{self._field: {"value": value} if is_wrapped else value})  # raises before anything is set
        except (TypeError, ValueError):  # ValueError: a number that the field has no room for
            fits, takes = False, wrapper.value if is_wrapped else wrapper
            if type(value) is not type(takes):
                wanted = f"a number, {self._wanted}" if type(takes) is int else self._wanted
                raise TypeError(f"{self._name}: {value!r} ({type(value).__name__}) is not {wanted}") from None
        if not fits:
            raise ValueError(f"{self._name}: {value!r} is not {self._wanted}")
        if is_wrapped:
            wrapper.value = value
        else:
            setattr(holder, self._field, value)
