"""What expressions about a device may name, and the package that reads them and finds their types.

The package is ``cel-expr-python``, Google's implementation in C++; it is imported with the first expression. Its type
checker sees ``device`` as a message, so that an unknown field is an error of the expression. What it lacks of
Kubernetes' environment is in docs/dra.md.

Source: k8s.io/dynamic-resource-allocation v0.34.4, cel/compile.go; k8s.io/apiserver v0.34.4, pkg/cel/library.
"""

from __future__ import annotations

from functools import lru_cache
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from cel_expr_python import cel
    from google.protobuf.descriptor_pool import DescriptorPool

__all__ = ["environment"]


@lru_cache(4)
def environment(*, knows_sharing: bool, has_capacity: bool = True) -> cel.Env:
    """Return the environment that reads expressions.

    Args:
        knows_sharing: whether a device has ``allowMultipleAllocations``.
        has_capacity: whether the types of capacities are known. The package takes ``has(device.capacity)`` for the map
            itself if they are.

    Raises:
        ImportError: the package is missing.
    """
    from cel_expr_python import cel
    from cel_expr_python.ext import ext_bindings, ext_optional, ext_strings

    types = cel.Type
    variables = {"device": types("kubernetes.DRADevice")}
    pool = _messages(knows_sharing)
    if has_capacity:
        # The field of a message cannot be a map of maps; a name with a dot can.
        variables["device.capacity"] = types.Map(types.STRING, types.Map(types.STRING, types("kubernetes.Quantity")))
    extensions = [ext_strings.ExtStrings(), ext_bindings.ExtBindings(), ext_optional.ExtOptional()]
    return cel.NewEnv(pool, variables=variables, extensions=extensions, functions=_functions(cel))


def _functions(cel: ModuleType) -> list[Any]:
    """Source: pkg/cel/library/quantity.go, semverlib.go."""
    types = cel.Type
    quantity, version, text = types("kubernetes.Quantity"), types("kubernetes.Semver"), types.STRING
    compared = [[each, each] for each in (quantity, version)]
    functions = [
        ("quantity", False, [[text]], quantity),
        ("isQuantity", False, [[text]], types.BOOL),
        ("semver", False, [[text]], version),
        ("isSemver", False, [[text]], types.BOOL),
        ("compareTo", True, compared, types.INT),
        ("isLessThan", True, compared, types.BOOL),
        ("isGreaterThan", True, compared, types.BOOL),
        ("isInteger", True, [[quantity]], types.BOOL),
        ("asInteger", True, [[quantity]], types.INT),
        ("asApproximateFloat", True, [[quantity]], types.DOUBLE),
        *((name, True, [[version]], types.INT) for name in ("major", "minor", "patch")),
    ]
    return [
        cel.FunctionDecl(
            name,
            [
                cel.Overload(f"{name}_{number}", result, arguments, is_member=is_member)
                for number, arguments in enumerate(signatures)
            ],
        )
        for name, is_member, signatures, result in functions
    ]


def _messages(knows_sharing: bool) -> DescriptorPool:
    """Declare what ``device`` is made of; a Struct is a mapping from names to values of any type."""
    from google.protobuf import descriptor_pb2, struct_pb2
    from google.protobuf.descriptor_pool import DescriptorPool

    field = descriptor_pb2.FieldDescriptorProto
    struct = descriptor_pb2.FileDescriptorProto()
    struct_pb2.DESCRIPTOR.CopyToProto(struct)
    file = descriptor_pb2.FileDescriptorProto(name="device.proto", package="kubernetes", syntax="proto3")
    file.dependency.append(struct.name)
    for name in ("Quantity", "Semver"):
        file.message_type.add(name=name)
    message = file.message_type.add(name="DRADevice")
    message.field.add(name="driver", number=1, type=field.TYPE_STRING, label=field.LABEL_OPTIONAL)
    if knows_sharing:
        message.field.add(name="allowMultipleAllocations", number=2, type=field.TYPE_BOOL, label=field.LABEL_OPTIONAL)
    for number, name in enumerate(("attributes", "capacity"), 3):
        entry = message.nested_type.add(name=f"{name.capitalize()}Entry")
        entry.options.map_entry = True
        entry.field.add(name="key", number=1, type=field.TYPE_STRING, label=field.LABEL_OPTIONAL)
        value = {"type": field.TYPE_MESSAGE, "type_name": ".google.protobuf.Struct"}
        entry.field.add(name="value", number=2, label=field.LABEL_OPTIONAL, **value)
        entries = {"type": field.TYPE_MESSAGE, "type_name": f".kubernetes.DRADevice.{entry.name}"}
        message.field.add(name=name, number=number, label=field.LABEL_REPEATED, **entries)
    pool = DescriptorPool()
    pool.Add(struct)
    pool.Add(file)
    return pool
