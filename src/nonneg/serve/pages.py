"""The pages of a server: the atlas with a box to try, and what can be asked."""

import base64
import hashlib
import html
import json
from dataclasses import dataclass
from typing import Any

from nonneg.report.page import can_be_served, served_page
from nonneg.serve.service import Service

_ATLAS_FILE = "atlas.html"
_STYLE = """
body { margin: 0 auto; padding: 24px 20px 80px; max-width: 900px; }
body { font: 15px/1.5 system-ui, sans-serif; }
:root { color-scheme: light dark; }
section { margin: 32px 0; }
h2 code { font-size: 19px; }
pre { padding: 8px 12px; border: 1px solid #8886; border-radius: 6px; }
pre { white-space: pre-wrap; overflow-wrap: anywhere; }
td, th { text-align: left; vertical-align: top; padding: 3px 14px 3px 0; }
"""


@dataclass(frozen=True)
class Page:
    """HTML, and the policy that it is sent with."""

    content: str
    policy: str


def atlas_of(service: Service) -> str | None:
    """The atlas in the run folder; None where there is none that this version can show."""
    path = service.model.folder / _ATLAS_FILE
    atlas = path.read_text(encoding="utf-8") if path.is_file() else None
    return atlas if atlas is not None and can_be_served(atlas) else None


def front_page(service: Service) -> Page:
    """The atlas of the run, or a plain page where there is none, with a box to try an input."""
    facts = {
        "reads_texts": service.reads_texts,
        "n_inputs": service.model.n_inputs,
        "has_index": service.index is not None,
    }
    # The page itself says what it may load; where it may be shown, only a header can say.
    return Page(served_page(service.name, atlas_of(service), facts), "frame-ancestors 'none'")


def reference_page(api: dict[str, Any], *, reads_texts: bool = True) -> Page:
    """What can be asked, from the description at ``/openapi.json``; without any script.

    Args:
        api: The description.
        reads_texts: Whether texts can be asked for; else examples are of vectors and features.
    """
    schemas = api.get("components", {}).get("schemas", {})
    parts = [
        _operation(path, method, operation, schemas, reads_texts=reads_texts)
        for path, methods in api["paths"].items()
        for method, operation in methods.items()
    ]
    content = (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{html.escape(api['info']['title'])}</title><style>{_STYLE}</style></head>"
        "<body><main>"
        f"<h1>{html.escape(api['info']['summary'].removesuffix('.'))}</h1>"
        '<p>Requests and answers are JSON. <a href="openapi.json">openapi.json</a> describes them '
        'for programs; <a href="./">the first page</a> shows the features.</p>'
        f"{''.join(parts)}</main></body></html>"
    )
    digest = base64.b64encode(hashlib.sha256(_STYLE.encode()).digest()).decode()
    policy = f"default-src 'none'; style-src 'sha256-{digest}'; base-uri 'none'; "
    return Page(content, policy + "form-action 'none'; frame-ancestors 'none'")


def _operation(
    path: str, method: str, operation: dict[str, Any], schemas: dict[str, Any], *, reads_texts: bool
) -> str:
    description = operation.get("description") or operation.get("summary", "")
    rows = [
        _row(given["name"], given["schema"], given.get("description", ""), schemas)
        for given in operation.get("parameters", ())
    ]
    body = operation.get("requestBody")
    example = ""
    if body is not None:
        reference = body["content"]["application/json"]["schema"]["$ref"]
        fields = schemas[reference.rpartition("/")[2]]["properties"]
        rows += [
            _row(name, schema, schema.get("description", ""), schemas)
            for name, schema in fields.items()
        ]
        given = {name: s["examples"][0] for name, s in fields.items() if "examples" in s}
        said = json.dumps(given) if reads_texts else _without_texts(given)
        example = (
            f"<pre>curl -s localhost:8080{html.escape(path)} "
            f"-H 'content-type: application/json' -d '{html.escape(said)}'</pre>"
        )
    table = f"<table>{''.join(rows)}</table>" if rows else ""
    answers = ", ".join(operation["responses"])
    return (
        f"<section><h2><code>{method.upper()} {html.escape(path)}</code></h2>"
        f"<p>{html.escape(description)}</p>{table}{example}"
        f"<p>Answers: {html.escape(answers)}</p></section>"
    )


def _without_texts(given: dict[str, Any]) -> str:
    """An example for a run that reads vectors, whatever their width."""
    if "texts" in given:
        return '{"rows": [[{"index": 0, "value": 1}]]}'
    return f'{{"{next(iter(given))}": [0.5, -0.25, …]}}'


def _row(name: str, schema: dict[str, Any], description: str, schemas: dict[str, Any]) -> str:
    default = f", {json.dumps(schema['default'])} if left out" if "default" in schema else ""
    kind = html.escape(_kind(schema, schemas) + default)
    said = html.escape(description)
    return f"<tr><th><code>{html.escape(name)}</code></th><td>{kind}</td><td>{said}</td></tr>"


def _kind(schema: dict[str, Any], schemas: dict[str, Any]) -> str:
    """A schema in words."""
    if "$ref" in schema:
        inner = schemas[schema["$ref"].rpartition("/")[2]]
        return "{" + ", ".join(inner.get("properties", {})) + "}"
    if "anyOf" in schema:
        kinds = dict.fromkeys(_kind(each, schemas) for each in schema["anyOf"])
        return " or ".join(kind for kind in kinds if kind != "null")
    if "enum" in schema or "const" in schema:
        return " or ".join(json.dumps(value) for value in schema.get("enum", [schema.get("const")]))
    if schema.get("type") == "array":
        items = _kind(schema.get("items", {}), schemas).split(" or ")
        return f"list of {' or '.join(map(_plural, items))}"
    return str(schema.get("type", "anything"))


def _plural(kind: str) -> str:
    noun, space, rest = kind.partition(" ")
    return f"{noun}s{space}{rest}" if noun in ("list", "string", "number", "integer") else kind
