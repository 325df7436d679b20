"""`/docs`: the OpenAPI page in a browser, all of it from this server, and no other host reached from it."""

from base64 import b64encode
from hashlib import sha256
from importlib.util import find_spec
from pathlib import Path

from fastapi import APIRouter
from fastapi.responses import FileResponse, HTMLResponse, Response

from retriever.api.problems import NotFoundError
from retriever.core.errors import RetrieverError

router = APIRouter(include_in_schema=False)
_SCRIPT, _STYLE = "swagger-ui-bundle.js", "swagger-ui.css"
PATHS = ("/docs", f"/docs/{_SCRIPT}", f"/docs/{_STYLE}")
"""The page and its parts."""
_START = """
SwaggerUIBundle({
  url: "openapi.json", dom_id: "#page", deepLinking: true, validatorUrl: null, tryItOutEnabled: true,
  presets: [SwaggerUIBundle.presets.apis],
});
"""
_PAGE = f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>retriever</title>
<link rel="icon" href="data:,">
<link rel="stylesheet" href="docs/{_STYLE}">
</head>
<body>
<div id="page"></div>
<script src="docs/{_SCRIPT}"></script>
<script>{_START}</script>
</body>
</html>
"""
_POLICY = "; ".join(
    (
        "default-src 'none'",
        f"script-src 'self' 'sha256-{b64encode(sha256(_START.encode()).digest()).decode()}'",
        "style-src 'self' 'unsafe-inline'",  # of the parts that Swagger UI draws
        "img-src 'self' data:",
        "connect-src 'self'",
        "base-uri 'none'",
        "form-action 'none'",
        "frame-ancestors 'none'",
    )
)


@router.get("/docs")
async def page() -> Response:
    """Show every endpoint with its examples; they can be tried there."""
    return HTMLResponse(_PAGE, headers={"Content-Security-Policy": _POLICY})


@router.get("/docs/{name}")
async def part(name: str) -> Response:
    """Return the script or the style of the page.

    Raises:
        NotFoundError: it is neither.
    """
    if name not in (_SCRIPT, _STYLE):
        raise NotFoundError("There is no such address.", hint="The page is /docs.")
    return FileResponse(_folder() / name, headers={"Cache-Control": "max-age=86400"})


def _folder() -> Path:
    """Return where Swagger UI lies, the files of its own release, which the package fastapi-swagger brings.

    Raises:
        RetrieverError: the package is not there.
    """
    found = find_spec("fastapi_swagger")
    if found is None or found.origin is None:
        raise RetrieverError("The package 'fastapi_swagger' is missing.", hint="pip install 'retriever[serve]'")
    return Path(found.origin).parent / "resources"
