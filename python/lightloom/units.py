"""Quantities as types: integers that carry their unit, read and written as text with a unit.

Modelled: `Time` [ps], `Size` [B], `Rate` [bit/s], `ByteRate` [B/s] and `FlopRate` [flop/s], each
an `int`, so that arithmetic, JSON and the compiled core see plain whole numbers. Ignored:
operations that would mix units; a sum of two quantities is a plain `int`. Checked:
`parse(str(q)) == q` for every value.

Times, sizes and bit rates are parsed by the compiled core, so there is one grammar for both
languages.
"""

from __future__ import annotations

from typing import Any, ClassVar, Self

from pydantic import GetCoreSchemaHandler
from pydantic_core import PydanticCustomError, core_schema

from lightloom import _core

# What is sent to the core as an unsigned 64-bit integer must fit in one.
_MAX = 2**64 - 1


class Quantity(int):
    """A whole number of base units that is written with a unit, such as ``"25 ms"``."""

    what: ClassVar[str]
    example: ClassVar[str]

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read a number and a unit.

        Raises
        ------
        ValueError
            If the text is not such a quantity; the message says what is allowed.
        """
        raise NotImplementedError

    @classmethod
    def __get_pydantic_core_schema__(
        cls, source: type[Any], handler: GetCoreSchemaHandler
    ) -> core_schema.CoreSchema:
        return core_schema.no_info_plain_validator_function(cls._validate)

    @classmethod
    def _validate(cls, value: object) -> Self:
        if isinstance(value, cls):
            return value
        if not isinstance(value, str):
            raise PydanticCustomError(
                "quantity",
                "must be {what} as text with a unit, such as {example}",
                {"what": cls.what, "example": f'"{cls.example}"'},
            )
        try:
            return cls.parse(value)
        except ValueError as error:
            # The core repeats the text; the caller's message names it already.
            reason = str(error).removeprefix(f'"{value}" is ')
            raise PydanticCustomError("quantity", "{reason}", {"reason": reason}) from None


class Time(Quantity):
    """A time [ps].

    Examples
    --------
    >>> Time.parse("25 ms")
    Time('25 ms')
    >>> int(Time.parse("1 us"))
    1000000
    """

    what = "a time"
    example = "25 ms"

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read a time such as ``"25 ms"``; ValueError says what is allowed."""
        return cls(_core.parse_time(text))

    def __str__(self) -> str:
        return _core.format_time(self)

    def __repr__(self) -> str:
        return f"Time({str(self)!r})"


class Size(Quantity):
    """A number of bytes.

    Examples
    --------
    >>> Size.parse("32 KiB"), int(Size.parse("10 MB"))
    (Size('32 KiB'), 10000000)
    >>> str(Size(10_000_000)), str(Size(33_280))
    ('10 MB', '33280 B')
    """

    what = "a size"
    example = "64 KiB"

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read a size such as ``"64 KiB"``; ValueError says what is allowed."""
        return cls(_core.parse_bytes(text))

    def __str__(self) -> str:
        units = ("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10), ("GB", 10**9), ("MB", 10**6)
        for name, scale in (*units, ("kB", 10**3)):
            if self and self % scale == 0:
                return f"{self // scale} {name}"
        return f"{int(self)} B"

    def __repr__(self) -> str:
        return f"Size({str(self)!r})"


class Rate(Quantity):
    """A rate of transmission [bit/s].

    Examples
    --------
    >>> Rate.parse("400 Gbps"), Rate.parse("50 GB/s")
    (Rate('400 Gbps'), Rate('400 Gbps'))
    """

    what = "a rate"
    example = "400 Gbps"

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read a rate such as ``"400 Gbps"``; ValueError says what is allowed."""
        return cls(_core.parse_rate(text))

    @property
    def gbps(self) -> float:
        """The rate in units of 10^9 bit/s."""
        return self / 1e9

    def __str__(self) -> str:
        return _core.format_rate(self)

    def __repr__(self) -> str:
        return f"Rate({str(self)!r})"


class ByteRate(Quantity):
    """A rate of memory or of a scale-up link [B/s].

    Examples
    --------
    >>> ByteRate.parse("3.35 TB/s")
    ByteRate('3.35 TB/s')
    >>> ByteRate.parse("3.6 Tbps")
    ByteRate('450 GB/s')
    """

    what = "a rate"
    example = "450 GB/s"

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read a rate such as ``"450 GB/s"``; ValueError says what is allowed."""
        bps = _core.parse_rate(text)
        if bps % 8:
            raise ValueError(f"not a whole number of bytes per second; such as {cls.example!r}")
        return cls(bps // 8)

    def __str__(self) -> str:
        return _scaled(self, (("TB/s", 10**12), ("GB/s", 10**9), ("MB/s", 10**6)), "B/s")

    def __repr__(self) -> str:
        return f"ByteRate({str(self)!r})"


class FlopRate(Quantity):
    """A rate of computation [flop/s]; a multiply and an add are two.

    Examples
    --------
    >>> FlopRate.parse("989 Tflop/s")
    FlopRate('989 Tflop/s')
    >>> FlopRate.parse("989 TF")
    Traceback (most recent call last):
    ...
    ValueError: not a computing rate: the unit must be one of Pflop/s, Tflop/s, Gflop/s, flop/s; \
write a number and a unit, such as "989 Tflop/s"
    """

    what = "a computing rate"
    example = "989 Tflop/s"
    units: ClassVar = (("Pflop/s", 10**15), ("Tflop/s", 10**12), ("Gflop/s", 10**9))

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read a computing rate such as ``"989 Tflop/s"``; ValueError says what is allowed."""
        number, _, unit = text.strip().partition(" ")
        whole, _, fraction = number.replace("_", "").partition(".")
        scale = dict((*cls.units, ("flop/s", 1))).get(unit.strip())
        # str.isdecimal alone would accept other scripts' digits.
        if scale and f"{whole}{fraction}".isascii() and whole.isdecimal() and len(number) < 32:
            if fraction and not fraction.isdecimal():
                scale = None
            elif "." not in number or fraction:
                digits, divisor = int(whole + fraction) * scale, 10 ** len(fraction)
                if digits % divisor == 0 and digits // divisor <= _MAX:
                    return cls(digits // divisor)
        names = ", ".join(name for name, _ in (*cls.units, ("flop/s", 1)))
        raise ValueError(
            f"not a computing rate: the unit must be one of {names}; "
            f'write a number and a unit, such as "{cls.example}"'
        )

    def __str__(self) -> str:
        return _scaled(self, self.units, "flop/s")

    def __repr__(self) -> str:
        return f"FlopRate({str(self)!r})"


def _scaled(value: int, units: tuple[tuple[str, int], ...], base: str) -> str:
    """Write `value` in the largest unit that needs at most three decimals, exactly."""
    for name, scale in units:
        if value >= scale and value * 1000 % scale == 0:
            whole, rest = divmod(value * 1000 // scale, 1000)
            decimals = f".{rest:03}".rstrip("0") if rest else ""
            return f"{whole}{decimals} {name}"
    return f"{int(value)} {base}"
