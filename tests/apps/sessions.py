"""Personal pages, as people write them: Flask with its sessions under gunicorn, saying nothing of caches.

`/login?name=N` begins a session. `/count` tells how many other requests have reached it. `/fail?status=N` has every page
answer with that status, and `/fail` ends that.
"""

import threading

from flask import Flask, abort, request, send_file, session
from io import BytesIO
from werkzeug.http import http_date

app = Flask(__name__)
app.secret_key = "for a test"
lock = threading.Lock()
state = {"seen": 0, "status": None}


@app.before_request
def begin():
    if request.path in ("/count", "/fail", "/login"):
        return
    with lock:
        state["seen"] += 1
    if state["status"]:
        abort(state["status"])


def text():
    token = request.headers.get("Authorization", "").removeprefix("Bearer ")
    name = session.get("name") or token or "stranger"
    return f"<h1>The account of {name:.<9}</h1>"


@app.get("/count")
def count():
    return {"seen": state["seen"]}, {"Cache-Control": "no-store"}


@app.get("/fail")
def fail():
    state["status"] = request.args.get("status", type=int)
    return "", {"Cache-Control": "no-store"}


@app.get("/login")
def login():
    session["name"] = request.args["name"]
    return "", {"Cache-Control": "no-store"}


@app.get("/silent")
def silent():
    return text()


@app.get("/tagged")
def tagged():
    response = app.make_response(text())
    response.add_etag()
    return response.make_conditional(request)


@app.get("/dated")
def dated():
    response = app.make_response(text())
    response.headers["Last-Modified"] = http_date(1_420_070_400)
    return response.make_conditional(request)


@app.get("/file")
def file():
    """What `send_file` says by itself: `Cache-Control: no-cache`, a tag where there is a name, and a date."""
    return send_file(BytesIO(text().encode()), mimetype="text/html", last_modified=1_420_070_400)


@app.get("/zero")
def zero():
    response = app.make_response(text())
    response.cache_control.max_age = 0
    response.add_etag()
    return response.make_conditional(request)
