"""What a PATCH makes of an object, by its content type: JSON, merge and strategic merge patches.

A strategic merge patch merges maps, and lists where their field has a merge key.

Source: staging/src/k8s.io/apiserver/pkg/endpoints/handlers/patch.go; pkg/server/config.go,
``JSONPatchMaxCopyBytes``; staging/src/k8s.io/apimachinery/pkg/util/strategicpatch/patch.go, ``mergeMap``,
``mergeSlice``, ``normalizeElementOrder`` (kubernetes v1.34.4); RFC 6902, RFC 7396.
"""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Iterable
from typing import Any, Final

from ....apis.documents import MOST_LEVELS, check_depth
from ...objects.objects import JSON, merge_patch
from ..decoding.definitions import Schema, child, element
from ..decoding.documents import json_document
from ..decoding.schema import go_name
from ..errors import StatusError

__all__ = [
    "APPLY",
    "JSON_PATCH",
    "MERGE_PATCH",
    "PATCH_TYPES",
    "MergeError",
    "patched",
    "read_patch",
    "strategic_merge",
]

_DIRECTIVE: Final = "$patch"
_RETAIN_KEYS: Final = "$retainKeys"
_ORDER: Final = "$setElementOrder/"
_DELETE_VALUES: Final = "$deleteFromPrimitiveList/"
JSON_PATCH: Final = "application/json-patch+json"
MERGE_PATCH: Final = "application/merge-patch+json"
_STRATEGIC_MERGE_PATCH: Final = "application/strategic-merge-patch+json"
APPLY: Final = "application/apply-patch+yaml"
_MOST_OPERATIONS: Final = 10_000
_MOST_COPIED_BYTES: Final = 3 * 1024 * 1024
"""What the copies of a JSON patch may add to an object, and here what its moves to deeper places may move as well: the
levels of each are counted."""
PATCH_TYPES: Final = (JSON_PATCH, MERGE_PATCH, _STRATEGIC_MERGE_PATCH, APPLY)


class MergeError(Exception):
    """A patch that cannot be merged; the words are the API server's."""


def strategic_merge(original: JSON, patch: JSON, schema: Schema | None) -> JSON:
    """What a patch makes of an object. Both are used up: give copies.

    Raises:
        MergeError: the patch has no sense for this schema.
    """
    directive = patch.pop(_DIRECTIVE, None)
    if directive == "replace":
        return patch
    if directive == "delete":
        return {}
    if directive is not None:
        raise MergeError(f"Unknown patch type '{directive}' in: {_go_printed({_DIRECTIVE: directive, **patch})}")
    _retain_keys(original, patch)
    _merge_ordered(original, patch, schema)
    for key, value in patch.items():
        deletes = key.startswith(_DELETE_VALUES)
        name = key.removeprefix(_DELETE_VALUES)
        present = original.get(name)
        if value is None:
            original.pop(name, None)
        elif deletes:
            if isinstance(present, list) and isinstance(value, list):
                unwanted = set(map(_hashable, value))
                original[name] = [item for item in present if _hashable(item) not in unwanted]
        elif isinstance(value, dict) and isinstance(present, dict):
            original[name] = _merge_maps(present, value, child(schema, name))
        elif isinstance(value, list) and isinstance(present, list):
            original[name] = _merge_lists(present, value, child(schema, name))
        else:
            original[name] = _without_directives(value)
    return original


def _merge_maps(original: JSON, patch: JSON, schema: Schema | None) -> JSON:
    if schema is not None and "replace" in schema.get("x-kubernetes-patch-strategy", "").split(","):
        return patch
    return strategic_merge(original, patch, schema)


def _merges(schema: Schema | None) -> bool:
    return schema is not None and "merge" in schema.get("x-kubernetes-patch-strategy", "").split(",")


def _merge_lists(original: list[Any], patch: list[Any], schema: Schema | None) -> list[Any]:
    if schema is None or not _merges(schema):
        return patch
    if not original and not patch:
        return original
    merge_key: str = schema.get("x-kubernetes-patch-merge-key", "")
    if not isinstance((original or patch)[0], dict):
        both = [*original, *patch]
        merged = [both[first] for first in _places(both).values()]
        return _in_order(merged, patch, original, "")
    if not merge_key:
        raise MergeError("cannot merge lists without merge key")
    wanted, deleted = [], set()
    replaces = False
    for item in patch:
        directive = _object(item).get(_DIRECTIVE)
        if directive is None:
            wanted.append(item)
        elif directive == "delete":
            deleted.add(_hashable(_key_of(item, merge_key)))
        elif directive == "replace":
            replaces = True
        elif directive == "merge":
            raise MergeError("merging lists cannot yet be specified in the patch")
        else:
            raise MergeError(f"Unknown patch type '{directive}' in: {_go_printed(item)}")
    if replaces:
        return wanted
    if deleted:
        original = [old for old in original if _hashable(_key_of(old, merge_key)) not in deleted]
    merged = list(original)
    places = _places(_key_of(item, merge_key) for item in merged)
    for item in wanted:
        at = places.setdefault(_hashable(_key_of(item, merge_key)), len(merged))
        if at == len(merged):
            merged.append(_without_directives(item))
        else:
            merged[at] = strategic_merge(merged[at], item, element(schema))
    return _in_order(merged, wanted, original, merge_key)


def _merge_ordered(original: JSON, patch: JSON, schema: Schema | None) -> None:
    """Merge the lists whose order the patch names, and take them out of the patch."""
    for directive in [key for key in patch if key.startswith(_ORDER)]:
        order = patch.pop(directive)
        name = directive.removeprefix(_ORDER)
        present, wanted = original.get(name), patch.pop(name, None)
        if not isinstance(order, list) or not isinstance(present or [], list) or not isinstance(wanted or [], list):
            raise MergeError("The order in patch list must be a list")
        if present is None and wanted is None:
            continue
        subschema = child(schema, name)
        merge_key = (subschema or {}).get("x-kubernetes-patch-merge-key", "")
        if present is not None and wanted is not None:
            merged = _merge_lists(list(present), wanted, subschema)
        else:
            merged = _without_directives(present if wanted is None else wanted)
        original[name] = _in_order(merged, order, present or [], merge_key)


def _in_order(merged: list[Any], order: list[Any], before: list[Any], merge_key: str) -> list[Any]:
    """What the patch names in the patch's order, and what only the server has where it stood."""
    named = _places(_identity(item, merge_key) for item in order)
    stood = _places(_identity(item, merge_key) for item in before)
    each = [(_hashable(_identity(item, merge_key)), item) for item in merged]
    from_patch = deque(sorted((one for one in each if one[0] in named), key=lambda one: named[one[0]]))
    only_server = deque(one for one in each if one[0] not in named)
    result = []
    while only_server and from_patch:
        left, right = only_server[0][0], from_patch[0][0]
        server_first = left in stood and right in stood and stood[left] < stood[right]
        result.append((only_server if server_first else from_patch).popleft())
    return [item for _, item in (*result, *only_server, *from_patch)]


def _places(values: Iterable[Any]) -> dict[str, int]:
    """Where each value stands first."""
    places: dict[str, int] = {}
    for index, value in enumerate(values):
        places.setdefault(_hashable(value), index)
    return places


def _hashable(value: Any) -> str:
    return json.dumps(value, sort_keys=True)


def _retain_keys(original: JSON, patch: JSON) -> None:
    keys = patch.pop(_RETAIN_KEYS, None)
    if keys is None:
        return
    set_keys = {key for key, value in patch.items() if value is not None and not key.startswith("$")}
    kept = {key for key in keys if isinstance(key, str)} if isinstance(keys, list) else None
    if kept is None or not set_keys <= kept:
        raise MergeError("invalid patch format of retainKeys")
    for key in set(original) - kept:
        del original[key]


def _without_directives(value: Any) -> Any:
    """A patch's value where the object has none: directives and nulls leave nothing."""
    if isinstance(value, dict):
        if value.get(_DIRECTIVE) == "delete":
            return {}
        return {
            key: _without_directives(inner)
            for key, inner in value.items()
            if inner is not None and not key.startswith((_DIRECTIVE, _RETAIN_KEYS, _ORDER, _DELETE_VALUES))
        }
    if isinstance(value, list):
        return [
            _without_directives(item)
            for item in value
            if not (isinstance(item, dict) and item.get(_DIRECTIVE) in ("delete", "replace"))
        ]
    return value


def _identity(item: Any, merge_key: str) -> Any:
    return _key_of(item, merge_key) if merge_key else item


def _key_of(item: Any, merge_key: str) -> Any:
    try:
        return _object(item)[merge_key]
    except KeyError:
        raise MergeError(f"map: {_go_printed(item)} does not contain declared merge key: {merge_key}") from None


def _object(item: Any) -> JSON:
    if not isinstance(item, dict):
        raise MergeError("expected all elements of the list to be objects")
    return item


def _go_printed(value: Any) -> str:
    """A value of JSON as Go's ``%v`` prints it."""
    if isinstance(value, dict):
        return f"map[{' '.join(f'{key}:{_go_printed(value[key])}' for key in sorted(value))}]"
    if isinstance(value, list):
        return f"[{' '.join(map(_go_printed, value))}]"
    if isinstance(value, bool):
        return "true" if value else "false"
    return "<nil>" if value is None else str(value)


def patched(content_type: str, content: Any, obj: JSON, schema: Schema | None) -> tuple[JSON, str]:
    """What a JSON patch, a merge patch or a strategic merge patch makes of an object. Both are used up.

    Beside it stands what is shown of the request where the outcome is refused.

    Raises:
        StatusError: the patch cannot be applied to this object.
    """
    if content_type == JSON_PATCH:
        result = _json_patch(content, obj)
        return result, json.dumps(result, separators=(",", ":"))
    if content_type == MERGE_PATCH:
        result = merge_patch(obj, content)
        return result, json.dumps(result, separators=(",", ":"))
    try:
        result = strategic_merge(obj, content, schema)
    except MergeError as error:
        raise StatusError.bad_request(str(error)) from None
    return result, _go_printed(content)


def read_patch(patch: bytes, content_type: str) -> Any:
    """A patch's list of operations or its object.

    Raises:
        StatusError: the patch cannot be read, or has too many operations.
    """
    try:
        content = json_document(patch)
    except ValueError as error:
        why = "" if content_type == _STRATEGIC_MERGE_PATCH else "error decoding patch: "
        raise StatusError.bad_request(f"{why}{error}") from None
    if content_type == JSON_PATCH and isinstance(content, list) and len(content) > _MOST_OPERATIONS:
        why = f"The allowed maximum operations in a JSON patch is {_MOST_OPERATIONS}, got {len(content)}"
        raise StatusError.too_large(why)
    if isinstance(content, list if content_type == JSON_PATCH else dict):
        return content
    type_ = "[]handlers.jsonPatchOp" if content_type == JSON_PATCH else "map[string]interface {}"
    why = f"json: cannot unmarshal {go_name(content)} into Go value of type {type_}"
    raise StatusError.bad_request(f"error decoding patch: {why}")


def _json_patch(operations: list[Any], obj: JSON) -> JSON:
    import jsonpatch
    import jsonpointer

    try:
        result, left = obj, _MOST_COPIED_BYTES
        for operation in operations:
            if operation["op"] in ("copy", "move"):
                value = jsonpointer.resolve_pointer(result, operation["from"])
            else:
                value = operation.get("value")
            depth = str(operation["path"]).count("/")
            if operation["op"] != "move" or depth > str(operation["from"]).count("/"):
                check_depth(value, MOST_LEVELS - depth)
                if operation["op"] in ("copy", "move"):
                    left -= len(json.dumps(value))
            if left < 0:
                raise _unprocessable()
            result = jsonpatch.apply_patch(result, [_as_it_is_read(operation, result)], in_place=True)
    except (jsonpatch.JsonPatchException, jsonpointer.JsonPointerException, LookupError, TypeError, ValueError):
        raise _unprocessable() from None
    if not isinstance(result, dict):
        raise _unprocessable()
    return result


def _as_it_is_read(operation: Any, obj: JSON) -> Any:
    """An operation as Kubernetes takes it: a field that is replaced need not be there."""
    from jsonpointer import JsonPointer

    if operation["op"] != "replace":
        return operation
    above, name = JsonPointer(operation["path"]).to_last(obj)
    return {**operation, "op": "add"} if name is not None and isinstance(above, dict) else operation


def _unprocessable() -> StatusError:
    return StatusError(422, "Invalid", "the server rejected our request due to an error in our request", {})
