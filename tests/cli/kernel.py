"""The source of implementations for `check`: one that is right, and what can go wrong in a call."""

KERNEL = """
import os
import numpy as np

print("imported")


def split(x, positions, base=10000.0):
    print("called")
    os.write(1, b"written past Python\\n")
    d = x.shape[-1]
    angle = np.asarray(positions, float)[..., None] * base ** (-np.arange(0, d, 2) / d)
    if angle.ndim == 3 and x.ndim == 4:
        angle = angle[:, None]
    a, b = x[..., : d // 2].astype(float), x[..., d // 2 :].astype(float)
    c, s = np.cos(angle), np.sin(angle)
    return np.concatenate([a * c - b * s, b * c + a * s], axis=-1).astype(x.dtype)


class Split:
    def __init__(self, base=10000.0):
        self.base = base

    def forward(self, x, positions):
        return split(x, positions, self.base)


def raises(x, positions):
    raise ValueError("no\\nidea")


def nothing(x, positions):
    return None


def shorter(x, positions):
    return split(x, positions)[..., :-1]


def lists(x, positions):
    return split(x, positions).tolist()


def nans(x, positions):
    return split(x, positions) * np.nan


def infinite(x, positions):
    y = split(x, positions)
    y[..., -1, :] = np.inf
    return y


def view(x, positions):
    return x[...]


def generator(x, positions):
    yield split(x, positions)


async def coroutine(x, positions):
    return split(x, positions)


def speechless(x, positions):
    class Odd(Exception):
        def __str__(self):
            raise ValueError("not even a message")

    raise Odd


def beyond_exception(x, positions):
    class Own(BaseException):
        pass

    raise Own("mine")


def masked(x, positions):
    return np.ma.array(split(x, positions))


def matrix(x, positions):
    return split(x, positions).view(np.recarray)


calls = []


def gives_up(x, positions):
    calls.append(0)
    if len(calls) > 20:
        raise RuntimeError("enough")
    return split(x, positions)


class NeedsSize:
    def __init__(self, size):
        self.size = size


number = 3
"""
