"""A shop, as people write them: Flask under gunicorn, knowing nothing of larder.

Pages with validators and lifetimes, a login with a session, an upload, redirects, a page that streams, and pages
that are missing or fail. `/count` tells how many other requests have reached it.
"""

import hashlib
import threading

from flask import Flask, Response, abort, make_response, redirect, render_template_string, request, session

app = Flask(__name__)
app.secret_key = "for a test"

PAGE = "<!doctype html><title>{{ title }}</title><h1>{{ title }}</h1><p>{{ text }}</p>" + "<p>Fresh every day.</p>" * 60

lock = threading.Lock()
seen = 0
prices = {number: 100 + number for number in range(1, 100)}
files = {}
gates = {}


@app.before_request
def count():
    global seen
    if request.path != "/count":
        with lock:
            seen += 1


def page(title, text, max_age=60):
    response = make_response(render_template_string(PAGE, title=title, text=text))
    response.cache_control.public = True
    response.cache_control.max_age = max_age
    response.set_etag(hashlib.sha1(response.get_data()).hexdigest())
    return response.make_conditional(request)


@app.get("/count")
def counted():
    return {"seen": seen}, {"Cache-Control": "no-store"}


@app.get("/")
def front():
    return page("The shop", "Apples, pears and plums.")


@app.get("/item/<int:number>")
def item(number):
    if number not in prices:
        abort(404)
    return page(f"Item {number}", f"It costs {prices[number]}.")


@app.post("/item/<int:number>")
def reprice(number):
    prices[number] = int(request.form["price"])
    return redirect(f"/item/{number}", code=303)


@app.get("/search")
def search():
    return page("Search", f"You looked for {request.args.get('q', 'nothing')}.", max_age=30)


@app.get("/old")
def old():
    return redirect("/item/1", code=301)


@app.post("/login")
def login():
    session["name"] = request.form["name"]
    return redirect("/me")


@app.post("/logout")
def logout():
    session.clear()
    return redirect("/")


@app.get("/me")
def me():
    name = session.get("name", "stranger")
    return render_template_string(PAGE, title="You", text=f"Hello {name}.")


@app.get("/visit")
def visit():
    """Says that it may be cached, and yet sets a cookie: a common mistake."""
    response = page("Visit", "Welcome.")
    response.set_cookie("visitor", f"number-{seen}")
    return response


@app.post("/upload")
def upload():
    file = request.files["file"]
    files[file.filename] = file.read()
    return {"name": file.filename, "bytes": len(files[file.filename]), "note": request.form["note"]}, 201


@app.get("/uploaded/<name>")
def uploaded(name):
    if name not in files:
        abort(404)
    return Response(files[name], mimetype="application/octet-stream", headers={"Cache-Control": "max-age=60"})


@app.get("/stream/<name>")
def stream(name):
    """The second half is sent once somebody has asked for `/stream/NAME/go`."""
    gate = gates.setdefault(name, threading.Event())

    def halves():
        yield "first half\n"
        gate.wait(20)
        yield "second half\n"

    return Response(halves(), mimetype="text/plain", headers={"Cache-Control": "max-age=60"})


@app.post("/stream/<name>/go")
def go(name):
    gates.setdefault(name, threading.Event()).set()
    return "", 204


@app.get("/broken")
def broken():
    raise RuntimeError("the till is stuck")


@app.errorhandler(404)
def missing(_):
    return "<h1>There is no such page in this shop.</h1>", 404


@app.errorhandler(500)
def failed(_):
    return "<h1>The shop is closed for a moment.</h1>", 500
