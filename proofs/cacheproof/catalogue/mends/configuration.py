"""The era of the configuration that has a fault, without it."""

from __future__ import annotations

from cacheproof.catalogue.mends import Mend, transitions
from cachespec.configuration import NORMATIVE_CONFIGURATION, Start

MENDS = (Mend("C-MIR-13", ("M1",), transitions({Start: NORMATIVE_CONFIGURATION.transitions[Start]})),)
