"""Answers with its variables and the body of the request, as JSON."""
import json


def application(environ, start_response):
    body = environ["wsgi.input"].read(int(environ.get("CONTENT_LENGTH") or 0))
    told = {name: value for name, value in environ.items() if isinstance(value, str)}
    told["body"] = len(body)
    told["scheme"] = environ["wsgi.url_scheme"]
    start_response("200 OK", [("Content-Type", "application/json"), ("Cache-Control", "no-store")])
    return [json.dumps(told).encode()]
