"""Every error of the library. Each error code has one family, one error class and one exception class.

    FlowFabricError    code, message, details, family, error_class, retryable       base.py
      NotFound         ExecutionNotFound                                            execution.py
      Conflict         ExecutionNotActive StaleLease LeaseExpired LeaseRevoked      execution.py
                       CapabilityMismatch                                           execution.py
      Invalid          InvalidInput InvalidPolicy InvalidCapabilities InvalidToken  inputs.py
                       MissingPackage                                               packages.py
                       NoContext                                                    inputs.py
                       InvalidAnswer                                                inputs.py
      Limited          BudgetExceeded                                               limits.py
      Unavailable      BackendUnavailable BackendTimeout                            store.py
                       UnsupportedServer PartitionMismatch                          store.py
      Internal         ScriptFault BadReply Corruption                              store.py

    families.py   Family and ErrorClass: the kind of error, and what the caller should do
    codes.py      CODES: one row for each code; the same string in Lua, SQL, REST, the CLI and the docs
    lookup.py     error_class_for: from a code to the exception class

The family decides the HTTP status and the exit code. The error class says what the caller should do next.
"""

from flowfabric.errors.base import (
    Conflict,
    Detail,
    FlowFabricError,
    Internal,
    Invalid,
    Limited,
    NotFound,
    Unavailable,
)
from flowfabric.errors.codes import CODES, ErrorCode
from flowfabric.errors.execution import (
    CapabilityMismatch,
    ExecutionNotActive,
    ExecutionNotFound,
    LeaseExpired,
    LeaseRevoked,
    StaleLease,
)
from flowfabric.errors.families import CodeInfo, ErrorClass, Family
from flowfabric.errors.inputs import (
    InvalidAnswer,
    InvalidCapabilities,
    InvalidInput,
    InvalidPolicy,
    InvalidToken,
    NoContext,
)
from flowfabric.errors.limits import BudgetExceeded
from flowfabric.errors.lookup import error_class_for
from flowfabric.errors.packages import MissingPackage
from flowfabric.errors.store import (
    BackendTimeout,
    BackendUnavailable,
    BadReply,
    Corruption,
    PartitionMismatch,
    ScriptFault,
    UnsupportedServer,
)

__all__ = [
    "CODES",
    "BackendTimeout",
    "BackendUnavailable",
    "BadReply",
    "BudgetExceeded",
    "CapabilityMismatch",
    "CodeInfo",
    "Conflict",
    "Corruption",
    "Detail",
    "ErrorClass",
    "ErrorCode",
    "ExecutionNotActive",
    "ExecutionNotFound",
    "Family",
    "FlowFabricError",
    "Internal",
    "Invalid",
    "InvalidAnswer",
    "InvalidCapabilities",
    "InvalidInput",
    "InvalidPolicy",
    "InvalidToken",
    "LeaseExpired",
    "LeaseRevoked",
    "Limited",
    "MissingPackage",
    "NoContext",
    "NotFound",
    "PartitionMismatch",
    "ScriptFault",
    "StaleLease",
    "Unavailable",
    "UnsupportedServer",
    "error_class_for",
]

# Tracebacks and recorded step failures name the class by its public import path, wherever the class is defined.
for _name in __all__:
    _public = globals()[_name]
    if isinstance(_public, type):
        _public.__module__ = __name__
