"""The browser of whoever reads a page: signs in, confirms the code of `tp login`, notes what it was shown. `reader.py ADDRESS`.

READER_NAME and READER_PASSWORD are the account; a line `status address` per page goes to READER_NOTES.
"""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import httpx2 as httpx


def main(address: str) -> None:
    parts = urlsplit(address)
    with httpx.Client(base_url=f"{parts.scheme}://{parts.netloc}", follow_redirects=True, timeout=60) as client:
        client.headers.update({"Accept": "text/html", "Accept-Language": "en", "Sec-Fetch-Site": "same-origin"})
        account = {"username": os.environ["READER_NAME"], "password": os.environ["READER_PASSWORD"]}
        client.post("/signin", data=account).raise_for_status()
        page = client.get(address)
        if parts.path == "/device":
            token = re.search(r'<meta name="csrf-token" content="([^"]+)"', page.text)
            assert token is not None, page.text
            code = parse_qs(parts.query)["code"][0]
            page = client.post("/device", data={"csrf_token": token[1], "code": code, "answer": "approve"})
        with Path(os.environ["READER_NOTES"]).open("a", encoding="utf-8") as notes:
            notes.write(f"{page.status_code} {parts.path}\n")


if __name__ == "__main__":
    main(sys.argv[1])
