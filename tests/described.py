"""JSON held against its schema, in which every field has to be described."""

import json
from collections.abc import Mapping
from functools import cache
from typing import Any

from jsonschema import Draft202012Validator

from perftui.report.output_text import encode_object
from perftui.report.schema import schema_of


def described(name: str, output: str | Mapping[str, Any]) -> Any:
    """The values that a command printed, which are what ``perftui schema NAME`` says and nothing
    else."""
    found = json.loads(output if isinstance(output, str) else encode_object(output))
    errors = [
        f"{'.'.join(map(str, error.absolute_path))}: {error.message}"
        for error in _validator(name).iter_errors(found)
    ]
    assert errors == []
    return found


@cache
def _validator(name: str) -> Draft202012Validator:
    schema = schema_of(name)
    Draft202012Validator.check_schema(schema)
    return Draft202012Validator(_closed(schema))


def _closed(schema: Any) -> Any:
    """The same with all fields required and no others allowed: those to come are for others."""
    if isinstance(schema, list):
        return [_closed(one) for one in schema]
    if not isinstance(schema, dict):
        return schema
    closed = {name: _closed(one) for name, one in schema.items()}
    if "properties" in schema:
        closed |= {"additionalProperties": False, "required": list(schema["properties"])}
    return closed
