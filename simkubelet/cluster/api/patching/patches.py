"""What a PATCH makes of an object, by its content type.

Source: staging/src/k8s.io/apiserver/pkg/endpoints/handlers/patch.go (kubernetes v1.34.4); RFC 6902, RFC 7396.
"""

from __future__ import annotations

import json
from typing import Any, Final

from ...objects.objects import JSON
from ..decoding.documents import json_document
from ..decoding.schema import Schema
from ..decoding.typed_values import go_name
from ..errors import StatusError
from .strategic_merge import MergeError, go_printed, strategic_merge

__all__ = ["APPLY", "JSON_PATCH", "MERGE_PATCH", "PATCH_TYPES", "STRATEGIC_MERGE_PATCH", "merge_patch", "patched"]

JSON_PATCH: Final = "application/json-patch+json"
MERGE_PATCH: Final = "application/merge-patch+json"
STRATEGIC_MERGE_PATCH: Final = "application/strategic-merge-patch+json"
APPLY: Final = "application/apply-patch+yaml"
PATCH_TYPES: Final = (JSON_PATCH, MERGE_PATCH, STRATEGIC_MERGE_PATCH, APPLY)


def patched(content_type: str, patch: bytes, obj: JSON, schema: Schema | None) -> tuple[JSON, str]:
    """What a JSON patch, a merge patch or a strategic merge patch makes of an object, which is used up.

    Beside it stands what is shown of the request where the outcome is refused.

    Raises:
        StatusError: the patch cannot be read, or not be applied to this object.
    """
    content = _content(content_type, patch)
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
    return result, go_printed(content)


def _content(content_type: str, patch: bytes) -> Any:
    """A patch's list of operations or its object."""
    try:
        content = json_document(patch)
    except ValueError as error:
        why = "" if content_type == STRATEGIC_MERGE_PATCH else "error decoding patch: "
        raise StatusError.bad_request(f"{why}{error}") from None
    if isinstance(content, list if content_type == JSON_PATCH else dict):
        return content
    type_ = "[]handlers.jsonPatchOp" if content_type == JSON_PATCH else "map[string]interface {}"
    why = f"json: cannot unmarshal {go_name(content)} into Go value of type {type_}"
    raise StatusError.bad_request(f"error decoding patch: {why}")


def merge_patch(obj: Any, patch: JSON) -> JSON:
    """What a JSON merge patch makes of a value."""
    merged = dict(obj) if isinstance(obj, dict) else {}
    for key, value in patch.items():
        if value is None:
            merged.pop(key, None)
        else:
            merged[key] = merge_patch(merged.get(key), value) if isinstance(value, dict) else value
    return merged


def _json_patch(operations: list[Any], obj: JSON) -> JSON:
    import jsonpatch
    import jsonpointer

    try:
        result = obj
        for operation in operations:
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
