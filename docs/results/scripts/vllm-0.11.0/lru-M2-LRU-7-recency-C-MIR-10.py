"""vllm==0.11.0: LRU-7/recency is broken: a used key becomes the most recent, and the other keys keep their order.

Release: vllm==0.11.0
Code: LRUCache, of vllm.utils or vllm.utils.cache
Property: LRU-7/recency: a used key becomes the most recent, and the other keys keep their order; this does
  not hold
Reach: the release's own classes did this, called as the specification lets callers; their engine was not run
Known as: possibly C-MIR-10, #43941, #43595, #44533, #44068
Needs: Python with vllm==0.11.0 and what that imports, no accelerator; nothing else is imported
Ends with: 1 where the violation is seen, 0 where it is not, 2 where the script cannot run
"""

import signal
import sys
import traceback

try:
    from vllm.utils import LRUCache
except ImportError as error:
    print(f"CANNOT RUN: {error}")
    sys.exit(2)

NEVER = "does not return"
ANSWERS = []


class HangsError(BaseException):
    """Raised in the middle of a call that computes for too long."""


def stop(number, frame):
    raise HangsError


def call(function, *arguments):
    """One call, printed with its result. An exception is a result too, and so is computing for a whole second."""
    signal.signal(signal.SIGVTALRM, stop)
    try:
        signal.setitimer(signal.ITIMER_VIRTUAL, 1.0)
        try:
            result = function(*arguments)
        finally:
            signal.setitimer(signal.ITIMER_VIRTUAL, 0)
    except HangsError:
        result = NEVER
    except (ArithmeticError, AssertionError, LookupError, MemoryError, RuntimeError, ValueError) as error:
        result = error
    shown = describe(result)
    print(f"  {function.__name__}({', '.join(map(describe, arguments))}) -> {shown}")
    ANSWERS.append(shown)
    return result


def describe(value):
    if isinstance(value, Exception):
        return f"{type(value).__name__}: {value}".strip(": ")
    text = str(value)
    return type(value).__name__ if " object at 0x" in text else text


def is_as(recorded, answer):
    """Whether an answer is as it was recorded; of an error, any will do."""
    return recorded in (None, answer) or (recorded == "an error" and "Error" in answer)


def its_own_size(value):
    """A value is a number, which is its size."""
    return value


def shown(cache):
    """The keys from the oldest on, what each takes, and what is used."""
    sizes = vars(cache)["_Cache__size"]
    return {"order": list(cache.order), "sizes": [sizes.get(key, 0) for key in cache.order], "used": cache.currsize}


STATEMENT = 'a used key becomes the most recent, and the other keys keep their order'


def reproduce():
    CAPACITY = 2
    cache = LRUCache(CAPACITY, getsizeof=its_own_size)

    call(cache.touch, "A")

    # what breaks the property is the whole of what the calls answer and leave; None: it does not matter
    recorded = [None]
    same = all(is_as(known, answer) for known, answer in zip(recorded, ANSWERS, strict=True))
    left = shown(cache)
    same = same and left == {'order': ['A'], 'sizes': [0], 'used': 0}
    what = f"{ANSWERS[-1:]} at the end, after which {left}; this has to hold: " + STATEMENT
    return same, what


if __name__ == "__main__":
    try:
        violated, what = reproduce()
    except Exception:
        traceback.print_exc()
        print("CANNOT RUN: this script does not fit the installed package")
        sys.exit(2)
    print(("VIOLATED: " if violated else "NOT SHOWN: ") + what)
    sys.exit(1 if violated else 0)
