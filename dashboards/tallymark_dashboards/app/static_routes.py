"""Static files: kept for ever by browsers, under an address that has the hash of the contents."""

from __future__ import annotations

from typing import Annotated, Final

from fastapi import APIRouter, Header, HTTPException, Request
from fastapi.responses import Response

from tallymark_dashboards.frame.requests import context_of

FOR_EVER: Final = "public, max-age=31536000, immutable"

router = APIRouter(include_in_schema=False)


@router.get("/static/{path:path}")
@router.head("/static/{path:path}")
def static_file(
    request: Request,
    path: str,
    accept_encoding: Annotated[str, Header()] = "",
    if_none_match: Annotated[str, Header()] = "",
) -> Response:
    """One file. A page of an older version asks by another hash: it gets the file of today, which
    is not kept."""
    file, current = context_of(request).static.find(path)
    if file is None:
        raise HTTPException(404)
    tag = f'"{file.digest}"'
    headers = {
        "Cache-Control": FOR_EVER if current else "no-cache",
        "ETag": tag,
        "Vary": "Accept-Encoding",
    }
    if tag in if_none_match:
        return Response(status_code=304, headers=headers)
    if file.packed and "gzip" in accept_encoding:
        headers["Content-Encoding"] = "gzip"
        return Response(file.packed, headers=headers, media_type=file.media_type)
    return Response(file.body, headers=headers, media_type=file.media_type)
